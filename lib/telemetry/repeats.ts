/** Between two lines about the same, in milliseconds. */
const everyMs = 60_000;
/** Lines in that time, whatever they are about; and how much is remembered of what there was a line about. */
const maxLines = 60;
const maxKeys = 1024;

/** A line may be written: about how many events since the last one of its kind, and how many of all kinds had none. */
export interface Occasion {
  readonly times: number;
  readonly omitted: number;
}

interface Told {
  at: number;
  /** Events since then. */
  untold: number;
}

/**
 * Lines about what others cause as often as they like. The first of each kind is told, then one a minute for as long as it
 * goes on; and of all kinds together no more than sixty a minute.
 */
export class Repeats {
  readonly #nowMs: () => number;
  readonly #told = new Map<string, Told>();
  #windowStart = Number.NEGATIVE_INFINITY;
  #lines = 0;
  #omitted = 0;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Null: no line. `key`: what makes two events the same. */
  occasion(key: string): Occasion | null {
    const now = this.#nowMs();
    if (now - this.#windowStart >= everyMs) {
      this.#windowStart = now;
      this.#lines = 0;
    }
    const known = this.#told.get(key);
    if (known !== undefined && now - known.at < everyMs) {
      known.untold++;
      return null;
    }
    if (this.#lines >= maxLines) {
      this.#omitted++;
      return null;
    }
    this.#lines++;
    const occasion = { times: (known?.untold ?? 0) + 1, omitted: this.#omitted };
    this.#omitted = 0;
    // Moved to the end: the first is always the one that was told the longest time ago.
    this.#told.delete(key);
    this.#told.set(key, { at: now, untold: 0 });
    if (this.#told.size > maxKeys) this.#told.delete(this.#told.keys().next().value as string);
    return occasion;
  }
}

export function occasionFields({ times, omitted }: Occasion): Record<string, number> {
  return { ...(times === 1 ? {} : { times }), ...(omitted === 0 ? {} : { omitted }) };
}
