import { Socket } from 'node:net';
import type { Duplex, Writable } from 'node:stream';
import { Roster, type Rostered } from '../../roster.ts';
import { behindReads } from '../fairness/behind-reads.ts';
import { bulkRead, CountedReads, longRead, type TurnTaker, turn } from '../fairness/turn.ts';
import { guarded, internalFault } from '../guard.ts';
import { type Keeper, Kept } from '../kept.ts';
import { lendReads, mayLendReads, readNextInto } from '../node-streams.ts';
import { type Outlet, outletOf, smallServed } from '../node-writes.ts';
import type { OnRead } from '../upstream/upstreams.ts';

/** For all connections that are not busy: what is read here is copied on before the next read can happen. */
const shared = Buffer.allocUnsafeSlow(64 * 1024);

const nothing = Buffer.alloc(0);

/** What the last copy was written from, when the system took it at once: messages of one length need no new one. */
let spare = nothing;

function copyOfShared(length: number): Buffer {
  if (spare.length !== length) spare = Buffer.allocUnsafe(length);
  shared.copy(spare, 0, 0, length);
  return spare;
}

const ringSize = 4;
const ringBytes = 128 * 1024;

/** So often a connection gives its whole ring back. */
const mostRests = 64;

/** Milliseconds between looks at who needs no ring any more. */
const restMs = 1000;

/** Who has a ring. */
const spread = new Roster<LentReads>();
let sweeper: NodeJS.Timeout | null = null;

function sweep(): void {
  for (const reads of spread) if (reads.rests()) spread.delete(reads);
  if (spread.size > 0 || sweeper === null) return;
  clearInterval(sweeper);
  sweeper = null;
}

function watchSpread(reads: LentReads): void {
  spread.add(reads);
  sweeper ??= setInterval(behindReads(guarded('buffers of tunnels', null, sweep)), restMs).unref();
}

/** How a socket is made to read on after `callback` said false. */
export interface Resumable {
  resume(): unknown;
}

/**
 * Reads without a new buffer for every read. Small reads go through one buffer shared by all connections
 * and are copied. A bulk transfer gets a ring of its own, whose buffers are lent to the writes: no copy, no garbage, and
 * the ring's size is the bound on what a slow reader can make us hold. While the reader keeps up, it is one buffer; once nothing
 * moves, none. Where memory is short, small reads are all there is.
 */
export class LentReads implements OnRead, TurnTaker, Rostered {
  rosterPlace = -1;
  readonly #sink: Writable;
  readonly #outlet: Outlet;
  readonly #keeper: Keeper;
  /** The ring. What waits in the sink is charged as that. */
  readonly #kept: Kept;
  #source: Resumable | null = null;
  /** Made one by one, as they are needed. */
  #ring: Buffer[] | null = null;
  /** Ring buffers that are being written, oldest first. */
  #lent = 0;
  #next = 0;
  /** Buffers that the ring may have. */
  #size = ringSize;
  #restsLeft = mostRests;
  #stopped = false;
  /** It has read nothing since it was last looked at. */
  #isResting = false;

  /** @param keeper who pays for what is kept. */
  constructor(sink: Writable, keeper: Keeper) {
    this.#sink = sink;
    this.#outlet = outletOf(sink);
    this.#keeper = keeper;
    this.#kept = new Kept(keeper);
  }

  /** The socket that reads; known only once it is connected. */
  from(source: Resumable): void {
    this.#source = source;
  }

  /** Node asks for this after every read: where the next one goes. */
  readonly buffer = (): Buffer => {
    if (this.#ring === null) return shared;
    // When all are lent, reading has stopped until the oldest, which is this one, is back.
    return this.#ring[this.#next] as Buffer;
  };

  readonly callback = (length: number): boolean => {
    try {
      return this.#read(length);
    } catch (error) {
      internalFault('a read of a tunnel', this, error);
      return false;
    }
  };

  #read(length: number): boolean {
    const ring = this.#ring;
    if (ring === null) {
      if (length < longRead) smallServed();
      if (length >= bulkRead && this.#keeper.hasRoom(ringBytes)) this.#begin();
      if (this.#outlet.write(copyOfShared(length))) return true;
      spare = nothing;
      if (!this.#sink.writableNeedDrain) return true;
      this.#keeper.look();
      this.#stopped = true;
      this.#sink.once('drain', () => this.#resume());
      return false;
    }
    this.#isResting = false;
    const filled = ring[this.#next] as Buffer;
    // What is free again is read into once more.
    if (!this.#outlet.write(filled.subarray(0, length), this.#written)) this.#goOn(ring);
    if (length < bulkRead && this.#lent === 0) this.#end();
    if (this.#lent < this.#size) return length < bulkRead || turn.take(length, this);
    this.#stopped = true;
    this.#keeper.look();
    return false;
  }

  #begin(): void {
    this.#size = ringSize;
    this.#keep([Buffer.allocUnsafeSlow(ringBytes)]);
    watchSpread(this);
  }

  #end(): void {
    this.#next = 0;
    this.#keep(null);
  }

  #keep(ring: Buffer[] | null): void {
    this.#ring = ring;
    this.#kept.set((ring?.length ?? 0) * ringBytes);
  }

  /** The buffer that was to be filled next is lent. */
  #goOn(ring: Buffer[]): void {
    this.#lent++;
    this.#next = (this.#next + 1) % this.#size;
    if (this.#next !== ring.length) return;
    if (this.#keeper.hasRoom(ringBytes)) {
      ring.push(Buffer.allocUnsafeSlow(ringBytes));
      this.#keep(ring);
      watchSpread(this);
    } else {
      // It goes round with what it has.
      this.#size = ring.length;
      this.#next = 0;
    }
  }

  /**
   * Lets go of the ring where none of it is lent, but for the buffer that the socket has been told of, where it cannot be told of
   * another; false while it still reads.
   */
  rests(): boolean {
    const ring = this.#ring;
    if (ring === null || this.#sink.destroyed) return true;
    const isResting = this.#isResting && this.#lent === 0;
    this.#isResting = true;
    if (!isResting) return false;
    const told = ring[this.#next] as Buffer;
    this.#end();
    const source = this.#source;
    // Each time costs a little that stays for as long as the connection does.
    if (source instanceof Socket && this.#restsLeft-- > 0 && readNextInto(source, shared)) return true;
    this.#keep([told]);
    return true;
  }

  readonly #written = (): void => {
    this.#lent--;
    if (this.#stopped) this.#resume();
  };

  nextTurn(): void {
    // Stopped: all buffers are lent, or the reader is slow.
    if (!this.#stopped) this.#source?.resume();
  }

  destroy(): void {
    this.#sink.destroy();
  }

  #resume(): void {
    this.#stopped = false;
    this.#source?.resume();
  }
}

/** Carries what is read of a stream by `data`; it goes on when others have had their turn, and the sink takes more. */
export class DataReader implements TurnTaker {
  readonly #source: Duplex;
  readonly #sink: Writable;
  readonly #counted: CountedReads;
  readonly #keeper: Keeper;
  /** By `data`; or by `LentReads`, which alone knows when there is room, though a turn may still be asked for. */
  #reads: 'by data' | 'lent' = 'by data';
  #awaitsTurn = false;

  /** @param keeper who pays for what is kept. */
  constructor(source: Duplex, sink: Writable, keeper: Keeper) {
    this.#source = source;
    this.#sink = sink;
    this.#keeper = keeper;
    this.#counted = CountedReads.of(source);
    sink.on('drain', this.#drained);
  }

  readonly #drained = (): void => {
    if (!this.#awaitsTurn) this.#source.resume();
  };

  /** Passes on what was read by `data`. */
  pass(bytes: Buffer): void {
    if (!this.#counted.take(bytes.length, this)) this.#awaitsTurn = true;
    const isTaken = this.#sink.write(bytes);
    if (!isTaken) this.#keeper.look();
    if (!isTaken || this.#awaitsTurn) this.#source.pause();
  }

  /** Passes on all that is read from here on. */
  passAll(): void {
    const receive = (bytes: Buffer): void => {
      this.pass(bytes);
      this.lend();
    };
    this.#source.on('data', guarded('a tunnel', this, receive));
  }

  nextTurn(): void {
    this.#awaitsTurn = false;
    if (this.#reads === 'by data' && !this.#sink.writableNeedDrain) this.#source.resume();
  }

  destroy(): void {
    this.#source.destroy();
  }

  /**
   * What the source says from here on goes on without a buffer for every read, where nothing waits.
   *
   * @returns true where it does: the source emits no `data` any more, and is not to be resumed by anybody else.
   */
  lend(): boolean {
    const source = this.#source;
    // TLS does not stop between records that it has read already, and the ring may be full by then.
    if (!(source instanceof Socket) || 'encrypted' in source || source.isPaused() || !mayLendReads(source))
      return false;
    const reads = new LentReads(this.#sink, this.#keeper);
    reads.from(source);
    lendReads(source, reads);
    this.#reads = 'lent';
    this.#sink.off('drain', this.#drained);
    return true;
  }
}

/** What `source` says from here on goes to `sink`, each read in its turn. The ends of both are the caller's. */
export function carry(source: Duplex, sink: Writable, keeper: Keeper): void {
  new DataReader(source, sink, keeper).passAll();
  if (sink.writableNeedDrain) source.pause();
  else source.resume();
}
