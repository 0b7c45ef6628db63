/**
 * No difference of two policies is missed: pairs of policies at random, and questions that meet them.
 */

import t from 'tap';
import fc from '../../support/properties.ts';
import { missed, randomPair, randomQuestion, type Tally } from '../../support/two-policies.ts';

const seed = Number(process.env.FUZZ_SEED ?? 12);
const pairs = Number(process.env.ANALYSIS_PAIRS ?? 160);
const questionsOfPair = Number(process.env.ANALYSIS_QUESTIONS ?? 300);

t.setTimeout(0);

t.test('what two policies answer otherwise is in a block of their comparison', async (t) => {
  const questions = fc.sample(randomQuestion, { seed, numRuns: questionsOfPair });
  const tally: Tally = { asked: 0, different: 0, byReading: 0 };
  const failures: string[] = [];
  for (const pair of fc.sample(randomPair, { seed, numRuns: pairs })) {
    for (const { ip, ...query } of missed(pair, questions, tally)) {
      failures.push(JSON.stringify({ query: { ...query, client: ip.text }, pair }));
    }
  }
  t.same(failures.slice(0, 3), [], `${failures.length} of ${tally.different} differences were missed`);
  t.ok(tally.different > tally.asked / 50, `${tally.different} of ${tally.asked} questions are answered otherwise`);
});
