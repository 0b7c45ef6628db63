import type { MachineFacts } from './machine.ts';
import type { Contender, ContenderResult, ScenarioResult } from './measure.ts';
import { cpuRatio, fewestBounded, type PairedRatio, pairedRatio, pairsOf, rateRatio } from './paired.ts';
import { linkerdProxy, recordedLines } from './recorded.ts';

/** Null where there is nothing to compare; 'disturbed' where the rounds of the two tell more about the machine. */
export type Ratio = PairedRatio | 'disturbed' | null;

/** Best of the others over this one: 1 is parity, more is better. */
export interface Ratios {
  readonly cpuToBestPeer: Ratio;
  readonly rateToBestPeer: Ratio;
  readonly cpuToHaproxy: Ratio;
  readonly cpuToCaddy: Ratio;
}

/** A proxy is compared with every other proxy, round by round; the app without any is no peer. */
export function ratios(result: ScenarioResult, of: ContenderResult): Ratios {
  const others = result.contenders.filter(({ contender }) => contender !== of.contender && contender !== 'direct');
  const to = (ratioOf: typeof cpuRatio, peers: readonly ContenderResult[]): Ratio => {
    const all = peers.map(({ rounds }) => pairedRatio(pairsOf(of.rounds, rounds), ratioOf));
    // A disturbed one might have been the best of all.
    if (all.includes('disturbed')) return 'disturbed';
    const known = all.filter((ratio) => ratio !== null && ratio !== 'disturbed');
    return known.sort((a, b) => a.ratio - b.ratio)[0] ?? null;
  };
  const named = (name: Contender): ContenderResult[] => others.filter(({ contender }) => contender === name);
  return {
    cpuToBestPeer: to(cpuRatio, others),
    rateToBestPeer: to(rateRatio, others),
    cpuToHaproxy: to(cpuRatio, named('haproxy')),
    cpuToCaddy: to(cpuRatio, named('caddy')),
  };
}

/** A latency; of a load that leaves the cores time to spare, 'disturbed' where they had none. */
export function shownLatency(
  { scenario }: Pick<ScenarioResult, 'scenario'>,
  { disturbance, median }: ContenderResult,
  figure: 'p50Micros' | 'p99Micros',
  shown: (micros: number | null) => string,
): string {
  return scenario.isPaced === true && disturbance !== null ? 'disturbed' : shown(median[figure]);
}

export function shownRatio(ratio: Ratio): string {
  return ratio === 'disturbed' ? ratio : fixed(ratio?.ratio ?? null, 2);
}

/** With the bounds within which it lies, where there are enough pairs to have some. */
export function shownBounds(ratio: Ratio): string {
  if (ratio === null || ratio === 'disturbed' || ratio.pairs < fewestBounded) return shownRatio(ratio);
  return `${fixed(ratio.ratio, 2)} (${fixed(ratio.low, 2)} to ${fixed(ratio.high, 2)})`;
}

const columns = [
  '',
  'rate /s',
  'CPU us',
  'busy',
  'p50 us',
  'p99 us',
  'pauses /s',
  'peak MiB',
  'CPU ratio',
  'rate ratio',
] as const;

function percent(share: number): string {
  return `${Math.round(share * 100)}%`;
}

/** For people. The ratios are to the best of the other proxies. */
export function table(result: ScenarioResult): string {
  const { scenario, contenders } = result;
  const rows = contenders.map((each) => {
    const { median, contender, peakResidentBytes } = each;
    const { cpuToBestPeer, rateToBestPeer } = ratios(result, each);
    return [
      contender,
      grouped(median.unitsPerSecond),
      fixed(median.cpuMicrosPerUnit, 1),
      median.busy === null ? '-' : percent(Math.min(1, median.busy)),
      shownLatency(result, each, 'p50Micros', grouped),
      shownLatency(result, each, 'p99Micros', grouped),
      fixed(median.pausesPerSecond, 1),
      fixed(peakResidentBytes === null ? null : peakResidentBytes / 2 ** 20, 0),
      shownBounds(cpuToBestPeer),
      shownRatio(rateToBestPeer),
    ];
  });
  const title = `${scenario.name}: ${scenario.about} (CPU and rate per ${scenario.unit})`;
  const warning = contenders.map(({ contender, disturbance }) =>
    disturbance === null ? '' : `\n  ${contender} was disturbed: ${disturbance}`,
  );
  return `${title}\n${aligned([[...columns], ...rows])}${warning.join('')}`;
}

/** How Sallyport stands in every scenario: CPU per unit of each peer over its own. */
export function summary(results: readonly ScenarioResult[]): string {
  const rows = results.flatMap((result) => {
    const ours = result.contenders.find(({ contender }) => contender === 'sallyport');
    if (ours === undefined) return [];
    const { cpuToBestPeer, rateToBestPeer, cpuToHaproxy, cpuToCaddy } = ratios(result, ours);
    return [
      [
        result.scenario.name,
        fixed(ours.median.cpuMicrosPerUnit, 1),
        shownBounds(cpuToHaproxy),
        shownRatio(cpuToCaddy),
        shownBounds(cpuToBestPeer),
        shownRatio(rateToBestPeer),
      ],
    ];
  });
  const head = ['Sallyport', 'CPU us', 'CPU to HAProxy', 'CPU to Caddy', 'CPU to best', 'rate to best'];
  return `Ratios: 1 is parity, above 1 Sallyport is cheaper or faster.\n${aligned([head, ...rows])}\n\n${recordedLines()}`;
}

/** First column to the left, numbers to the right. */
export function aligned(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, i) => Math.max(...rows.map((row) => row[i]?.length ?? 0)));
  return rows
    .map((row) =>
      row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0))).join('  '),
    )
    .map((line) => `  ${line.trimEnd()}`)
    .join('\n');
}

export function grouped(value: number | null): string {
  return value === null ? '-' : Math.round(value).toLocaleString('en-US').replaceAll(',', ' ');
}

export function fixed(value: number | null, digits: number): string {
  return value === null ? '-' : value.toFixed(digits);
}

/** For machines: everything, round by round. */
export function json(run: {
  readonly machine: MachineFacts;
  readonly versions: Readonly<Record<string, string>>;
  readonly startedAt: Date;
  readonly rounds: number;
  readonly seconds: number;
  readonly results: readonly ScenarioResult[];
  readonly micro: Readonly<Record<string, unknown>>;
  /** What went wrong, in words; such scenarios have no figures. */
  readonly failures: readonly string[];
}): string {
  const { results, startedAt, ...rest } = run;
  const recorded = linkerdProxy;
  const scenarios = results.map((result) => ({
    name: result.scenario.name,
    unit: result.scenario.unit,
    contenders: result.contenders.map((each) => ({ ...each, ratios: ratios(result, each) })),
  }));
  return `${JSON.stringify({ startedAt: startedAt.toISOString(), ...rest, scenarios, recorded }, null, 2)}\n`;
}
