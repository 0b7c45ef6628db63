import type { Parser } from './values.ts';

/** One row of the environment: how its text is read, what stands in its place when unset, and what it is for. */
export interface Variable<T> {
  readonly parse: Parser<T>;
  /** The text that is parsed when the variable is unset; null where there is none and the value is then null. */
  readonly fallback: string | null;
  /** As the README's table shows the default. */
  readonly shown: string;
  readonly meaning: string;
  /** Whether `VARIABLE=` means an empty list. Everywhere else it means unset, as an empty downward-API field does. */
  readonly emptyIsList: boolean;
}

export function always<T>(fallback: string, parse: Parser<T>, meaning: string): Variable<T> {
  return { parse, fallback, shown: fallback, meaning, emptyIsList: false };
}
/** Null where it is not set; `shown` says what then holds. */
export function optional<T>(shown: string, parse: Parser<T>, meaning: string): Variable<T | null> {
  return { parse, fallback: null, shown, meaning, emptyIsList: false };
}
export function listed<T>(fallback: string, parse: Parser<T>, meaning: string): Variable<T> {
  return { parse, fallback, shown: fallback, meaning, emptyIsList: true };
}
