import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises';

/** After each making, so many times as long belongs to the traffic. */
const rest = 4;
const longestRestMs = 1000;

/**
 * An answer that takes milliseconds to make, as things are when it is asked for: made once for all who ask in one turn of
 * the event loop, for all who ask while the loop is left to others, and for all who ask while one is being made, which may
 * take several turns. A client may ask hundreds of times at once, on many connections, and all its asking takes a fifth of
 * the loop at most.
 */
export function sharedAnswer<T>(make: () => T | Promise<T>): () => Promise<T> {
  let next: Promise<T> | null = null;
  let last: Promise<unknown> = Promise.resolve();
  let restsUntil = 0;
  const made = async (before: Promise<unknown>): Promise<T> => {
    // Who has asked for that one hears what became of it.
    await Promise.allSettled([before]);
    const restMs = restsUntil - performance.now();
    if (restMs > 0) await delay(Math.min(restMs, longestRestMs));
    else await turn();
    next = null;
    const began = performance.now();
    try {
      return await make();
    } finally {
      const now = performance.now();
      restsUntil = now + rest * (now - began);
    }
  };
  return () => {
    if (next === null) {
      next = made(last);
      last = next;
    }
    return next;
  };
}
