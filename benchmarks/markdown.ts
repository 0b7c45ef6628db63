import type { ContenderResult, ScenarioResult } from './measure.ts';
import type { MicroBenchmark, MicroResult } from './micro/micro.ts';
import { fixed, grouped, ratios, shownBounds, shownLatency, shownRatio } from './report.ts';

const peers = ['sallyport', 'haproxy', 'nginx', 'caddy'] as const;

/** The tables of README.md, "Today's table": what `--markdown` writes. */
export function markdown(
  head: string,
  results: readonly ScenarioResult[],
  micro: readonly { readonly benchmark: MicroBenchmark; readonly result: MicroResult }[],
): string {
  const tables = micro.map(
    ({ benchmark: { name, about }, result: { columns, rows } }) =>
      `${name}: ${about}\n\n${lines([columns, ...rows.map((row) => row.map(String))])}`,
  );
  return `${[head, scenarioTable(results), ...tables].join('\n\n')}\n`;
}

function scenarioTable(results: readonly ScenarioResult[]): string {
  const titles = ['scenario', 'Sallyport', 'HAProxy', 'nginx', 'Caddy', 'to HAProxy', 'to Caddy'];
  const measured = ['rates of Sallyport / HAProxy, per second', 'p99 ms', 'pauses above 1 ms, per second', 'peak MiB'];
  const rows = results.map((result) => {
    const of = (name: (typeof peers)[number]): ContenderResult | undefined =>
      result.contenders.find(({ contender }) => contender === name);
    const [own, theirs] = [of('sallyport'), of('haproxy')];
    const both = (value: (each: ContenderResult | undefined) => string): string => `${value(own)} / ${value(theirs)}`;
    const ratio = own === undefined ? null : ratios(result, own);
    const ms = (micros: number | null): string => fixed(micros === null ? null : micros / 1000, 1);
    const p99 = (each: ContenderResult | undefined): string =>
      each === undefined ? ms(null) : shownLatency(result, each, 'p99Micros', ms);
    const peak = own?.peakResidentBytes ?? null;
    return [
      result.scenario.name,
      ...peers.map((name) => fixed(of(name)?.median.cpuMicrosPerUnit ?? null, 1)),
      shownBounds(ratio?.cpuToHaproxy ?? null),
      shownRatio(ratio?.cpuToCaddy ?? null),
      both((each) => grouped(each?.median.unitsPerSecond ?? null)),
      both(p99),
      fixed(own?.median.pausesPerSecond ?? null, 1),
      fixed(peak === null ? null : peak / 2 ** 20, 0),
    ];
  });
  return lines([[...titles, ...measured], ...rows]);
}

function lines([head = [], ...rows]: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}
