import { percentile } from '../statistics.ts';
import type { Workbench } from '../workbench.ts';
import type { Load, Target } from './load.ts';
import { runPaced } from './paced-load.ts';
import { wrk } from './wrk.ts';

/**
 * HTTP/1.1 at half of what Sallyport can do at most: where latency says something about the proxy, not about a queue.
 * The first to be asked in a run is Sallyport; its warm-up round finds the rate, at which all are then asked.
 */
export function halfLoad({ connections }: { readonly connections: number }): Load {
  const rates = new WeakMap<Workbench, number>();
  return async (target) => {
    let rate = rates.get(target.bench);
    if (rate === undefined) {
      rate = await halfOfSaturation(target);
      rates.set(target.bench, rate);
    }
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
  };
}

/** Requests per second; finding it takes twice the seconds of the target. */
export async function halfOfSaturation(target: Target): Promise<number> {
  const saturate = wrk({ connections: 32, close: false });
  // The first time warms it up.
  await saturate(target);
  const { units, seconds } = await saturate(target);
  return Math.max(1, Math.round(units / seconds / 2));
}
