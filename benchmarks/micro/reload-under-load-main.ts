/**
 * Prints a MicroResult: what a reload of 10,000 documents does to the latency of HTTP/1.1 at half of saturation. One load
 * runs throughout; the policy file is replaced at the beginning of each slot of it. Of a slot, the time until the new
 * policy is in force is the window with a reload, and the rest, a moment later, the one without.
 */
import { renameSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { stringify } from 'yaml';
import { until } from '../../test/support/until.ts';
import { startApp } from '../apps/apps.ts';
import { WrongAnswers } from '../loads/load.ts';
import { highestRate, type PacedRun, runPaced } from '../loads/paced-load.ts';
import { divideCores, stayOn } from '../machine.ts';
import { sallyport } from '../peers/sallyport.ts';
import { expectAllowed, expectRefused } from '../probes.ts';
import { coreSeconds, cpuSeconds } from '../process-usage.ts';
import { rule } from '../rule.ts';
import { median, percentile } from '../statistics.ts';
import { Workbench } from '../workbench.ts';
import { manyServers, openPort } from './documents.ts';
import { type MicroResult, progress } from './micro.ts';

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));

const quick = process.argv.includes('--quick');
const slots = quick ? 2 : 5;
const slotMs = 16_000;
/** So that a quarter of a slot is without a reload at least. */
const mostReloadMs = 12_000;
/** Between the two windows: requests that were sent in the first may still be under way. */
const settleMs = 500;
const documents = 10_000;
/** So many that a proxy which is held for some milliseconds still gets new requests. */
const connections = 256;
const perServer = 3;

interface Window {
  readonly fromMs: number;
  readonly toMs: number;
  /** How much of the proxy's core went elsewhere. */
  readonly disturbed: number;
}

interface Slot {
  readonly reload: Window;
  readonly quiet: Window;
}

const figures = ['p50Micros', 'p99Micros', 'maxMicros'] as const;
type Latency = Readonly<Record<(typeof figures)[number], number>>;

interface Proxy {
  readonly pid: number;
  readonly policyPath: string;
  /** The policy files to come, in the order of their turn. */
  readonly editions: readonly string[];
  readonly adminPort: number;
  stdout(): string;
}

/** The epoch, with the fractions of a millisecond that Date leaves out. */
function epochMs(): number {
  return performance.timeOrigin + performance.now();
}

/** The window from this call to that of what it yields. */
function openWindow(pid: number): (toMs?: number) => Window {
  const elsewhereSeconds = (): number => coreSeconds(proxyCore) - cpuSeconds(pid);
  const [fromMs, before] = [epochMs(), elsewhereSeconds()];
  return (toMs = epochMs()) => ({
    fromMs,
    toMs,
    disturbed: Math.max(0, ((elsewhereSeconds() - before) * 1000) / (epochMs() - fromMs)),
  });
}

/** Replaces the policy at the beginning of every slot. @throws when one does not come into force in time. */
async function replacePolicies(proxy: Proxy, firstMs: number): Promise<Slot[]> {
  const done: Slot[] = [];
  await delay(Math.max(0, firstMs - epochMs()));
  for (const [i, edition] of proxy.editions.entries()) {
    progress(`reload ${i + 1}/${slots}`);
    const closeReload = openWindow(proxy.pid);
    renameSync(edition, proxy.policyPath);
    // The first policy had generation 1.
    const generation = i + 2;
    const inForceMs = await until(`generation ${generation}`, () => inForceSince(proxy.stdout(), generation), {
      timeoutMs: mostReloadMs,
      everyMs: 50,
    });
    const reload = closeReload(inForceMs);
    // Asked outside both windows: the proxy spends milliseconds on the answer.
    await expectLoads(proxy.adminPort, generation);
    await delay(settleMs);
    const closeQuiet = openWindow(proxy.pid);
    await delay(Math.max(0, firstMs + (i + 1) * slotMs - epochMs()));
    done.push({ reload, quiet: closeQuiet() });
  }
  return done;
}

/** By the log, since asking the metrics over and over would be a load of its own. */
function inForceSince(stdout: string, generation: number): number | undefined {
  for (const line of stdout.split('\n')) {
    if (!line.includes('"Policy loaded"') || !line.endsWith('}')) continue;
    const logged = JSON.parse(line) as { time: string; generation?: number };
    if (logged.generation === generation) return new Date(logged.time).getTime();
  }
  return undefined;
}

/** By the metrics. @throws when any other number of policies has been loaded, or one could not be. */
async function expectLoads(adminPort: number, generation: number): Promise<void> {
  const response = await fetch(`http://127.0.0.1:${adminPort}/metrics`);
  const text = await response.text();
  const value = (name: string): number => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
  const [loaded, failed] = [value('sallyport_policy_generation'), value('sallyport_policy_load_errors_total')];
  if (loaded !== generation || failed !== 0) {
    throw new Error(`${loaded} policies were loaded and ${failed} could not be; ${generation} and 0 were due`);
  }
}

function latencyIn({ fromMs, toMs }: Window, { dueMs, tookMicros }: PacedRun): Latency {
  const micros = tookMicros.filter((_, i) => (dueMs[i] as number) >= fromMs && (dueMs[i] as number) < toMs);
  if (micros.length === 0) throw new WrongAnswers('none at all came in a window');
  const ascending = micros.sort();
  return {
    p50Micros: percentile(ascending, 0.5),
    p99Micros: percentile(ascending, 0.99),
    maxMicros: ascending.at(-1) ?? 0,
  };
}

const cores = divideCores();
if (cores === null) throw new Error('two cores are needed: one for the proxy, one for load and app');
stayOn(cores.load);
const proxyCore = cores.proxy;
const bench = new Workbench(cores);
const rows: (string | number)[][] = [];
try {
  const appPort = await startApp(bench, 'http1');
  const [port, adminPort] = [await bench.freePort(), await bench.freePort()];
  const site = { bench, name: 'reloaded', carriage: 'http1', mutualTls: false, listenPort: port, appPort } as const;
  const command = await sallyport.configure(site);
  const own = [...openPort('web', port, rule.networks), ...openPort('admin', adminPort, ['127.0.0.1/32'])];
  // Beside the policy, not in its folder: there the proxy would look at each of them.
  bench.subfolder('editions');
  const editions = Array.from({ length: slots + 1 }, (_, i) => {
    const set = manyServers(Math.floor((documents - own.length) / perServer), `-${i}`);
    return bench.write(
      `editions/${i}.yaml`,
      [...own, ...set.documents].map((document) => stringify(document)).join('---\n'),
    );
  });
  const policyPath = join(bench.subfolder('policy'), 'policy.yaml');
  renameSync(editions.shift() ?? '', policyPath);
  const env = { ...command.env, SALLYPORT_POLICY: policyPath, SALLYPORT_ADMIN_LISTEN: `127.0.0.1:${adminPort}` };
  const child = await bench.start('proxy', { ...command, env }, [port, adminPort]);
  const proxy: Proxy = { pid: child.pid, policyPath, editions, adminPort, stdout: child.stdout };
  const probe = { port, app: 'http1', carriage: 'http1', mutualTls: false, credentials: bench.credentials } as const;
  const expectRule = async (): Promise<void> => {
    await expectAllowed(probe);
    await expectRefused(probe);
  };
  await until('the first policy', () => inForceSince(proxy.stdout(), 1), { timeoutMs: 30_000 });
  await expectLoads(adminPort, 1);
  await expectRule();

  progress('finding the highest rate');
  const target = { bench, port, host: `127.0.0.1:${port}`, seconds: 3 };
  const rate = Math.max(1, Math.round((await highestRate(target, connections)) / 2));
  const rampMs = 2_000;
  const seconds = (rampMs + slots * slotMs) / 1000;
  const [run, measured] = await Promise.all([
    runPaced({ connections, rate }, { ...target, seconds }),
    replacePolicies(proxy, epochMs() + rampMs),
  ]);
  await expectRule();

  const cells = (latency: Latency): string[] => figures.map((figure) => latency[figure].toFixed(0));
  const medians = (all: readonly Latency[]): string[] =>
    figures.map((figure) => median(all.map((latency) => latency[figure])).toFixed(0));
  const during: Latency[] = [];
  const after: Latency[] = [];
  const shifts: Latency[] = [];
  for (const [i, { reload, quiet }] of measured.entries()) {
    const [with_, without] = [latencyIn(reload, run), latencyIn(quiet, run)];
    during.push(with_);
    after.push(without);
    // Within a slot: what else happens on the machine meets both of its windows.
    shifts.push({
      p50Micros: with_.p50Micros - without.p50Micros,
      p99Micros: with_.p99Micros - without.p99Micros,
      maxMicros: with_.maxMicros - without.maxMicros,
    });
    for (const [what, window, latency] of [
      ['reload', reload, with_],
      ['none', quiet, without],
    ] as const) {
      rows.push([
        `${what} ${i + 1}`,
        (window.toMs - window.fromMs).toFixed(0),
        `${(window.disturbed * 100).toFixed(0)}%`,
        ...cells(latency),
      ]);
    }
  }
  rows.push([`reload, median at ${rate}/s`, '', '', ...medians(during)]);
  rows.push(['none, median', '', '', ...medians(after)]);
  rows.push(['shift, median', '', '', ...medians(shifts)]);
} finally {
  await bench.end();
}
const result: MicroResult = {
  columns: ['window', 'ms', 'others', 'p50 us', 'p99 us', 'max us'],
  rows,
};
process.stdout.write(JSON.stringify(result));
process.exit(0);
