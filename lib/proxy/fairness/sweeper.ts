import { type Ending, eachGuarded, guarded, internalFault } from '../guard.ts';
import { behindReads } from './behind-reads.ts';

/** Milliseconds between looks at deadlines; they are late by up to this much. */
const sweepMs = 1000;

interface Swept {
  /** @param nowMs on the clock of `performance.now()`. */
  sweep(nowMs: number): void;
}

/**
 * Looks at the deadlines of many, with one timer for all of them. A fault of ours ends the member that it was met in, and
 * nobody else misses a deadline by it.
 */
export class Sweeper {
  readonly #timer: NodeJS.Timeout;

  /**
   * @param where what an internal fault is said to have been met in.
   * @param pools those that several members share.
   */
  constructor(where: string, pools: () => Iterable<Swept>, members: Iterable<Swept & Ending>) {
    const sweep = (): void => {
      const nowMs = performance.now();
      for (const pool of pools()) {
        try {
          pool.sweep(nowMs);
        } catch (error) {
          internalFault(`${where}: what is shared`, null, error);
        }
      }
      eachGuarded(where, members, (member) => member.sweep(nowMs));
    };
    this.#timer = setInterval(behindReads(guarded(where, null, sweep)), sweepMs).unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
