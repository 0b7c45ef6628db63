import { answers } from '../rule.ts';
import type { Workbench } from '../workbench.ts';
import { h2load } from './h2load.ts';
import type { Load } from './load.ts';

/** Half of what the slowest of these reaches is asked of everybody. */
const compared: readonly string[] = ['sallyport', 'before', 'haproxy'];

/**
 * HTTP/1.1 at half of the rate that both Sallyport and HAProxy reach with this load and this app, in this run: where latency says
 * something about the proxy, not about a queue. Each contender's first round finds out what it reaches. A load in C, which leaves
 * its core idle for half of the time; one in Node needs nearly all of it, and measures that core's queue.
 */
export function halfLoad({ connections }: { readonly connections: number }): Load {
  const asked = { protocol: 'http1', connections, streams: 1, headers: [], path: '/' } as const;
  const load = (rate: number | undefined): Load =>
    h2load({ ...asked, answerLength: answers.http.length, ...(rate === undefined ? {} : { rate }) });
  const reached = new WeakMap<Workbench, Map<number, number>>();
  return async (target) => {
    const { bench, port, contender, seconds } = target;
    let rates = reached.get(bench);
    if (rates === undefined) {
      rates = new Map();
      reached.set(bench, rates);
    }
    if (rates.has(port)) return load(Math.min(...rates.values()) / 2)(target);
    // The first time warms it up.
    await load(undefined)(target);
    const highest = await load(undefined)(target);
    const isCompared = contender === undefined || compared.includes(contender);
    rates.set(port, isCompared ? highest.units / seconds : Number.POSITIVE_INFINITY);
    return { ...highest, p50Micros: null, p99Micros: null };
  };
}
