export interface Waiting {
  /** When the wait began, on the clock of `performance.now()`. */
  readonly since: number;
  expire(): void;
}

/**
 * Deadlines that are all equally far away when they are set, so that the oldest is always due first and one timer serves
 * all. Most are met: setting and clearing a timer for each would be for nothing.
 */
export class Deadlines {
  readonly #ms: number;
  /** In the order of their beginnings. */
  readonly #waiting = new Set<Waiting>();
  #armed = false;

  constructor(ms: number) {
    this.#ms = ms;
  }

  add(waiting: Waiting): void {
    this.#waiting.add(waiting);
    if (!this.#armed) this.#arm(this.#ms);
  }

  delete(waiting: Waiting): void {
    this.#waiting.delete(waiting);
  }

  #arm(ms: number): void {
    this.#armed = true;
    // What waits is an open socket, which keeps the process alive by itself; the timer often outlives it.
    setTimeout(this.#ring, ms).unref();
  }

  readonly #ring = (): void => {
    const now = performance.now();
    for (const waiting of this.#waiting) {
      const left = waiting.since + this.#ms - now;
      if (left > 0) {
        this.#arm(Math.ceil(left));
        return;
      }
      this.#waiting.delete(waiting);
      waiting.expire();
    }
    this.#armed = false;
  };
}
