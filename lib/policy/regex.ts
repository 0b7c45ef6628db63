import { RE2JS } from 're2js';
import { isAscii } from './bytes.ts';
import { type Translated, translate } from './rust-regex.ts';
import { PatternFault } from './rust-syntax.ts';

/** As the CRDs allow for a path's value; a longer pattern is refused rather than compiled. */
const longestPattern = 1024;

/**
 * Values longer than this are not matched but refused: a value not fully examined must count neither as a match that
 * admits nor as a miss that hands the request to a wider rule.
 */
export const longestValue = 4096;

export type Pattern =
  /**
   * `start`: what every value that matches begins with; may be empty. `steps`: at most, for each character of a value.
   * `matches`: null where nobody here can say: beyond ASCII, of an expression that asks where words begin or end. It says
   * before it compiles, which takes a millisecond, once.
   */
  | {
      readonly ok: true;
      readonly start: string;
      readonly steps: number;
      readonly matches: (value: string, compiling?: () => void) => boolean | null;
    }
  | { readonly ok: false; readonly fault: string };

/**
 * Bytes of states that an expression may keep. One that counts (`.*a.{20}b`) has a million, which values chosen for it
 * bring forth one a character: eight times the price of going without, and memory for each expression.
 */
const mostStateBytes = 64 * 1024;

/**
 * Compiles a regular expression, as Linkerd reads it, that matches whole values in time linear in their length.
 * Linkerd instead takes the leftmost-first match and then asks whether it spans the value, so that `/a|/ab` fails on `/ab`;
 * here it matches, as everybody who writes it expects.
 */
export function compilePattern(source: string, ignoreCase = false): Pattern {
  const read = readPattern(source, ignoreCase);
  if (typeof read === 'string') return { ok: false, fault: read };
  const { ascii, unicode, words } = read;
  try {
    const plain = compiled(ascii);
    let other: RE2JS | null = unicode === null ? plain : null;
    const matches = (value: string, compiling?: () => void): boolean | null => {
      if (isAscii(value)) return plain.testExact(value);
      if (words) return null;
      if (other === null && unicode !== null) {
        compiling?.();
        other = compiled(unicode());
      }
      return other?.testExact(value) ?? null;
    };
    return { ok: true, start: ignoreCase ? '' : literalStart(source), steps: plain.programSize(), matches };
  } catch (error) {
    return { ok: false, fault: engineFault(error) };
  }
}

function compiled(text: string): RE2JS {
  const pattern = RE2JS.compile(text);
  const states = pattern.re2().dfa;
  states.stateBudget = mostStateBytes;
  states.memBudget = mostStateBytes;
  return pattern;
}

/** Why it is none, or none that is carried over. */
function readPattern(source: string, ignoreCase: boolean): Translated | string {
  if (source.length > longestPattern) return `the regular expression is longer than ${longestPattern} characters`;
  try {
    return translate(source, ignoreCase);
  } catch (error) {
    if (!(error instanceof PatternFault)) throw error;
    return error.message.startsWith('Linkerd ') ? error.message : `not a regular expression: ${error.message}`;
  }
}

function engineFault(error: unknown): string {
  return `not a regular expression: ${error instanceof Error ? error.message : String(error)}`;
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
  /** Beyond ASCII it is not known to match, nor not to. */
  readonly asciiAlone: boolean;
}

/** Null where `compilePattern` has a fault. */
export function patternProgram(source: string, ignoreCase = false): PatternProgram | null {
  const read = readPattern(source, ignoreCase);
  if (typeof read === 'string') return null;
  try {
    const { prog, dfa } = RE2JS.compile(read.unicode?.() ?? read.ascii).re2();
    return { start: prog.start, instructions: prog.inst, bounds: [...dfa.classBounds], asciiAlone: read.words };
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
