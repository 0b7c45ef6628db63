/**
 * Regular expressions mean what they mean to Linkerd. What the crate that it matches by says of some three thousand, with
 * 60 texts each, is in `fixtures/rust-regex.jsonl` (`support/rust-regex` asked it).
 */

import { readFileSync } from 'node:fs';
import t from 'tap';
import { patternMachine, textOf } from '../../../lib/analysis/automaton.ts';
import { compilePattern } from '../../../lib/policy/regex.ts';

const [texts, ...rows] = readFileSync(new URL('../../fixtures/rust-regex.jsonl', import.meta.url), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line) as string[]);

/** What is not carried over, and refused instead. */
const notCarried = /^Linkerd reads|is no category or script|is too large|invalid repeat count|bad repetition/;

t.test('what Linkerd refuses is refused, and what it takes matches the same texts', async (t) => {
  const wrong: string[] = [];
  let asked = 0;
  let left = 0;
  for (const [pattern = '', answers = ''] of rows) {
    const ours = compilePattern(pattern);
    if (answers === 'refused') {
      if (ours.ok) wrong.push(`${pattern}: Linkerd refuses it`);
      continue;
    }
    if (!ours.ok) {
      left++;
      if (!notCarried.test(ours.fault)) wrong.push(`${pattern}: ${ours.fault}`);
      continue;
    }
    (texts ?? []).forEach((text, i) => {
      asked++;
      const matches = text.startsWith(ours.start) ? ours.matches(text) : false;
      if (matches === null && /\\b|\\B/.test(pattern) && /[^\0-\x7f]/.test(text)) return;
      if (matches !== (answers[i] !== '0'))
        wrong.push(`${JSON.stringify([pattern, text])}: ${matches}, Linkerd ${answers[i]}`);
    });
  }
  t.same(wrong.slice(0, 20), [], `${wrong.length} of ${asked} are answered otherwise`);
  t.ok(asked > 70_000, `${asked} asked`);
  t.ok(left < rows.length / 25, `${left} are not carried over`);
});

t.test('the automaton that analysis asks is the same one', async (t) => {
  for (const [pattern, like] of [
    ['\\w', 'x'],
    ['[^\\x00-\\x7f&&]', null],
    ['[^\\x00-\\x7f]', /^[^\0-\x7f]$/u],
    ['\\w\\b\\W', /^\w\W$/],
    ['(?:\\w)', 'x'],
  ] as const) {
    const found = textOf([{ machine: patternMachine(pattern), holds: true }]);
    if (like instanceof RegExp) t.match(found, like, pattern);
    else t.equal(found, like, pattern);
  }
});

t.test('what values cost does not grow with the tables', async (t) => {
  for (const source of ['\\w+', '(?:\\w+/)*\\d', '(?i)[^\\W]*x', '\\p{L}{1,20}']) {
    const pattern = compilePattern(source);
    if (!pattern.ok) throw new Error(pattern.fault);
    const value = 'é\u65e5x'.repeat(1300);
    pattern.matches(value);
    const started = performance.now();
    pattern.matches(value);
    const took = performance.now() - started;
    t.ok(took < 50, `${source}: ${took.toFixed(1)} ms`);
  }
});
