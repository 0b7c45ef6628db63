import { setTimeout as delay } from 'node:timers/promises';
import { startApp } from './apps/apps.ts';
import { startTlsFront } from './apps/tls-front.ts';
import { counted, disturbance, isClean } from './disturbance.ts';
import type { LoadResult } from './loads/load.ts';
import { pausesSoFar } from './pauses.ts';
import { caddy } from './peers/caddy.ts';
import { haproxy } from './peers/haproxy.ts';
import { nginx } from './peers/nginx.ts';
import type { Peer } from './peers/peer.ts';
import { sallyport } from './peers/sallyport.ts';
import { expectAllowed, expectRefused, hostOf, type Probe } from './probes.ts';
import { coreTimes, cpuSeconds, idleSeconds, peakResidentBytes } from './process-usage.ts';
import { isInstalled } from './programs.ts';
import type { Scenario } from './scenarios.ts';
import { median } from './statistics.ts';
import type { Workbench } from './workbench.ts';

/** In the order of the rounds and of the table. */
export const everyPeer: readonly Peer[] = [sallyport, haproxy, nginx, caddy];
export type Contender = Peer['name'] | 'direct';

export interface Round {
  readonly unitsPerSecond: number;
  /** Null for `direct`, where there is no proxy. */
  readonly cpuMicrosPerUnit: number | null;
  /** How much of its core the proxy used. Well under 1, it was load or app that set the rate. */
  readonly busy: number | null;
  /** How much of the proxy's core went elsewhere: to other programs, or to other guests of the host. */
  readonly disturbed: number;
  /** Of that, what the host took. */
  readonly stolen: number;
  /** How much of its time the busier core was idle; null where the load asks for all that it can get. */
  readonly idle: number | null;
  /** Pauses of the event loop above a millisecond; null where there is none that tells. */
  readonly pausesPerSecond: number | null;
  readonly p50Micros: number | null;
  readonly p99Micros: number | null;
}

export interface ContenderResult {
  readonly contender: Contender;
  readonly rounds: readonly Round[];
  /** Of the rounds that nothing disturbed, where these are at least half. */
  readonly median: Round;
  /** Why its figures tell more about the machine; null where they do not. */
  readonly disturbance: string | null;
  readonly peakResidentBytes: number | null;
}

export interface ScenarioResult {
  readonly scenario: Scenario;
  readonly contenders: readonly ContenderResult[];
}

export interface MeasureOptions {
  readonly peers: readonly Peer[];
  readonly rounds: number;
  readonly seconds: number;
  /** Ask for pauses, which takes a second before and after each round. */
  readonly pauses: boolean;
  readonly progress: (line: string) => void;
}

interface Running {
  readonly contender: Contender;
  readonly probe: Probe;
  /** Where the load goes: the proxy, or the TLS front before it. */
  readonly loadPort: number;
  /** Null for `direct`. */
  readonly pid: number | null;
  readonly metricsPort: number | null;
  readonly rounds: Round[];
}

/**
 * All contenders of one scenario stand ready at once, idle but for the one whose turn it is; the rounds alternate, so
 * that what else happens on the machine meets each of them alike. One uncounted round each goes before.
 *
 * @throws with the contender's name when any answer, before, in or after the rounds, is not the app's or not the rule's.
 */
export async function measure(bench: Workbench, scenario: Scenario, options: MeasureOptions): Promise<ScenarioResult> {
  const running = await startContenders(bench, scenario, options);
  // A round that was disturbed is made up for, within limits.
  const isMissing = (): boolean =>
    running.some(({ rounds, pid }) => pid !== null && rounds.filter(isClean).length < options.rounds);
  for (let round = 0; round <= options.rounds || (round <= 2 * options.rounds && isMissing()); round++) {
    // Every other round the other way about: what grows or fades in a round favours nobody.
    for (const one of round % 2 === 0 ? running : running.toReversed()) {
      const what = round === 0 ? 'warm-up' : `round ${round}/${options.rounds}`;
      options.progress(`${scenario.name}: ${what}, ${one.contender}`);
      const result = await blaming(one.contender, scenario, () => oneRound(bench, scenario, one, options.seconds));
      if (round > 0) one.rounds.push(result);
    }
  }
  const contenders: ContenderResult[] = [];
  for (const one of running) {
    await blaming(one.contender, scenario, () => expectAllowed(one.probe));
    contenders.push({
      contender: one.contender,
      rounds: one.rounds,
      median: medianOf(counted(one.rounds)),
      disturbance: one.pid === null ? null : disturbance(one.rounds),
      peakResidentBytes: one.pid === null ? null : peakResidentBytes(one.pid),
    });
  }
  return { scenario, contenders };
}

async function startContenders(
  bench: Workbench,
  scenario: Scenario,
  { peers, pauses }: MeasureOptions,
): Promise<Running[]> {
  const { app, carriage, mutualTls, name } = scenario;
  const { credentials } = bench;
  const appPort = await startApp(bench, app);
  const started: (Pick<Running, 'contender' | 'pid' | 'metricsPort'> & { readonly port: number })[] = [];
  for (const peer of peers) {
    if (
      !peer.can(scenario) ||
      peer.name === scenario.without?.peer ||
      (peer.program !== null && !isInstalled(peer.program))
    )
      continue;
    const port = await bench.freePort();
    const site = { bench, name: `${name}-${peer.name}`, carriage, mutualTls, listenPort: port, appPort };
    await blaming(peer.name, scenario, async () => {
      const prepared = await peer.configure(site);
      const { pid } = await bench.start('proxy', prepared, [port]);
      started.push({ contender: peer.name, port, pid, metricsPort: (pauses ? prepared.metricsPort : null) ?? null });
    });
  }
  if (scenario.direct) started.push({ contender: 'direct', port: appPort, pid: null, metricsPort: null });
  const fronts = mutualTls
    ? await startTlsFront(
        bench,
        started.map(({ port }) => port),
      )
    : null;
  const running = started.map(({ contender, port, pid, metricsPort }) => ({
    contender,
    probe: { port, app, carriage, mutualTls, credentials },
    loadPort: fronts?.get(port) ?? port,
    pid,
    metricsPort,
    rounds: [],
  }));
  for (const one of running) {
    await blaming(one.contender, scenario, async () => {
      await expectAllowed(one.probe);
      if (one.pid !== null) await expectRefused(one.probe);
    });
  }
  return running;
}

/** Lets a proxy finish what the last load left behind (closing sockets, collecting garbage) on nobody's account. */
const settleMs = 200;

async function oneRound(bench: Workbench, scenario: Scenario, one: Running, seconds: number): Promise<Round> {
  await delay(settleMs);
  const host = hostOf(scenario.mutualTls, bench.credentials, one.loadPort);
  const pausesBefore = await pausesOf(one);
  const coreBefore = coreTimes(bench.cores.proxy);
  const idleBefore = scenario.isPaced ? idleSeconds() : null;
  const startedMs = performance.now();
  const cpuBefore = one.pid === null ? 0 : cpuSeconds(one.pid);
  const result: LoadResult = await scenario.load({
    bench,
    port: one.loadPort,
    host,
    seconds,
    contender: one.contender,
  });
  const cpu = one.pid === null ? null : cpuSeconds(one.pid) - cpuBefore;
  const wallSeconds = (performance.now() - startedMs) / 1000;
  const core = coreTimes(bench.cores.proxy);
  const idle = idleBefore === null ? null : leastIdle(idleBefore, idleSeconds(), wallSeconds);
  const elsewhere = core.spent - coreBefore.spent - (cpu ?? 0);
  if (cpu !== null && cpu === 0) throw new Error('the proxy used no CPU time: it is not the process that served');
  const pauses = await pausesOf(one);
  return {
    unitsPerSecond: result.units / result.seconds,
    cpuMicrosPerUnit: cpu === null ? null : (cpu * 1e6) / result.units,
    busy: cpu === null ? null : cpu / result.seconds,
    disturbed: Math.max(0, elsewhere / wallSeconds),
    stolen: (core.stolen - coreBefore.stolen) / wallSeconds,
    idle,
    pausesPerSecond: pauses === null || pausesBefore === null ? null : (pauses - pausesBefore) / wallSeconds,
    p50Micros: result.p50Micros,
    p99Micros: result.p99Micros,
  };
}

function leastIdle(before: readonly number[], after: readonly number[], seconds: number): number {
  return Math.min(...after.map((idle, core) => (idle - (before[core] ?? 0)) / seconds));
}

/** The metric is a second late: a second after a round it has all of it. */
async function pausesOf({ metricsPort }: Running): Promise<number | null> {
  if (metricsPort === null) return null;
  await delay(1100);
  return pausesSoFar(metricsPort);
}

/** Says whose turn it was. */
async function blaming<T>(contender: Contender, scenario: Scenario, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw new Error(`${scenario.name}, ${contender}: ${(error as Error).message}`, { cause: error });
  }
}

/** Each figure's own median: a round that something else disturbed then spoils none of them. */
function medianOf(rounds: readonly Round[]): Round {
  const of = (figure: keyof Round): number | null => {
    const known = rounds.map((round) => round[figure]).filter((value) => value !== null);
    return known.length === 0 ? null : median(known);
  };
  return {
    unitsPerSecond: of('unitsPerSecond') ?? 0,
    cpuMicrosPerUnit: of('cpuMicrosPerUnit'),
    busy: of('busy'),
    disturbed: of('disturbed') ?? 0,
    stolen: of('stolen') ?? 0,
    idle: of('idle'),
    pausesPerSecond: of('pausesPerSecond'),
    p50Micros: of('p50Micros'),
    p99Micros: of('p99Micros'),
  };
}
