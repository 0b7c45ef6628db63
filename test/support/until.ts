import { availableParallelism, loadavg } from 'node:os';

/** The real one, also where a test has put timers of its own in its place. */
const later = setTimeout;

/** Thrown by `until`; says what was awaited and what was last seen. */
export class ConditionTimeout extends Error {
  constructor(what: string, waitedMs: number, lastSeen: string) {
    super(`waited ${waitedMs} ms for ${what}${lastSeen === '' ? '' : `; last seen: ${lastSeen}`}`);
    this.name = 'ConditionTimeout';
  }
}

export interface UntilOptions {
  readonly timeoutMs?: number;
  readonly everyMs?: number;
  /** Shown when the time runs out: the state that did not become the wanted one. */
  readonly lastSeen?: () => string;
}

/** How many others want each core: what takes a second on an idle machine may take this many. At least 1, at most 8. */
export function crowding(): number {
  return Math.min(8, Math.max(1, (loadavg()[0] ?? 0) / availableParallelism()));
}

/**
 * By how much a time that only a failure takes is longer than what a quiet machine needs. What a host gives to its other
 * guests is in no load average, and a bound of the proxy's own may be as long as the time that a test allows.
 */
export function patience(): number {
  return 3 * crowding();
}

/**
 * Polls until `probe` yields something other than undefined and false, and returns it.
 * Tests wait with this instead of sleeping: the bound is only ever reached by a failure. It grows with the machine's load, and is three times as long on an idle one.
 */
export async function until<T>(
  what: string,
  probe: () => T | undefined | false | Promise<T | undefined | false>,
  options: UntilOptions = {},
): Promise<T> {
  const timeoutMs = Math.round((options.timeoutMs ?? 10_000) * patience());
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const value = await probe();
    if (value !== undefined && value !== false) return value;
    if (Date.now() >= deadline) throw new ConditionTimeout(what, timeoutMs, options.lastSeen?.() ?? '');
    await new Promise((resolve) => later(resolve, options.everyMs ?? 20));
  }
}

/** So many turns of the event loop, for what goes on in this process. */
export async function turns(count: number): Promise<void> {
  for (let left = count; left > 0; left--) await new Promise((resolve) => setImmediate(resolve));
}

/** The promise's value, or a ConditionTimeout; the loser is left to settle alone. */
export async function within<T>(what: string, timeoutMs: number, promise: Promise<T>): Promise<T> {
  const limitMs = Math.round(timeoutMs * patience());
  let timer: NodeJS.Timeout | undefined;
  const expired = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new ConditionTimeout(what, limitMs, '')), limitMs);
  });
  try {
    return await Promise.race([promise, expired]);
  } finally {
    clearTimeout(timer);
  }
}

/** Runs `work` over `items`, at most `limit` at a time; results keep the order of the items. */
export async function mapBounded<T, R>(
  items: readonly T[],
  limit: number,
  work: (item: T, lane: number) => Promise<R>,
): Promise<R[]> {
  const results: R[] = new Array(items.length);
  let next = 0;
  const lane = async (number: number): Promise<void> => {
    for (let index = next++; index < items.length; index = next++) {
      results[index] = await work(items[index] as T, number);
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, (_, number) => lane(number)));
  return results;
}
