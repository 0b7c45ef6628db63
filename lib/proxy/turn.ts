import { type Ending, internalFault } from './guard.ts';

/** Who has read its share, and reads on when the others have had their turn. */
export interface TurnTaker extends Ending {
  nextTurn(): void;
}

/** A read of this many bytes is part of something large; smaller ones are not counted. */
export const bulkRead = 32 * 1024;

/** Bytes of large transfers that every turn of the event loop may move: a fraction of a millisecond's work. */
const turnBytes = 512 * 1024;

/** Readers that go on in one turn: each reads at least once before it can be stopped again. */
const turnReaders = turnBytes / (64 * 1024);

/**
 * Milliseconds of one turn for work that was put off; what is left then waits for the next. Large transfers have as many
 * while they are few: to stop a reader and let it go on costs as much as to move a few hundred kilobytes.
 */
const turnMs = 2;

/** What `later` was told to run. */
export interface PutOff {
  run: (() => void) | null;
}

/**
 * Shares the event loop among large transfers, long work and everything else. libuv reads a socket up to 32 times before
 * it looks at the next one, 2 MB where the sender is quick; a thousand of those, or of connections with another slice of
 * pipelined requests each, are a second in which nobody else is served. So these take turns with each other as well.
 */
class Turn {
  #bytes = 0;
  /** When the first of these were read. */
  #startedAt = 0;
  #isDue = false;
  /** In both of these the first `…Taken` have had their turn. */
  #readers: TurnTaker[] = [];
  #readersTaken = 0;
  #slices: PutOff[] = [];
  #slicesTaken = 0;

  /** A connection has been accepted in this turn. */
  #hasArrivals = false;

  /**
   * A connection has been accepted. libuv accepts one in each turn, so while more of them come turns are kept short:
   * otherwise whoever connects would wait for a millisecond or more for each that came before.
   */
  arrival(): void {
    this.#hasArrivals = true;
  }

  /** Counts a large read; false when the reader has to stop, and is told when to go on. */
  take(bytes: number, reader: TurnTaker): boolean {
    if (this.#bytes === 0) this.#startedAt = performance.now();
    this.#bytes += bytes;
    this.#schedule();
    if (this.#bytes <= turnBytes) return true;
    if (this.#isCalm && performance.now() - this.#startedAt < turnMs) return true;
    this.#readers.push(reader);
    return false;
  }

  /** Nobody is connecting, and all readers that wait go on in the next turn. */
  get #isCalm(): boolean {
    return !this.#hasArrivals && this.#readers.length - this.#readersTaken <= turnReaders;
  }

  /** Runs it when others have had their turn, unless `run` is null by then. It is to be `guarded`. */
  later(run: () => void): PutOff {
    const slice = { run };
    this.#slices.push(slice);
    this.#schedule();
    return slice;
  }

  #schedule(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    setImmediate(this.#over);
  }

  readonly #over = (): void => {
    this.#isDue = false;
    this.#bytes = 0;
    const isShort = this.#hasArrivals;
    this.#hasArrivals = false;
    this.#goOnReading(isShort ? 1 : turnReaders);
    this.#goOnWorking(isShort ? 0 : turnMs);
    if (this.#readers.length > 0 || this.#slices.length > 0) this.#schedule();
  };

  #goOnReading(most: number): void {
    const until = Math.min(this.#readers.length, this.#readersTaken + most);
    while (this.#readersTaken < until) {
      const reader = this.#readers[this.#readersTaken++] as TurnTaker;
      try {
        reader.nextTurn();
      } catch (error) {
        internalFault('reading on', reader, error);
      }
    }
    if (!mayForget(this.#readers, this.#readersTaken)) return;
    this.#readers = this.#readers.slice(this.#readersTaken);
    this.#readersTaken = 0;
  }

  #goOnWorking(forMs: number): void {
    // What comes to it meanwhile has had its turn.
    const until = this.#slices.length;
    if (until === 0) return;
    const startedAt = performance.now();
    while (this.#slicesTaken < until) {
      const { run } = this.#slices[this.#slicesTaken++] as PutOff;
      if (run === null) continue;
      try {
        run();
      } catch (error) {
        internalFault('work that was put off', null, error);
      }
      if (performance.now() - startedAt > forMs) break;
    }
    if (!mayForget(this.#slices, this.#slicesTaken)) return;
    this.#slices = this.#slices.slice(this.#slicesTaken);
    this.#slicesTaken = 0;
  }
}

/** Half of it or more is done with: what remains is moved at most once for each that has gone. */
function mayForget(queue: readonly unknown[], taken: number): boolean {
  return taken > 0 && 2 * taken >= queue.length;
}

/** One event loop, one turn. */
export const turn = new Turn();
