/*
 * A text has one meaning: what is read as an ordinary one says the same, at the same places, to the reader that knows all of
 * YAML. How long it searches: see budget.ts.
 */
import fc from 'fast-check';
import t from 'tap';
import { agreementOn, yamlText } from '../support/yaml-texts.ts';
import { search, timeLimitMs } from './budget.ts';

t.setTimeout(timeLimitMs);

t.test('two readers, one meaning', async (t) => {
  const seen = { same: 0, other: 0 };
  const found = await search(
    fc.property(yamlText, (text) => {
      const agreement = agreementOn(text);
      if (typeof agreement !== 'string') throw new Error(agreement.difference);
      seen[agreement]++;
    }),
    1,
    () => seen.same > 500,
  );
  t.equal(found, null);
  for (const [kind, runs] of Object.entries(seen)) t.ok(runs > 500, `${kind}: ${runs}`);
});
