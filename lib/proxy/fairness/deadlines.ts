import { type Ending, internalFault } from '../guard.ts';
import { behindReads } from './behind-reads.ts';
import { type InLine, Line } from './line.ts';

export interface Expirable extends Ending, InLine<Expirable> {
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
  readonly #waiting = new Line<Expirable>();
  #armed = false;

  constructor(ms: number) {
    this.#ms = ms;
  }

  add(waiting: Expirable): void {
    this.#waiting.append(waiting);
    if (!this.#armed) this.#arm(this.#ms);
  }

  /** Does nothing to one that has left already. */
  delete(waiting: Expirable): void {
    this.#waiting.remove(waiting);
  }

  #arm(ms: number): void {
    this.#armed = true;
    // What waits is an open socket, which keeps the process alive by itself; the timer often outlives it.
    setTimeout(this.#due, ms).unref();
  }

  readonly #due = behindReads(() => {
    try {
      this.#expireDue();
    } finally {
      // Whatever happened, the others are still waited for.
      this.#armed = false;
      const { first } = this.#waiting;
      if (first !== null) this.#arm(Math.max(0, Math.ceil(first.since + this.#ms - performance.now())));
    }
  });

  #expireDue(): void {
    const now = performance.now();
    for (;;) {
      const { first } = this.#waiting;
      if (first === null || first.since + this.#ms > now) return;
      this.#waiting.remove(first);
      try {
        first.expire();
      } catch (error) {
        internalFault('a deadline', first, error);
      }
    }
  }
}
