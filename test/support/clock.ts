import type { Clock } from '../../lib/reload/clock.ts';

export interface SetClock extends Clock {
  /** Lets time go by; who is due is woken in order, at the very moment. */
  advance(ms: number): void;
  /** Sets the time of day, as a person does; nobody is woken by that. */
  set(now: Date): void;
  /** How many wait to be woken. */
  readonly waiting: number;
}

/** A clock that goes when it is told to. */
export function setClock(start: Date): SetClock {
  let elapsed = 0;
  let offset = start.getTime();
  const waiting = new Set<{ readonly at: number; readonly run: () => void }>();
  return {
    now: () => new Date(offset + elapsed),
    after(ms, run) {
      const entry = { at: elapsed + ms, run };
      waiting.add(entry);
      return () => waiting.delete(entry);
    },
    advance(ms) {
      const until = elapsed + ms;
      for (;;) {
        const [next] = [...waiting].filter(({ at }) => at <= until).sort((a, b) => a.at - b.at);
        if (next === undefined) break;
        waiting.delete(next);
        elapsed = next.at;
        next.run();
      }
      elapsed = until;
    },
    set(now) {
      offset = now.getTime() - elapsed;
    },
    get waiting() {
      return waiting.size;
    },
  };
}

/** Time as a reloader sees it, which goes on where somebody waits, and only so far as it may. */
export interface HeldTime {
  nowMs(): number;
  /** Over at once where that is no later than time may go. */
  delay(ms: number, signal: AbortSignal): Promise<void>;
  /** Whether somebody waits for what is later than time may go. */
  readonly waitedFor: boolean;
  mayGo(untilMs: number): void;
  /** Time that went by while nobody waited. */
  pass(ms: number): void;
}

export function heldTime(limitMs: number): HeldTime {
  let nowMs = 0;
  let mayGoMs = limitMs;
  const waiting = new Set<() => void>();
  return {
    nowMs: () => nowMs,
    async delay(ms, signal) {
      const endMs = nowMs + ms;
      while (endMs > mayGoMs && !signal.aborted) {
        await new Promise<void>((resolve) => {
          waiting.add(resolve);
          signal.addEventListener('abort', () => resolve(), { once: true });
        });
      }
      signal.throwIfAborted();
      nowMs = Math.max(nowMs, endMs);
    },
    get waitedFor() {
      return waiting.size > 0;
    },
    mayGo(untilMs) {
      mayGoMs = untilMs;
      for (const resolve of waiting) resolve();
      waiting.clear();
    },
    pass(ms) {
      nowMs += ms;
    },
  };
}
