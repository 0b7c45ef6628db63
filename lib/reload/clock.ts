/** The time of day, and being woken, as values; tests have a clock of their own. */
export interface Clock {
  now(): Date;
  /** Runs it once after so many milliseconds, unless the result is called before. */
  after(ms: number, run: () => void): () => void;
}

export const systemClock: Clock = {
  now: () => new Date(),
  after(ms, run) {
    const timer = setTimeout(run, ms).unref();
    return () => clearTimeout(timer);
  },
};

const units = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
] as const;

/** For people: `3d`, `2h`, `5m`, `12s`; of the larger units never less than two. */
export function spanText(ms: number): string {
  const [unit, length] = units.find(([, each]) => ms >= 2 * each) ?? units[3];
  return `${Math.max(0, Math.floor(ms / length))}${unit}`;
}
