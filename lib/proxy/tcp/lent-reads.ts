import { Socket } from 'node:net';
import type { Duplex, Writable } from 'node:stream';
import { bulkRead, CountedReads, longRead, type TurnTaker, turn } from '../fairness/turn.ts';
import { internalFault } from '../guard.ts';
import { lendReads, mayLendReads } from '../node-streams.ts';
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

/** How a socket is made to read on after `callback` said false. */
export interface Resumable {
  resume(): unknown;
}

/**
 * Reads without a new buffer for every read. Small reads go through one buffer shared by all connections
 * and are copied. A bulk transfer gets a ring of its own, whose buffers are lent to the writes: no copy, no garbage, and
 * the ring's size is the bound on what a slow reader can make us hold.
 */
export class LentReads implements OnRead, TurnTaker {
  readonly #sink: Writable;
  readonly #outlet: Outlet;
  #source: Resumable | null = null;
  #ring: Buffer[] | null = null;
  /** Ring buffers that are being written, oldest first. */
  #lent = 0;
  #next = 0;
  #stopped = false;

  constructor(sink: Writable) {
    this.#sink = sink;
    this.#outlet = outletOf(sink);
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
      if (length >= bulkRead) this.#ring = Array.from({ length: ringSize }, () => Buffer.allocUnsafeSlow(ringBytes));
      if (this.#outlet.write(copyOfShared(length))) return true;
      spare = nothing;
      if (!this.#sink.writableNeedDrain) return true;
      this.#stopped = true;
      this.#sink.once('drain', () => this.#resume());
      return false;
    }
    const filled = ring[this.#next] as Buffer;
    this.#next = (this.#next + 1) % ringSize;
    if (!this.#outlet.write(filled.subarray(0, length), this.#written)) this.#lent++;
    if (length < bulkRead && this.#lent === 0) {
      this.#ring = null;
      this.#next = 0;
    }
    if (this.#lent < ringSize) return length < bulkRead || turn.take(length, this);
    this.#stopped = true;
    return false;
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

/** A client that is read by `data`, as one that goes on when others have had their turn. */
export class DataReader implements TurnTaker {
  readonly #client: Duplex;
  readonly #app: Writable;
  readonly #counted: CountedReads;
  /** By `data`; or by `LentReads`, which alone knows when there is room, though a turn may still be asked for. */
  #reads: 'by data' | 'lent' = 'by data';

  constructor(client: Duplex, app: Writable) {
    this.#client = client;
    this.#app = app;
    this.#counted = CountedReads.of(client);
  }

  /** So much was read by `data`. False when the client is to be paused, until its next turn. */
  mayGoOn(bytes: number): boolean {
    return this.#counted.take(bytes, this);
  }

  nextTurn(): void {
    if (this.#reads === 'by data' && !this.#app.writableNeedDrain) this.#client.resume();
  }

  destroy(): void {
    this.#client.destroy();
  }

  /** See `lendUploads`. */
  lend(): boolean {
    if (!lendUploads(this.#client, this.#app)) return false;
    this.#reads = 'lent';
    return true;
  }
}

/**
 * What the client sends from here on goes to the app without a buffer for every read, where nothing waits.
 *
 * @returns true where it does: the client emits no `data` any more, and is not to be resumed by anybody else.
 */
function lendUploads(client: Duplex, app: Writable): boolean {
  // TLS does not stop between records that it has read already, and the ring may be full by then.
  if (!(client instanceof Socket) || 'encrypted' in client || client.isPaused() || !mayLendReads(client)) return false;
  const reads = new LentReads(app);
  reads.from(client);
  lendReads(client, reads);
  return true;
}
