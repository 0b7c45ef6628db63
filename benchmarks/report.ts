import type { MachineFacts } from './machine.ts';
import type { Contender, ContenderResult, ScenarioResult } from './measure.ts';

/** Best of the others over this one: 1 is parity, more is better. Null where there is nothing to compare. */
export interface Ratios {
  readonly cpuToBestPeer: number | null;
  readonly rateToBestPeer: number | null;
  readonly cpuToHaproxy: number | null;
  readonly cpuToCaddy: number | null;
}

/** A proxy is compared with every other proxy; the app without any is no peer. */
export function ratios(result: ScenarioResult, of: ContenderResult): Ratios {
  const others = result.contenders.filter(({ contender }) => contender !== of.contender && contender !== 'direct');
  const own = of.median.cpuMicrosPerUnit;
  const cpuRatio = (costs: readonly (number | null)[]): number | null => {
    const known = costs.filter((cost) => cost !== null);
    return own === null || known.length === 0 ? null : Math.min(...known) / own;
  };
  const costOf = (name: Contender): (number | null)[] =>
    others.filter(({ contender }) => contender === name).map(({ median }) => median.cpuMicrosPerUnit);
  const bestRate = Math.max(...others.map(({ median }) => median.unitsPerSecond));
  return {
    cpuToBestPeer: cpuRatio(others.map(({ median }) => median.cpuMicrosPerUnit)),
    rateToBestPeer: own === null || others.length === 0 ? null : of.median.unitsPerSecond / bestRate,
    cpuToHaproxy: cpuRatio(costOf('haproxy')),
    cpuToCaddy: cpuRatio(costOf('caddy')),
  };
}

const columns = ['', 'rate /s', 'CPU us', 'busy', 'p50 us', 'p99 us', 'peak MiB', 'CPU ratio', 'rate ratio'] as const;

/** Above this share, rates and latencies say more about the machine than about the proxy. */
const disturbing = 0.1;

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
      grouped(median.p50Micros),
      grouped(median.p99Micros),
      fixed(peakResidentBytes === null ? null : peakResidentBytes / 2 ** 20, 0),
      fixed(cpuToBestPeer, 2),
      fixed(rateToBestPeer, 2),
    ];
  });
  const title = `${scenario.name}: ${scenario.about} (CPU and rate per ${scenario.unit})`;
  const disturbed = contenders.filter(
    ({ contender, median }) => contender !== 'direct' && median.disturbed > disturbing,
  );
  const warning = disturbed.map(
    ({ contender, median }) => `\n  ${contender}: other programs had ${percent(median.disturbed)} of the proxy's core`,
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
        fixed(cpuToHaproxy, 2),
        fixed(cpuToCaddy, 2),
        fixed(cpuToBestPeer, 2),
        fixed(rateToBestPeer, 2),
      ],
    ];
  });
  const head = ['Sallyport', 'CPU us', 'CPU to HAProxy', 'CPU to Caddy', 'CPU to best', 'rate to best'];
  return `Ratios: 1 is parity, above 1 Sallyport is cheaper or faster.\n${aligned([head, ...rows])}`;
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
  const scenarios = results.map((result) => ({
    name: result.scenario.name,
    unit: result.scenario.unit,
    contenders: result.contenders.map((each) => ({ ...each, ratios: ratios(result, each) })),
  }));
  return `${JSON.stringify({ startedAt: startedAt.toISOString(), ...rest, scenarios }, null, 2)}\n`;
}
