/**
 * Prints a MicroResult: a policy file of many documents loaded by the running proxy's own source (thread, slices, swap),
 * and how long the event loop, which carries the traffic, is held at most meanwhile.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { createAuthorizer } from '../../lib/policy/authorizer.ts';
import { compile } from '../../lib/policy/compile/compile.ts';
import { loadPolicyNow } from '../../lib/reload/load.ts';
import { createPolicySource } from '../../lib/reload/policy-source.ts';
import { threadCpuMs } from '../process-usage.ts';
import { manyServers, workload } from './documents.ts';
import type { MicroResult } from './micro.ts';

const folder = mkdtempSync(join(tmpdir(), 'sallyport-bench-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));

interface Held {
  readonly tookMs: number;
  /** The longest time between two turns of the event loop. */
  readonly holdMs: number;
  /** The most CPU time between two turns: the same without what other processes took of this core meanwhile. */
  readonly holdCpuMs: number;
}

async function longestHold(work: () => Promise<void>): Promise<Held> {
  let holdMs = 0;
  let holdCpuMs = 0;
  let done = false;
  let last = performance.now();
  let lastCpuMs = threadCpuMs();
  const turn = (): void => {
    const now = performance.now();
    const cpuMs = threadCpuMs();
    holdMs = Math.max(holdMs, now - last);
    holdCpuMs = Math.max(holdCpuMs, cpuMs - lastCpuMs);
    last = now;
    lastCpuMs = cpuMs;
    if (!done) setImmediate(turn);
  };
  setImmediate(turn);
  const started = performance.now();
  await work();
  done = true;
  turn();
  return { holdMs, holdCpuMs, tookMs: performance.now() - started };
}

function sliceTimes(path: string): { readonly longestMs: number; readonly sumMs: number; readonly swapMs: number } {
  const { documents } = loadPolicyNow({ paths: [path], namespace: workload.namespace });
  const authorizer = createAuthorizer({ nowMs: () => performance.now() });
  const steps = compile(documents, workload);
  let longestMs = 0;
  let sumMs = 0;
  for (;;) {
    const started = performance.now();
    const step = steps.next();
    const tookMs = performance.now() - started;
    longestMs = Math.max(longestMs, tookMs);
    sumMs += tookMs;
    if (step.done !== true) continue;
    const swapping = performance.now();
    authorizer.swap(step.value.index);
    return { longestMs, sumMs, swapMs: performance.now() - swapping };
  }
}

async function measure(wanted: number): Promise<(string | number)[]> {
  // Each server comes with a route and an authorization.
  const { documents } = manyServers(Math.max(1, Math.round(wanted / 3)));
  const path = join(folder, `${wanted}.yaml`);
  const write = (note: string): void =>
    writeFileSync(path, `# ${note}\n${documents.map((document) => stringify(document)).join('---\n')}`);
  write('first');
  const failures: string[] = [];
  const authorizer = createAuthorizer({ nowMs: () => performance.now() });
  const source = createPolicySource({
    path,
    workload: () => workload,
    swap: (index) => authorizer.swap(index),
    onProblems: (problems) => failures.push(...problems.filter((p) => p.severity === 'error').map((p) => p.message)),
    onLoaded: () => {},
    onFailed: (reason) => failures.push(reason),
    log: { warn: () => {} },
    // Only what is asked for below is to be loaded while it is measured.
    pollMs: 3_600_000,
    debounceMs: 3_600_000,
  });
  await source.start();
  write('second');
  const generation = authorizer.generation;
  const { holdMs, holdCpuMs, tookMs } = await longestHold(() => source.reload());
  await source.stop();
  if (failures.length > 0) throw new Error(failures[0]);
  if (authorizer.generation !== generation + 1) throw new Error('the reload put nothing in force');
  const { longestMs, sumMs, swapMs } = sliceTimes(path);
  return [
    `${documents.length} documents`,
    ...[tookMs, sumMs, longestMs, swapMs, holdMs, holdCpuMs].map((ms) => ms.toFixed(2)),
  ];
}

const rows: (string | number)[][] = [];
for (const wanted of process.argv.includes('--quick') ? [10, 1000] : [10, 1000, 10_000])
  rows.push(await measure(wanted));
const result: MicroResult = {
  columns: ['policy', 'reload ms', 'compile ms', 'longest slice ms', 'swap ms', 'longest hold ms', 'of CPU ms'],
  rows,
};
process.stdout.write(JSON.stringify(result));
process.exit(0);
