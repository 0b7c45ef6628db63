import t from 'tap';
import type { ContenderResult, Round } from '../../../benchmarks/measure.ts';
import { type Scenario, scenarios } from '../../../benchmarks/scenarios.ts';
import { attemptOf, judged, roundRatios, stored } from '../../../benchmarks/smoke-judge.ts';

t.test('a quarter more CPU time in every attempt is a loss', async (t) => {
  const no = null;
  const rows: readonly (readonly [attempts: (number | null)[], stored: number, verdict: string])[] = [
    [[0.8], 0.8, 'fine'],
    [[1.2], 0.8, 'fine'],
    [[0.65], 0.8, 'fine'],
    [[0.63], 0.8, 'again'],
    [[0.63, 0.7], 0.8, 'fine'],
    [[0.1, 0.2, no, 0.3], 0.8, 'again'],
    [[0.1, 0.2, 0.3, no, 0.8], 0.8, 'fine'],
    [[0.6, 0.62, 0.63, 0.59, 0.6], 0.8, 'dearer'],
    [[no, 0.62, no, 0.59, no], 0.8, 'dearer'],
    [[no, 0.62, no, no, no], 0.8, 'unknown'],
    [[no, no, no, no, no], 0.8, 'unknown'],
    [[], 0.8, 'again'],
  ];
  for (const [attempts, before, verdict] of rows) {
    t.equal(judged(attempts, before).verdict, verdict, `${attempts} of ${before}`);
  }
  t.equal(judged([0.6], 0.8, true).verdict, 'unknown', 'nobody waits for another');
  t.equal(judged([0.6, 0.5], 0.8, true).verdict, 'dearer');
  t.equal(judged([0.6, 0.7], 0.8, true).verdict, 'fine');
});

t.test('an attempt has two clean rounds', async (t) => {
  const clean = (ratio: number) => ({ ratio, clean: true });
  const not = (ratio: number) => ({ ratio, clean: false });
  t.equal(attemptOf([clean(0.7), clean(0.8), clean(0.9)]), 0.8);
  t.equal(attemptOf([clean(0.7), not(0.1), clean(0.9)]), 0.8);
  t.equal(attemptOf([clean(0.7), not(0.1), not(0.9)]), null);
  t.equal(attemptOf([]), null);
});

t.test('what is stored is a ratio above 0 for each scenario', async (t) => {
  t.same(stored('{"http1-keepalive":0.8}'), { 'http1-keepalive': 0.8 });
  for (const text of ['', '[', 'null', '3', '{"a":0}', '{"a":"0.8"}', '{"a":-1}', '{"a":null}']) {
    t.throws(() => stored(text), text);
  }
});

t.test('rounds are compared one by one', async (t) => {
  const contender = (
    name: ContenderResult['contender'],
    costs: readonly (number | null)[],
    busy: Partial<Round> = {},
  ): ContenderResult => {
    const rounds = costs.map((cpuMicrosPerUnit) => ({ cpuMicrosPerUnit, disturbed: 0.1, stolen: 0, ...busy }) as Round);
    return { contender: name, rounds, median: rounds[0] as Round, disturbance: null, peakResidentBytes: null };
  };
  const of = (...contenders: ContenderResult[]): (readonly [number, boolean])[] =>
    roundRatios({ scenario: scenarios[0] as Scenario, contenders }).map(({ ratio, clean }) => [ratio, clean]);
  const haproxy = contender('haproxy', [10, 10, 10]);
  t.same(of(contender('sallyport', [10, 20, 40]), haproxy), [
    [1, true],
    [0.5, true],
    [0.25, true],
  ]);
  t.same(of(contender('sallyport', [10, null]), haproxy), [[1, true]]);
  t.same(of(contender('sallyport', [10], { disturbed: 0.2 }), haproxy), [[1, false]]);
  t.same(of(contender('sallyport', [10]), contender('haproxy', [10], { stolen: 0.05 })), [[1, false]]);
  t.same(of(contender('sallyport', [10])), []);
});
