import { compilePattern } from '../policy/regex.ts';
import type { ValueMatch } from '../policy/route-rule.ts';
import { type Effort, patternMachine, TooLarge, textOf, type Want } from './automaton.ts';
import { wordsMachine } from './words.ts';

/*
 * Values of one header or query parameter for which some tests hold and others do not. Of several values any may make a test
 * hold; where a header may come once only, one value must answer for all of them.
 */

const plain = '(?:[!-~](?:[ -~]*[!-~])?)?';
/**
 * What values may be, plain ones first: of fields all that HTTP takes for one (RFC 9110 section 5.5; a tab may stand within),
 * of parameters any text, which comes escaped.
 */
const shapes = {
  header: [plain, '(?:[^\\x00-\\x20\\x7f](?:[^\\x00-\\x08\\x0a-\\x1f\\x7f]*[^\\x00-\\x20\\x7f])?)?'],
  query: [plain, '(?s:.*)'],
} as const;
export type ValueKind = keyof typeof shapes;

/** What a regular expression of headers may match at all, and values that hold something else. */
const headerText = '[\\t -~]*';
const otherText = '(?s:.*)[^\\t -~](?s:.*)';
const isHeaderText = /^[\t\x20-\x7e]*$/;

/** The values to send, none where the field may be absent; null where no values do. @throws {TooLarge} */
export function valuesFor(
  kind: ValueKind,
  holding: readonly ValueMatch[],
  failing: readonly ValueMatch[],
  severalFit: boolean,
  effort: Effort,
): readonly string[] | null {
  if (holding.length === 0) return [];
  if (!severalFit) {
    const value = valueFor(kind, holding, failing, effort);
    return value === null ? null : [value];
  }
  const values: string[] = [];
  // Texts in full come first: they may do for an expression as well.
  for (const test of [...holding].sort((a, b) => Number(a.type === 'regex') - Number(b.type === 'regex'))) {
    if (values.some((value) => sentHolds(kind, test, value))) continue;
    const value = valueFor(kind, [test], failing, effort);
    if (value === null) return null;
    values.push(value);
  }
  return values;
}

function valueFor(
  kind: ValueKind,
  holding: readonly ValueMatch[],
  failing: readonly ValueMatch[],
  effort: Effort,
): string | null {
  const exact = holding.find(({ type }) => type === 'exact');
  const patterns = holding.some(({ type }) => type === 'regex');
  if (exact !== undefined) {
    const { value } = exact;
    const holds = (test: ValueMatch): boolean => sentHolds(kind, test, value);
    const fits = holding.every(holds) && !failing.some(holds);
    return fits ? value : null;
  }
  const texts = failing.filter(({ type }) => type === 'exact').map(({ value }) => value);
  const unlike = failing.flatMap(({ type, value }) => (type === 'regex' ? [value] : []));
  const wants: Want[] = [
    ...holding.map(({ value }) => ({ machine: patternMachine(value), holds: true })),
    { machine: wordsMachine(texts), holds: false },
  ];
  for (const like of shapes[kind]) {
    const shaped = [{ machine: patternMachine(like), holds: true }, ...wants];
    const parts = kind === 'header' ? [headerText, ...(patterns ? [] : [otherText])] : [null];
    for (const part of parts) {
      const asked = part === null ? shaped : [{ machine: patternMachine(part), holds: true }, ...shaped];
      const value = textUnlike(asked, part === otherText ? [] : unlike, effort);
      if (value !== null) return value;
    }
  }
  return null;
}

/**
 * A text as `textOf` finds it that no expression of a list matches. As automata only those are asked that match what is found
 * without them: of a thousand expressions few have to do with each other.
 *
 * @throws {TooLarge}
 */
export function textUnlike(wants: readonly Want[], patterns: readonly string[], effort: Effort): string | null {
  const asked = [...wants];
  for (;;) {
    const text = textOf(asked, effort);
    if (text === null) return null;
    effort.left -= patterns.length;
    if (effort.left < 0) throw new TooLarge();
    const matching = patterns.filter((pattern) => patternHolds(pattern, text));
    if (matching.length === 0) return text;
    asked.push(...matching.map((pattern) => ({ machine: patternMachine(pattern), holds: false })));
  }
}

/** Whether a test holds for a value that is sent as a header or a parameter. */
export function sentHolds(kind: ValueKind, test: ValueMatch, given: string): boolean {
  return (kind !== 'header' || test.type === 'exact' || isHeaderText.test(given)) && valueHolds(test, given);
}

export function valueHolds({ type, value }: ValueMatch, given: string): boolean {
  if (type === 'exact') return value === given;
  return patternHolds(value, given);
}

const compiled = new Map<string, (value: string) => boolean>();
const mostCompiled = 16_384;

/** Whether an expression matches the whole of a text. */
export function patternHolds(source: string, text: string): boolean {
  let matches = compiled.get(source);
  if (matches === undefined) {
    const pattern = compilePattern(source);
    matches = pattern.ok ? (value) => value.startsWith(pattern.start) && pattern.matches(value) === true : () => false;
    if (compiled.size >= mostCompiled) compiled.clear();
    compiled.set(source, matches);
  }
  return matches(text);
}
