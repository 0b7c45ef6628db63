import { RE2JS } from 're2js';

/** As the CRDs allow for a path's value; a longer pattern is refused rather than compiled. */
const longestPattern = 1024;

/**
 * Values longer than this are not matched but refused: a value not fully examined must count neither as a match that
 * admits nor as a miss that hands the request to a wider rule.
 */
export const longestValue = 4096;

export type Pattern =
  /** `start`: what every value that matches begins with; may be empty. `steps`: at most, for each character of a value. */
  | {
      readonly ok: true;
      readonly start: string;
      readonly steps: number;
      readonly matches: (value: string) => boolean;
    }
  | { readonly ok: false; readonly fault: string };

/**
 * Bytes of states that an expression may keep. One that counts (`.*a.{20}b`) has a million, which values chosen for it
 * bring forth one a character: eight times the price of going without, and memory for each expression.
 */
const mostStateBytes = 64 * 1024;

/**
 * Compiles a regular expression (RE2 syntax) that matches whole values in time linear in their length.
 * Linkerd instead takes the leftmost-first match and then asks whether it spans the value, so that `/a|/ab` fails on `/ab`;
 * here it matches, as everybody who writes it expects.
 */
export function compilePattern(source: string, ignoreCase = false): Pattern {
  if (source.length > longestPattern) {
    return { ok: false, fault: `the regular expression is longer than ${longestPattern} characters` };
  }
  try {
    const pattern = RE2JS.compile(source, ignoreCase ? RE2JS.CASE_INSENSITIVE : 0);
    const states = pattern.re2().dfa;
    states.stateBudget = mostStateBytes;
    states.memBudget = mostStateBytes;
    const start = ignoreCase ? '' : literalStart(source);
    return { ok: true, start, steps: pattern.programSize(), matches: (value) => pattern.testExact(value) };
  } catch (error) {
    return { ok: false, fault: `not a regular expression: ${error instanceof Error ? error.message : String(error)}` };
  }
}

/** One instruction of a compiled expression, by the numbers that the library gives its kinds. */
export interface PatternInstruction {
  readonly op: number;
  readonly out: number;
  readonly arg: number;
  matchRune(rune: number): boolean;
}

/** An expression as the machine that decides, for who must know all values that match rather than judge one. */
export interface PatternProgram {
  readonly start: number;
  readonly instructions: readonly PatternInstruction[];
  /** Characters from one of these to the next are all alike to it; ascending. */
  readonly bounds: readonly number[];
}

/** Null where `compilePattern` has a fault. */
export function patternProgram(source: string, ignoreCase = false): PatternProgram | null {
  if (source.length > longestPattern) return null;
  try {
    const { prog, dfa } = RE2JS.compile(source, ignoreCase ? RE2JS.CASE_INSENSITIVE : 0).re2();
    return { start: prog.start, instructions: prog.inst, bounds: [...dfa.classBounds] };
  } catch {
    // `compilePattern` says what is wrong with it, and whoever decides takes it for one that matches nothing.
    return null;
  }
}

/** Plain characters at the start that nothing makes optional; empty wherever that takes more than a look to tell. */
function literalStart(source: string): string {
  const plain = /^[\w/-]*/.exec(source)?.[0] ?? '';
  if (plain === '' || source.includes('|')) return '';
  return /^[*?{+]/.test(source.slice(plain.length)) ? plain.slice(0, -1) : plain;
}
