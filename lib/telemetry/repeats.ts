/** Lines about what others cause as often as they like: how often about the same, and how many in a minute about anything. */
export interface LineRule {
  /** Two lines about the same are so far apart, in milliseconds. */
  readonly everyMs: number;
  readonly mostAMinute: number;
}

/** Rules by name; the same in every thread. */
export const lineRules = {
  malformed: { everyMs: 60_000, mostAMinute: 60 },
  'handshake failed': { everyMs: 60_000, mostAMinute: 60 },
  'not for us': { everyMs: 60_000, mostAMinute: 60 },
  'other HTTP': { everyMs: 60_000, mostAMinute: 60 },
  'not recognized': { everyMs: 3_600_000, mostAMinute: 60 },
  'limit reached': { everyMs: 10_000, mostAMinute: Number.POSITIVE_INFINITY },
  'candidate differs': { everyMs: 60_000, mostAMinute: 60 },
  'candidate failed': { everyMs: 60_000, mostAMinute: 60 },
  'candidate slow': { everyMs: 60_000, mostAMinute: 60 },
  'internal fault': { everyMs: 0, mostAMinute: 10 },
} as const satisfies Record<string, LineRule>;

export type LineKind = keyof typeof lineRules;

/** Holds the lines of several threads to the rules that hold for one. Asked before a line that one thread alone would write. */
export interface LineGate {
  /** `told`: another thread has just written about the same; `full`: all together have written enough for this minute. */
  pass(kind: LineKind, key: string): 'pass' | 'told' | 'full';
}

/** For a thread that writes alone. */
export const openGate: LineGate = { pass: () => 'pass' };

const minuteMs = 60_000;
/** How much is remembered of what there was a line about. */
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
 * goes on; and of all kinds together no more than sixty a minute. What was not told is counted by each thread, and said with
 * its next line.
 */
export class Repeats {
  readonly #nowMs: () => number;
  readonly #kind: LineKind;
  readonly #rule: LineRule;
  readonly #gate: LineGate;
  readonly #told = new Map<string, Told>();
  #windowStart = Number.NEGATIVE_INFINITY;
  #lines = 0;
  #omitted = 0;

  constructor(kind: LineKind, nowMs: () => number, gate: LineGate) {
    this.#nowMs = nowMs;
    this.#kind = kind;
    this.#rule = lineRules[kind];
    this.#gate = gate;
  }

  /** Null: no line. `key`: what makes two events the same. */
  occasion(key: string): Occasion | null {
    const now = this.#nowMs();
    const { everyMs, mostAMinute } = this.#rule;
    if (now - this.#windowStart >= minuteMs) {
      this.#windowStart = now;
      this.#lines = 0;
    }
    const known = this.#told.get(key);
    if (known !== undefined && now - known.at < everyMs) {
      known.untold++;
      return null;
    }
    if (this.#lines >= mostAMinute) {
      this.#omitted++;
      return null;
    }
    switch (this.#gate.pass(this.#kind, key)) {
      case 'pass':
        break;
      case 'told':
        if (known === undefined) this.#omitted++;
        else known.untold++;
        return null;
      case 'full':
        // Not asked again before the next minute.
        this.#lines = mostAMinute;
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
