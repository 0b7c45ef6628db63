/** Connections of one look at how long they stay. */
const sample = 64;
/** Milliseconds that connections stay on average at most, and for which a look holds. */
const passingMs = 50;
const freshMs = 100;

/**
 * Whether the connections of a worker come and go: then what is uneven among workers evens out by itself, before handing any of
 * them over has paid. Told by counts alone (Little's law): of so many that were open, so many have gone in that time.
 */
export class Turnover {
  #arrived = 0;
  #openBefore = 0;
  #sinceMs = -Infinity;
  /** Until when they are known to. */
  #passingUntil = -Infinity;

  /** One more has come, and stays with this worker, which has `open` without it. */
  arrived(open: number, nowMs: () => number): void {
    if (++this.#arrived < sample) return;
    const now = nowMs();
    const elapsed = now - this.#sinceMs;
    const gone = sample - (open - this.#openBefore);
    const stayMs = (((open + this.#openBefore) / 2) * elapsed) / gone;
    // Those that went were at least three of four that came: else most of these stay.
    const isPassing = gone >= (sample * 3) / 4 && stayMs <= passingMs;
    this.#passingUntil = isPassing ? now + freshMs : -Infinity;
    this.#arrived = 0;
    this.#openBefore = open;
    this.#sinceMs = now;
  }

  isPassing(nowMs: number): boolean {
    return nowMs < this.#passingUntil;
  }
}
