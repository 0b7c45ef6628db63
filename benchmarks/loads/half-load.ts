import { percentile } from '../statistics.ts';
import type { Workbench } from '../workbench.ts';
import type { Load, LoadResult, Target } from './load.ts';
import { runPaced, saturation } from './paced-load.ts';

/** Half of what the slowest of these reaches is asked of everybody. */
const compared: readonly string[] = ['sallyport', 'before', 'haproxy'];

/**
 * HTTP/1.1 at half of the rate that both Sallyport and HAProxy reach with this load and this app, in this run: where latency says
 * something about the proxy, not about a queue. Each contender's first round finds out what it reaches.
 */
export function halfLoad({ connections }: { readonly connections: number }): Load {
  const reached = new WeakMap<Workbench, Map<number, number>>();
  return async (target) => {
    const { bench, port, contender } = target;
    let rates = reached.get(bench);
    if (rates === undefined) {
      rates = new Map();
      reached.set(bench, rates);
    }
    if (rates.has(port)) return pacedLoad(target, connections, Math.max(1, Math.min(...rates.values()) / 2));
    const rate = await highestRate(target, connections);
    rates.set(port, contender === undefined || compared.includes(contender) ? rate : Number.POSITIVE_INFINITY);
    return { units: rate * target.seconds, seconds: target.seconds, p50Micros: null, p99Micros: null };
  };
}

/** @param rate requests per second. */
export async function pacedLoad(target: Target, connections: number, rate: number): Promise<LoadResult> {
  const { dueMs, tookMicros } = await runPaced({ connections, rate }, target);
  // A proxy that cannot keep up answers the last of them long after it was due.
  const lastMs = dueMs.reduce((last, due, i) => Math.max(last, due + (tookMicros[i] as number) / 1000), 0);
  const seconds = (lastMs - (dueMs[0] as number)) / 1000;
  tookMicros.sort();
  return {
    units: tookMicros.length,
    seconds,
    p50Micros: percentile(tookMicros, 0.5),
    p99Micros: percentile(tookMicros, 0.99),
  };
}

/** Requests per second; finding it takes twice the seconds of the target. */
export async function highestRate(target: Target, connections: number): Promise<number> {
  // The first time warms it up.
  await saturation(target, connections);
  return saturation(target, connections);
}
