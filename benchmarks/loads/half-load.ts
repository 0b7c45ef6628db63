import { answers } from '../rule.ts';
import type { Workbench } from '../workbench.ts';
import { h2load } from './h2load.ts';
import type { Load } from './load.ts';
import { wrk } from './wrk.ts';

/**
 * HTTP/1.1 at half of what Sallyport can do at most: where latency says something about the proxy, not about a queue.
 * The first to be asked in a run is Sallyport; its warm-up round finds the rate, at which all are then asked.
 */
export function halfLoad({ connections }: { readonly connections: number }): Load {
  const paces = new WeakMap<Workbench, number>();
  const saturate = wrk({ connections, close: false });
  return async (target) => {
    let pace = paces.get(target.bench);
    if (pace === undefined) {
      // The first time warms it up.
      await saturate(target);
      const { units, seconds } = await saturate(target);
      pace = Math.max(1, Math.round(units / seconds / 2 / connections));
      paces.set(target.bench, pace);
    }
    const paced = h2load({
      protocol: 'http1',
      connections,
      streams: 1,
      pace,
      headers: [],
      path: '/',
      answerLength: answers.http.length,
    });
    return paced(target);
  };
}
