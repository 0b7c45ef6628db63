import { byteText, latin1Spelling, utf8Text } from '../bytes.ts';
import { compilePattern, longestValue } from '../regex.ts';
import type { NamedMatch } from '../route-rule.ts';
import { type Question, UnexaminedValue } from './question.ts';

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

/** One character per byte; throws `UnexaminedValue`. */
type Holds = (value: string, question: Question) => boolean;

export interface ValueTest {
  readonly name: string;
  readonly holds: Holds;
}

/**
 * A predicate on whole values, read as UTF-8. Patterns were checked on admission; one that still fails matches nothing.
 *
 * @param ignoreCase for readings by servers without a sense of case.
 */
export function patternTest(source: string, what: string, ignoreCase = false): Holds {
  const pattern = compilePattern(source, ignoreCase);
  if (!pattern.ok) return () => false;
  return (value, question) => {
    if (!value.startsWith(pattern.start)) return false;
    if (value.length > longestValue) {
      throw new UnexaminedValue(
        `${what} is longer than ${longestValue} characters and a regular expression must examine it`,
      );
    }
    question.examine(value, pattern.steps, what);
    const text = utf8Text(value);
    if (text === null) throw new UnexaminedValue(`${what} is not UTF-8 and a regular expression must examine it`);
    const matches = pattern.matches(text, () => question.compile(what));
    if (matches === null) {
      throw new UnexaminedValue(`${what} is not ASCII, and a regular expression asks where its words begin or end`);
    }
    return matches;
  };
}

/** A header's value beyond this is no text to Linkerd, and no regular expression matches it (HeaderValue::to_str). */
const headerText = /^[\t\x20-\x7e]*$/;

function headerPatternTest(source: string, what: string): Holds {
  const holds = patternTest(source, what);
  return (value, question) => headerText.test(value) && holds(value, question);
}

export function valueTest({ name, type, value }: NamedMatch, of: 'header' | 'query parameter'): ValueTest {
  const what = `${of} ${name}`;
  if (type === 'exact') return { name, holds: exactTest(value, what) };
  return { name, holds: of === 'header' ? headerPatternTest(value, what) : patternTest(value, what) };
}

function exactTest(text: string, what: string): Holds {
  const wanted = byteText(text);
  const latin1 = latin1Spelling(text);
  if (latin1 === null) return (value) => value === wanted;
  return (value) => {
    if (value === latin1) throw new UnexaminedValue(`${what} is in Latin-1 what a rule looks for in UTF-8`);
    return value === wanted;
  };
}

/**
 * All tests must hold, each for any one value of its header; a header that may occur once only, and does not, makes the
 * request unjudgeable. `l5d-client-id` is the verified identity or nothing, and
 * never what the client sent under that name.
 */
export function headersHold(tests: readonly ValueTest[], question: Question): boolean {
  for (const test of tests) {
    if (test.name === 'l5d-client-id') {
      if (question.clientId === null || !test.holds(question.clientId, question)) return false;
      continue;
    }
    const values = question.header(test.name);
    if (values.length > 1 && singular.has(test.name)) throw new UnexaminedValue(`header ${test.name} is repeated`);
    if (!values.some((value) => test.holds(value, question))) return false;
  }
  return true;
}

/** All tests must hold, each for any value of its parameter in the reading that is asked about. Names are exact. */
export function queryHolds(tests: readonly ValueTest[], question: Question): boolean {
  for (const test of tests) {
    if (!question.parameter(test.name).some((value) => test.holds(value, question))) return false;
  }
  return true;
}
