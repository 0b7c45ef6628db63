import { internalFault } from '../guard.ts';
import { type Asker, FairQueue } from './fair-queue.ts';
import { NextTurn } from './next-turn.ts';
import type { PutOff } from './turn.ts';

/**
 * What begins in one turn of the event loop. Each is a tenth of a millisecond's work, and leads to as much again: the
 * request that leaves, the response that is read and written.
 */
const perTurn = 16;

/**
 * Lets what needs a connection to the app begin a few at a time: connects, and requests on the library lane. A thousand
 * clients that ask at one moment would otherwise be a thousand connects, writes and reads in which nobody else is served.
 * Where some have to wait, each asker has its turn.
 */
class Starts {
  #begun = 0;
  readonly #waiting = new FairQueue<PutOff>();
  readonly #next = new NextTurn(() => this.#beginNext());

  /** Runs it now, or in a later turn, unless `run` is null by then. It is to be `guarded`. */
  begin(asker: Asker, run: () => void): PutOff {
    const start: PutOff = { run };
    this.#next.schedule();
    if (this.#begun >= perTurn || this.#waiting.size > 0) {
      this.#waiting.add(asker, start);
    } else {
      this.#begun++;
      run();
    }
    return start;
  }

  #beginNext(): void {
    this.#begun = 0;
    while (this.#begun < perTurn) {
      const start = this.#waiting.take();
      if (start === null) return;
      // What has been taken back costs nobody a turn.
      if (start.run === null) continue;
      this.#begun++;
      try {
        start.run();
      } catch (error) {
        internalFault('a start that was put off', null, error);
      }
    }
    this.#next.schedule();
  }
}

/** One event loop, one turn. */
export const starts = new Starts();
