import { type Ending, internalFault } from '../guard.ts';

export interface Expirable extends Ending {
  /** When the wait began, on the clock of `performance.now()`. */
  readonly since: number;
  expire(): void;
  /** Neighbours in the queue; the queue's own. */
  earlier: Expirable | null;
  later: Expirable | null;
}

/**
 * Deadlines that are all equally far away when they are set, so that the oldest is always due first and one timer serves
 * all. Most are met: setting and clearing a timer for each would be for nothing.
 */
export class Deadlines {
  readonly #ms: number;
  /** In the order of their beginnings. Linked, because a Set would leave tables behind that keep those who have left. */
  #first: Expirable | null = null;
  #last: Expirable | null = null;
  #armed = false;

  constructor(ms: number) {
    this.#ms = ms;
  }

  add(waiting: Expirable): void {
    waiting.earlier = this.#last;
    if (this.#last === null) this.#first = waiting;
    else this.#last.later = waiting;
    this.#last = waiting;
    if (!this.#armed) this.#arm(this.#ms);
  }

  /** Does nothing to one that has left already. */
  delete(waiting: Expirable): void {
    const { earlier, later } = waiting;
    if (earlier === null && waiting !== this.#first) return;
    if (earlier === null) this.#first = later;
    else earlier.later = later;
    if (later === null) this.#last = earlier;
    else later.earlier = earlier;
    waiting.earlier = null;
    waiting.later = null;
  }

  #arm(ms: number): void {
    this.#armed = true;
    // What waits is an open socket, which keeps the process alive by itself; the timer often outlives it.
    setTimeout(this.#ring, ms).unref();
  }

  readonly #ring = (): void => {
    try {
      this.#expireDue();
    } finally {
      // Whatever happened, the others are still waited for.
      this.#armed = false;
      const first = this.#first;
      if (first !== null) this.#arm(Math.max(0, Math.ceil(first.since + this.#ms - performance.now())));
    }
  };

  #expireDue(): void {
    const now = performance.now();
    for (let first = this.#first; first !== null && first.since + this.#ms <= now; first = this.#first) {
      this.delete(first);
      try {
        first.expire();
      } catch (error) {
        internalFault('a deadline', first, error);
      }
    }
  }
}
