import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises';

/** After each making, so many times as long belongs to the traffic. */
const rest = 4;
const longestRestMs = 1000;

/**
 * An answer that takes milliseconds to make, as things are when it is asked for: made once for all who ask in one turn of
 * the event loop, and for all who ask while the loop is left to others. A client may ask hundreds of times at once, on many
 * connections, and all its asking takes a fifth of the loop at most.
 */
export function sharedAnswer<T>(make: () => T | Promise<T>): () => Promise<T> {
  let next: Promise<T> | null = null;
  let restsUntil = 0;
  const made = async (): Promise<T> => {
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
    next ??= made();
    return next;
  };
}
