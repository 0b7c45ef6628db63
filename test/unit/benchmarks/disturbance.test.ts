import t from 'tap';
import { counted, disturbance } from '../../../benchmarks/disturbance.ts';
import { markdown } from '../../../benchmarks/markdown.ts';
import type { ContenderResult, Round, ScenarioResult } from '../../../benchmarks/measure.ts';
import { json, ratios, table } from '../../../benchmarks/report.ts';
import { scenarios } from '../../../benchmarks/scenarios.ts';

/** CPU microseconds; the shares of the proxy's core that went elsewhere, and of these to the host; that of idle time. */
type Row = readonly [cost: number, elsewhere?: number, stolen?: number, idle?: number];

function roundsOf(rows: readonly Row[]): Round[] {
  return rows.map(([cost, disturbed = 0, stolen = 0, idle = null]) => ({
    unitsPerSecond: 1e6 / cost,
    cpuMicrosPerUnit: cost,
    busy: 1,
    disturbed,
    stolen,
    idle,
    pausesPerSecond: null,
    p50Micros: 500,
    p99Micros: 1000,
  }));
}

t.test('what disturbs a measurement', async (t) => {
  const rows: readonly { readonly name: string; readonly rounds: readonly Row[]; readonly says: RegExp | null }[] = [
    { name: 'nothing', rounds: [[10], [10.5], [9.8]], says: null },
    { name: 'a little', rounds: [[10, 0.09, 0.02], [10], [10]], says: null },
    { name: 'one of three', rounds: [[10], [10], [30, 0.5]], says: null },
    { name: 'one of two', rounds: [[10], [30, 0.5]], says: null },
    { name: 'most', rounds: [[10], [30, 0.5], [20, 0.3]], says: /^other programs had 30% of the proxy's core$/ },
    {
      name: 'the host',
      rounds: [
        [10, 0.05, 0.05],
        [10, 0.05, 0.05],
      ],
      says: /^the host took 5% of the proxy's core$/,
    },
    {
      name: 'the load itself',
      rounds: [
        [10, 0, 0, 0.02],
        [10, 0, 0, 0.04],
      ],
      says: /^its busier core was idle for only 3% of the time$/,
    },
    {
      name: 'a load that leaves enough',
      rounds: [
        [10, 0, 0, 0.3],
        [10, 0, 0, 0.1],
        [10, 0, 0, 0.4],
      ],
      says: null,
    },
    { name: 'nobody knows what', rounds: [[10], [14], [10]], says: /^its rounds differ by 40%$/ },
    { name: 'no rounds', rounds: [], says: /^nothing was measured$/ },
  ];
  for (const { name, rounds, says } of rows) {
    const said = disturbance(roundsOf(rounds));
    if (says === null) t.equal(said, null, name);
    else t.match(said, says, name);
  }
  t.same(
    counted(roundsOf([[10], [11], [30, 0.5]])).map(({ cpuMicrosPerUnit }) => cpuMicrosPerUnit),
    [10, 11],
  );
});

t.test('a ratio of what was disturbed is not printed', async (t) => {
  const six = (...row: Row): Row[] => Array.from({ length: 6 }, () => row);
  const contender = (name: ContenderResult['contender'], rows: readonly Row[]): ContenderResult => {
    const rounds = roundsOf(rows);
    const said = disturbance(rounds);
    return { contender: name, rounds, median: rounds[0] as Round, disturbance: said, peakResidentBytes: 2 ** 20 };
  };
  const scenario = scenarios[0];
  if (scenario === undefined) throw new Error('there are no scenarios');
  const of = (own: readonly Row[], theirs: readonly Row[]): ScenarioResult => ({
    scenario,
    contenders: [contender('sallyport', own), contender('haproxy', theirs), contender('caddy', six(40))],
  });
  const first = (result: ScenarioResult) => ratios(result, result.contenders[0] as ContenderResult);
  const [own, theirs, most] = [six(20), six(10), six(20, 0.3)];
  const exactly = (ratio: number) => ({ ratio, low: ratio, high: ratio, pairs: 6 });
  const [half, double] = [exactly(0.5), exactly(2)];
  const no = 'disturbed';
  t.same(first(of(own, theirs)), { cpuToBestPeer: half, rateToBestPeer: half, cpuToHaproxy: half, cpuToCaddy: double });
  t.same(first(of(most, theirs)), { cpuToBestPeer: no, rateToBestPeer: no, cpuToHaproxy: no, cpuToCaddy: no });
  t.same(first(of(own, most)), { cpuToBestPeer: no, rateToBestPeer: no, cpuToHaproxy: no, cpuToCaddy: double });
  t.match(table(of(own, most)), /disturbed[\s\S]*haproxy was disturbed: other programs had 30%/);
  t.match(markdown('', [of(own, theirs)], []), /\| 0\.50 \(0\.50 to 0\.50\) \| 2\.00 \|/);
  const machine = { cpu: '', cores: 2, memoryGiB: 1, kernel: '', node: '', commit: null };
  const run = { machine, versions: {}, startedAt: new Date(0), rounds: 1, seconds: 1, micro: {}, failures: [] };
  const written = JSON.parse(json({ ...run, results: [of(most, theirs)] }));
  t.equal(written.scenarios[0].contenders[0].ratios.cpuToHaproxy, no);
  t.match(written.scenarios[0].contenders[0].disturbance, /^other programs had 30%/);
  t.equal(written.recorded.cpuMicros['http1-keepalive'].linkerdProxy, 33);
});

t.test('a latency of a load that left no time to spare is not printed', async (t) => {
  const result = (name: string, idle: number): ScenarioResult => {
    const scenario = scenarios.find((each) => each.name === name);
    if (scenario === undefined) throw new Error(`there is no ${name}`);
    const rounds = roundsOf([[20, 0, 0, idle]]);
    const said = disturbance(rounds);
    const median = { ...(rounds[0] as Round), p99Micros: 7777 };
    return {
      scenario,
      contenders: [{ contender: 'sallyport', rounds, median, disturbance: said, peakResidentBytes: 1 }],
    };
  };
  for (const [idle, isPrinted] of [
    [0.5, true],
    [0.1, false],
  ] as const) {
    for (const name of ['http1-half-load', 'mtls-half-load']) {
      t.equal(table(result(name, idle)).includes('7 777'), isPrinted, name);
      t.equal(markdown('', [result(name, idle)], []).includes('7.8'), isPrinted, name);
    }
  }
  t.ok(table(result('http1-keepalive', 0.1)).includes('7 777'), 'full load has none to spare');
});
