import type { NamedMatch } from './document-types.ts';
import { compilePattern, longestValue } from './regex.ts';

/** Thrown where a value cannot be judged for certain: the request is refused, neither matched nor passed over. */
export class UnexaminedValue extends Error {}

/**
 * Fields that a message may hold once only (RFC 9110 5.3 allows repetition for lists alone). Of two, policy might match
 * one and the app believe the other (CVE-2020-25017).
 */
const singular: ReadonlySet<string> = new Set([
  'authorization',
  'content-length',
  'content-location',
  'content-type',
  'date',
  'from',
  'host',
  'if-modified-since',
  'if-range',
  'if-unmodified-since',
  'max-forwards',
  'origin',
  'proxy-authorization',
  'range',
  'referer',
  'user-agent',
]);

export interface ValueTest {
  readonly name: string;
  holds(value: string): boolean;
}

/** A predicate on whole values. Patterns were checked on admission; one that still fails matches nothing. */
export function patternTest(source: string, what: string): (value: string) => boolean {
  const pattern = compilePattern(source);
  if (!pattern.ok) return () => false;
  return (value) => {
    if (value.length > longestValue) {
      throw new UnexaminedValue(
        `${what} is longer than ${longestValue} characters and a regular expression must examine it`,
      );
    }
    return pattern.matches(value);
  };
}

export function valueTest({ name, type, value: wanted }: NamedMatch, what: string): ValueTest {
  return { name, holds: type === 'exact' ? (value) => value === wanted : patternTest(wanted, what) };
}

/**
 * All tests must hold, each for any one value of its header; a header that may occur once only, and does not, makes the
 * request unjudgeable. `l5d-client-id` is the verified identity or nothing, and
 * never what the client sent under that name.
 */
export function headersHold(
  tests: readonly ValueTest[],
  header: { header(name: string): readonly string[] },
  clientId: string | null,
): boolean {
  for (const test of tests) {
    if (test.name === 'l5d-client-id') {
      if (clientId === null || !test.holds(clientId)) return false;
      continue;
    }
    const values = header.header(test.name);
    if (values.length > 1 && singular.has(test.name)) throw new UnexaminedValue(`header ${test.name} is repeated`);
    if (!values.some((value) => test.holds(value))) return false;
  }
  return true;
}

/** One remembered query: several matches of one request ask for the same one. */
let lastQuery = { text: '', pairs: [] as readonly (readonly [string, string])[] };

/**
 * All tests must hold, each for any occurrence of its parameter, after form decoding (`+`, `%xx`). Names are exact. The
 * question mark that the parser takes off is the target's own: another one belongs to the first name.
 */
export function queryHolds(tests: readonly ValueTest[], query: string): boolean {
  if (tests.length === 0) return true;
  if (query === '') return false;
  if (lastQuery.text !== query) lastQuery = { text: query, pairs: [...new URLSearchParams(`?${query}`)] };
  const { pairs } = lastQuery;
  return tests.every((test) => pairs.some(([name, value]) => name === test.name && test.holds(value)));
}
