import type { Duplex } from 'node:stream';
import { beginMoment, endMoment, now } from '../../moment.ts';
import { Deadlines, type Expirable } from '../fairness/deadlines.ts';
import type { Line } from '../fairness/line.ts';
import { longRead, type PutOff, turn } from '../fairness/turn.ts';
import { guarded, internalFault } from '../guard.ts';
import type { FirstReader } from '../incoming.ts';
import { type Keeper, Kept, noKeeper } from '../kept.ts';

/** How looking at the first bytes of a stream ended. `bytes` is all that was read, and has been taken off the stream. */
export type Peek<T> =
  | { readonly kind: 'seen'; readonly value: T; readonly bytes: Buffer }
  /** The other side ended or reset first. */
  | { readonly kind: 'ended'; readonly bytes: Buffer }
  | { readonly kind: 'timeout'; readonly bytes: Buffer };

/** What is looked at: it need not be a stream as long as what was read already, or comes first, is enough. */
export interface Peeked {
  readonly socket: Duplex;
  /** @returns false where a stream is needed to wait for them. */
  awaitFirst?(reader: FirstReader): boolean;
  /** Nobody waits any more; does nothing where nobody does. */
  forgetFirst?(): void;
  /** Who pays for what has come, asked once it is not enough; nobody where there is none. */
  keeper?(): Keeper;
}

/**
 * Reads until `look` has an answer (not undefined). What was read goes to `done`, which must hand it on in the same
 * turn: to a reader that takes bytes, or back onto the stream with `putBack`. A fault in either ends the stream.
 *
 * The one that takes it over begins at once, and much may have come: large reads wait for a turn of their own.
 *
 * @param before bytes that were read already; they come first, and may be enough.
 * @param look gets all that has come so far, each time; to look at each byte once is its own affair.
 */
export function peek<T>(
  stream: Peeked,
  before: Buffer,
  timeoutMs: number,
  look: (bytes: Buffer) => T | undefined,
  done: (result: Peek<T>) => void,
): void {
  if (before.length > 0) {
    const value = look(before);
    if (value !== undefined) {
      done({ kind: 'seen', value, bytes: before });
      return;
    }
  }
  new Inspection(stream, before, deadlinesOf(timeoutMs), look, done);
}

/** By their length, of which there are few: policy has one, configuration another. */
const deadlines = new Map<number, Deadlines>();

function deadlinesOf(timeoutMs: number): Deadlines {
  let known = deadlines.get(timeoutMs);
  if (known === undefined) {
    known = new Deadlines(timeoutMs);
    deadlines.set(timeoutMs, known);
  }
  return known;
}

class Inspection<T> implements Expirable, FirstReader {
  readonly since = now();
  line: Line<Expirable> | null = null;
  earlier: Expirable | null = null;
  later: Expirable | null = null;
  readonly #peeked: Peeked;
  /** Null for as long as the first bytes are waited for without one. */
  #stream: Duplex | null = null;
  readonly #deadlines: Deadlines;
  readonly #look: (bytes: Buffer) => T | undefined;
  readonly #done: (result: Peek<T>) => void;
  /** All that has come. The memory behind it may be larger: it doubles, so that each byte is copied a few times at most. */
  #bytes: Buffer;
  #room: Buffer | null = null;
  #resting: PutOff | null = null;
  #kept: Kept | null = null;

  constructor(
    peeked: Peeked,
    before: Buffer,
    deadlines: Deadlines,
    look: (bytes: Buffer) => T | undefined,
    done: (result: Peek<T>) => void,
  ) {
    this.#peeked = peeked;
    this.#bytes = before;
    this.#deadlines = deadlines;
    this.#look = look;
    this.#done = done;
    deadlines.add(this);
    if (before.length > 0) this.#keep(0);
    if (before.length > 0 || peeked.awaitFirst?.(this) !== true) this.streamed();
  }

  came(bytes: Buffer): void {
    this.#onData(bytes);
  }

  ended(): void {
    this.#onEnd();
  }

  streamed(): void {
    const stream = this.#peeked.socket;
    this.#stream = stream;
    stream.on('data', this.#onData);
    stream.on('end', this.#onEnd);
    stream.on('close', this.#onEnd);
    // Of its end nobody is told twice: TLS may have seen it together with the end of the handshake.
    if (stream.readableEnded || stream.closed) this.#onEnd();
  }

  expire(): void {
    // What has come in time is looked at, though its turn has not come.
    if (this.#resting === null || !this.#rested()) this.#finish({ kind: 'timeout', bytes: this.#bytes });
  }

  destroy(): void {
    this.#leave();
    this.#peeked.socket.destroy();
  }

  readonly #onData = (chunk: Buffer): void => {
    beginMoment();
    try {
      // Behind what is long more may come at any time: that takes a stream, which can be paused.
      if (chunk.length >= longRead && this.#stream === null) this.streamed();
      if (chunk.length >= longRead && !turn.mayWork()) this.#rest(chunk);
      else this.#looked(chunk);
    } catch (error) {
      internalFault('detection', this, error);
    } finally {
      endMoment();
    }
  };

  /** It waits in the stream, which says nothing of its end as long as it holds something. */
  #rest(chunk: Buffer): void {
    const { socket } = this.#peeked;
    socket.removeListener('data', this.#onData);
    putBack(socket, chunk);
    this.#keep(chunk.length);
    this.#resting = turn.later(guarded('detection', this, () => void this.#rested()));
  }

  /** Its turn has come, or its deadline before that. Whether that was the end of it. */
  #rested(): boolean {
    if (this.#resting !== null) this.#resting.run = null;
    this.#resting = null;
    const { socket } = this.#peeked;
    const chunk: Buffer | null = socket.read();
    socket.on('data', this.#onData);
    socket.resume();
    return chunk !== null && this.#looked(chunk);
  }

  /** Whether that was the end of it. */
  #looked(chunk: Buffer): boolean {
    this.#append(chunk);
    const value = this.#look(this.#bytes);
    if (value !== undefined) {
      this.#finish({ kind: 'seen', value, bytes: this.#bytes });
      return true;
    }
    this.#keep(0);
    if (this.#stream === null) this.streamed();
    return false;
  }

  /** @param waiting bytes that have come and have not been looked at. */
  #keep(waiting: number): void {
    this.#kept ??= new Kept(this.#peeked.keeper?.() ?? noKeeper);
    this.#kept.set((this.#room?.length ?? this.#bytes.length) + waiting);
  }

  readonly #onEnd = (): void => {
    try {
      this.#finish({ kind: 'ended', bytes: this.#bytes });
    } catch (error) {
      internalFault('detection', this, error);
    }
  };

  #append(chunk: Buffer): void {
    const used = this.#bytes.length;
    if (used === 0) {
      this.#bytes = chunk;
      return;
    }
    const wanted = used + chunk.length;
    let room = this.#room;
    if (room === null || room.length < wanted) {
      room = Buffer.allocUnsafe(Math.max(1024, 2 * wanted));
      this.#bytes.copy(room);
      this.#room = room;
    }
    chunk.copy(room, used);
    this.#bytes = room.subarray(0, wanted);
  }

  #finish(result: Peek<T>): void {
    this.#leave();
    this.#done(result);
  }

  #leave(): void {
    if (this.#resting !== null) this.#resting.run = null;
    this.#deadlines.delete(this);
    this.#kept?.set(0);
    this.#peeked.forgetFirst?.();
    this.#stream?.removeListener('data', this.#onData);
    this.#stream?.removeListener('end', this.#onEnd);
    this.#stream?.removeListener('close', this.#onEnd);
  }
}

/** Makes a stream as if nothing had been read, and leaves it paused: the next reader resumes it. */
export function putBack(stream: Duplex, bytes: Buffer): void {
  // Paused first: a flowing stream without a reader would lose what is put back at the next tick.
  stream.pause();
  if (bytes.length > 0 && !stream.destroyed) stream.unshift(bytes);
}
