import type { NamedMatch } from './document-types.ts';
import { compilePattern, longestValue } from './regex.ts';

/** Thrown where a value is too long to be examined whole: the request is refused, neither matched nor passed over. */
export class UnexaminedValue extends Error {
  constructor(what: string) {
    super(`${what} is longer than ${longestValue} characters and a regular expression must examine it`);
  }
}

export interface ValueTest {
  readonly name: string;
  holds(value: string): boolean;
}

/** A predicate on whole values. Patterns were checked on admission; one that still fails matches nothing. */
export function patternTest(source: string, what: string): (value: string) => boolean {
  const pattern = compilePattern(source);
  if (!pattern.ok) return () => false;
  return (value) => {
    if (value.length > longestValue) throw new UnexaminedValue(what);
    return pattern.matches(value);
  };
}

export function valueTest({ name, type, value: wanted }: NamedMatch, what: string): ValueTest {
  return { name, holds: type === 'exact' ? (value) => value === wanted : patternTest(wanted, what) };
}

/**
 * All tests must hold, each for any one value of its header. `l5d-client-id` is the verified identity or nothing, and
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
    let held = false;
    for (const value of header.header(test.name)) {
      if (test.holds(value)) {
        held = true;
        break;
      }
    }
    if (!held) return false;
  }
  return true;
}

/** One remembered query: several matches of one request ask for the same one. */
let lastQuery = { text: '', pairs: [] as readonly (readonly [string, string])[] };

/** All tests must hold, each for any occurrence of its parameter, after form decoding (`+`, `%xx`). Names are exact. */
export function queryHolds(tests: readonly ValueTest[], query: string): boolean {
  if (tests.length === 0) return true;
  if (query === '') return false;
  if (lastQuery.text !== query) lastQuery = { text: query, pairs: [...new URLSearchParams(query)] };
  const { pairs } = lastQuery;
  return tests.every((test) => pairs.some(([name, value]) => name === test.name && test.holds(value)));
}
