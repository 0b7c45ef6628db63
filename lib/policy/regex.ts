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
  const refused = refusal(source);
  if (refused !== null) return { ok: false, fault: refused };
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

/** What is refused though it compiles. */
function refusal(source: string): string | null {
  if (source.length > longestPattern) return `the regular expression is longer than ${longestPattern} characters`;
  const text = readOtherwise(source);
  return text === null ? null : `Linkerd reads "${text}" there otherwise than RE2`;
}

/** The next piece of an expression, within a class and outside of one. */
const pieces = {
  class: /\[:\^?\w+:\]|&&|--|~~|\\.|./sy,
  plain: /\\Q.*?(?:\\E|$)|\\b\{|\\.|\[\^?\]?|./sy,
} as const;

/**
 * What Linkerd, whose expressions are Rust's, takes for something else than RE2 does, which would decide otherwise without a
 * word: operations on classes and classes inside classes, where RE2 has plain characters; and where words begin and end.
 */
const otherwise = {
  class: new Set(['[', '&&', '--', '~~']),
  plain: new Set(['\\<', '\\>', '\\b{']),
} as const;

/** The first piece that is read otherwise; null where none is. */
function readOtherwise(source: string): string | null {
  let where: 'plain' | 'class' = 'plain';
  for (let at = 0; at < source.length; ) {
    const piece: RegExp = pieces[where];
    piece.lastIndex = at;
    const text = piece.exec(source)?.[0] ?? '';
    if (otherwise[where].has(text)) return text;
    if (where === 'plain') where = text.startsWith('[') ? 'class' : 'plain';
    else if (text === ']') where = 'plain';
    at += text.length;
  }
  return null;
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
  if (refusal(source) !== null) return null;
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
