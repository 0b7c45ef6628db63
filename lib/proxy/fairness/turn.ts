import { type Ending, internalFault } from '../guard.ts';
import { smallServings, writeAllWaiting } from '../node-writes.ts';
import { NextTurn } from './next-turn.ts';

/** Who has read its share, and reads on when the others have had their turn. */
export interface TurnTaker extends Ending {
  nextTurn(): void;
}

/** A read of this many bytes is part of something large; smaller ones are not counted. */
export const bulkRead = 32 * 1024;

/**
 * So many bytes of requests are long work: to take them apart, decide and pass them on takes several times as long as an
 * ordinary request. A reader of so many asks `turn.mayWork`.
 */
export const longRead = 4 * 1024;

/** Bytes of large transfers that every turn of the event loop may move: a fraction of a millisecond's work. */
const turnBytes = 512 * 1024;

/** Readers that go on in one turn: each reads at least once before it can be stopped again. */
const turnReaders = turnBytes / (64 * 1024);

/** Milliseconds of one turn for work that was put off; what is left then waits for the next. */
const turnMs = 2;

/**
 * Milliseconds of one turn for large transfers while they are few and have the proxy to themselves: to stop a reader and let
 * it go on costs as much as to move some ten kilobytes. Who comes then waits for no more than that.
 */
const calmMs = 0.75;

/** Bytes of such a turn between two looks at the clock: less than a tenth of a millisecond's work. */
const calmBytes = 128 * 1024;

/** Bytes of every turn while others are served who move little, and the readers that go on in one. */
const companyBytes = 256 * 1024;
const companyReaders = companyBytes / (64 * 1024);

/**
 * Milliseconds over which it is counted how often they are, and for which it holds; and how often is enough, in milliseconds
 * from one to the next. What large transfers begin with is small as well.
 */
const companyMs = 50;
const companyEveryMs = 10;

/** Pieces of such work in one turn at most. */
const turnSlices = 32;

/** Milliseconds between two pieces of such work while somebody connects in every turn. */
const arrivalsMs = 4;

/** What was given to `later` to run. */
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
  /** When it was last looked how often somebody who moves little had been served, and how often that was. */
  #lookedAt = 0;
  #servings = 0;
  #hasCompany = false;
  /** How many may be read before it is asked again whether the turn is over. */
  #bytesLet = 0;
  readonly #nextTurn = new NextTurn(() => this.#over());
  /** In both of these the first `…Taken` have had their turn. */
  #readers: TurnTaker[] = [];
  #readersTaken = 0;
  #slices: PutOff[] = [];
  #slicesTaken = 0;

  /** Immediates that will look for a slice. */
  #called = 0;
  /** Long work has been done at once in this turn, the first of it at `#longSince`. */
  #hasWorked = false;
  #longSince = 0;
  /** When this turn began with its slices, and when the last of them had ended, by `performance.now()`. */
  #slicesAt = 0;
  #workedAt = 0;

  /** A connection has been accepted in this turn, or in the one that has just ended. */
  #hasArrivals = false;
  #isShort = false;

  /**
   * A connection has been accepted. Only a few are in each turn, so while more of them come turns are kept short: otherwise a
   * new connection would wait for a millisecond or more for each few that came before.
   */
  arrival(): void {
    this.#hasArrivals = true;
  }

  /** Counts a large read; false when the reader has to stop; `nextTurn` is called when it may go on. */
  take(bytes: number, reader: TurnTaker): boolean {
    writeAllWaiting();
    if (this.#bytes === 0) {
      this.#startedAt = performance.now();
      this.#lookForCompany();
      this.#bytesLet = this.#hasCompany ? companyBytes : turnBytes;
      this.#nextTurn.schedule();
    }
    this.#bytes += bytes;
    if (this.#bytes <= this.#bytesLet) return true;
    if (this.#isCalm && performance.now() - this.#startedAt < calmMs) {
      this.#bytesLet = this.#bytes + calmBytes;
      return true;
    }
    this.#readers.push(reader);
    return false;
  }

  #lookForCompany(): void {
    const sinceMs = this.#startedAt - this.#lookedAt;
    if (sinceMs < companyMs) return;
    const servings = smallServings();
    this.#hasCompany = (servings - this.#servings) * companyEveryMs >= sinceMs;
    this.#lookedAt = this.#startedAt;
    this.#servings = servings;
  }

  /** Nobody is connecting, nobody else is served, and all readers that wait go on in the next turn. */
  get #isCalm(): boolean {
    return !this.#hasArrivals && !this.#hasCompany && this.#readers.length - this.#readersTaken <= turnReaders;
  }

  /**
   * Whether long work may be done at once: the first of a turn, and what fits into its time behind that, while none waits.
   * Where it is false, the work is done `later`.
   */
  mayWork(): boolean {
    writeAllWaiting();
    if (this.#slices.length > this.#slicesTaken) return false;
    const now = performance.now();
    if (this.#hasWorked) return !this.#hasArrivals && now - this.#longSince < turnMs;
    this.#hasWorked = true;
    this.#longSince = now;
    this.#nextTurn.schedule();
    return true;
  }

  /** Runs it when others have had their turn, unless `run` is null by then. It is to be `guarded`. */
  later(run: () => void): PutOff {
    const slice = { run };
    this.#slices.push(slice);
    this.#call(1);
    return slice;
  }

  /**
   * Every slice is an immediate of its own. What it leaves to `process.nextTick` and to promises, which is most of what
   * Node's TLS and HTTP do, then happens before the next one asks what time it is.
   */
  #call(most: number): void {
    this.#nextTurn.schedule();
    const until = Math.min(turnSlices, this.#called + most);
    for (; this.#called < until; this.#called++) setImmediate(this.#next);
  }

  #over(): void {
    this.#bytes = 0;
    this.#hasWorked = false;
    this.#isShort = this.#hasArrivals;
    this.#hasArrivals = false;
    this.#slicesAt = 0;
    this.#goOnReading(this.#isShort ? 1 : this.#hasCompany ? companyReaders : turnReaders);
    if (this.#readers.length > 0) this.#nextTurn.schedule();
  }

  readonly #next = (): void => {
    this.#called--;
    if (this.#mayGoOn()) this.#work();
    if (this.#called === 0 && this.#slices.length > this.#slicesTaken) this.#call(this.#slices.length);
  };

  #mayGoOn(): boolean {
    const now = performance.now();
    const isFirst = this.#slicesAt === 0;
    if (isFirst) this.#slicesAt = now;
    if (this.#isShort) return isFirst && now - this.#workedAt >= arrivalsMs;
    return isFirst || now - this.#slicesAt <= turnMs;
  }

  #work(): void {
    let run: (() => void) | null = null;
    while (run === null && this.#slicesTaken < this.#slices.length) {
      ({ run } = this.#slices[this.#slicesTaken++] as PutOff);
    }
    if (mayForget(this.#slices, this.#slicesTaken)) {
      this.#slices = this.#slices.slice(this.#slicesTaken);
      this.#slicesTaken = 0;
    }
    if (run === null) return;
    try {
      run();
    } catch (error) {
      internalFault('work that was put off', null, error);
    }
    this.#workedAt = performance.now();
  }

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
}

/** Half of it or more is done with: what remains is moved at most once for each that has gone. */
function mayForget(queue: readonly unknown[], taken: number): boolean {
  return taken > 0 && 2 * taken >= queue.length;
}

/** One event loop, one turn. */
export const turn = new Turn();

/** What a piece costs besides its bytes, as many bytes as take that long: it may have a few. */
const pieceCost = 1024;

/** What is read of one connection, as it counts in turns: what comes in pieces was read at once, and none of them is large. */
export class CountedReads {
  readonly #inPieces: boolean;
  #untold = 0;

  constructor(inPieces: boolean) {
    this.#inPieces = inPieces;
  }

  /** Of a socket: what TLS has read comes record by record. */
  static of(client: object): CountedReads {
    return new CountedReads('encrypted' in client);
  }

  /** As `turn.take`. */
  take(bytes: number, reader: TurnTaker): boolean {
    const untold = this.#inPieces ? this.#untold + bytes + pieceCost : bytes;
    const isBulk = untold >= bulkRead;
    this.#untold = isBulk ? 0 : untold;
    return !isBulk || turn.take(untold, reader);
  }
}
