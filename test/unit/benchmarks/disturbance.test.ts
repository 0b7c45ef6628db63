import t from 'tap';
import { counted, disturbance } from '../../../benchmarks/disturbance.ts';
import type { ContenderResult, Round, ScenarioResult } from '../../../benchmarks/measure.ts';
import { json, ratios, table } from '../../../benchmarks/report.ts';
import { scenarios } from '../../../benchmarks/scenarios.ts';

/** CPU microseconds, and the shares of the proxy's core that went elsewhere, and of these to the host. */
type Row = readonly [cost: number, elsewhere?: number, stolen?: number];

function roundsOf(rows: readonly Row[]): Round[] {
  return rows.map(([cost, disturbed = 0, stolen = 0]) => ({
    unitsPerSecond: 1e6 / cost,
    cpuMicrosPerUnit: cost,
    busy: 1,
    disturbed,
    stolen,
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
  const contender = (name: ContenderResult['contender'], cost: number, says: string | null): ContenderResult => {
    const rounds = roundsOf([[cost]]);
    return { contender: name, rounds, median: rounds[0] as Round, disturbance: says, peakResidentBytes: 2 ** 20 };
  };
  const scenario = scenarios[0];
  if (scenario === undefined) throw new Error('there are no scenarios');
  const of = (own: string | null, theirs: string | null): ScenarioResult => ({
    scenario,
    contenders: [contender('sallyport', 20, own), contender('haproxy', 10, theirs), contender('caddy', 40, null)],
  });
  const first = (result: ScenarioResult) => ratios(result, result.contenders[0] as ContenderResult);
  const clean = { cpuToBestPeer: 0.5, rateToBestPeer: 0.5, cpuToHaproxy: 0.5, cpuToCaddy: 2 };
  const no = 'disturbed';
  t.same(first(of(null, null)), clean);
  t.same(first(of('x', null)), { cpuToBestPeer: no, rateToBestPeer: no, cpuToHaproxy: no, cpuToCaddy: no });
  t.same(first(of(null, 'x')), { cpuToBestPeer: no, rateToBestPeer: no, cpuToHaproxy: no, cpuToCaddy: 2 });
  t.match(table(of(null, 'other programs had 30%')), /disturbed[\s\S]*haproxy was disturbed: other programs had 30%/);
  const machine = { cpu: '', cores: 2, memoryGiB: 1, kernel: '', node: '', commit: null };
  const run = { machine, versions: {}, startedAt: new Date(0), rounds: 1, seconds: 1, micro: {}, failures: [] };
  const written = JSON.parse(json({ ...run, results: [of('x', null)] }));
  t.equal(written.scenarios[0].contenders[0].ratios.cpuToHaproxy, no);
  t.equal(written.scenarios[0].contenders[0].disturbance, 'x');
  t.equal(written.recorded.cpuMicros['http1-keepalive'].linkerdProxy, 33);
});
