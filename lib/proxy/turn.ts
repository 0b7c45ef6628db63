import { type Ending, internalFault } from './guard.ts';

/** Who has read its share, and reads on when the others have had their turn. */
export interface TurnTaker extends Ending {
  nextTurn(): void;
}

/** A read of this many bytes is part of something large; smaller ones are not counted. */
export const bulkRead = 32 * 1024;

/** Bytes of large transfers that one turn of the event loop moves: a fraction of a millisecond's work. */
const turnBytes = 512 * 1024;

/**
 * Shares the event loop among large transfers and everything else. libuv reads a socket up to 32 times before it looks at
 * the next one, 2 MB where the sender is quick; a thousand of those are a second in which nobody else is served.
 */
class Turn {
  #bytes = 0;
  #waiting: TurnTaker[] = [];

  /** Counts a large read; false when the reader has to stop, and is told when to go on. */
  take(bytes: number, reader: TurnTaker): boolean {
    if (this.#bytes === 0) setImmediate(this.#over);
    this.#bytes += bytes;
    if (this.#bytes <= turnBytes) return true;
    this.#waiting.push(reader);
    return false;
  }

  readonly #over = (): void => {
    this.#bytes = 0;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const reader of waiting) {
      try {
        reader.nextTurn();
      } catch (error) {
        internalFault('reading on', reader, error);
      }
    }
  };
}

/** One event loop, one turn. */
export const turn = new Turn();
