import net from 'node:net';
import type { Writable } from 'node:stream';
import { internalFault } from './guard.ts';
import { type DirectWrites, directWritesOf, renewRequests } from './node-direct-writes.ts';
import { latin1Slice } from './node-internals.ts';
import { hasTimeout } from './node-streams.ts';

/*
 * How sockets write what the system takes at once without the streams of Node between, and write together what one turn of
 * the event loop has for them. The events of one turn are many: where each one writes for itself, the peer wakes up, finds
 * little, and sleeps again, which costs the sender of the next bytes more than to send them. And neither our code nor the
 * system's stays in the processor's caches. A request over HTTP/1 costs a tenth less this way, a small message an eighth.
 */

/** A longer text is never written at once. */
const maxText = 16 * 1024;

/** More bytes than this are written at once: there is little to be spared, and what waits is to stay in the caches. */
const maxWaitingBytes = 16 * 1024;

/** More than this is not copied. */
const maxBytes = 72 * 1024;

/** No more writes than this wait: they are a fraction of a millisecond's work. */
const maxWaiting = 64;

/** So few bytes are a text: the system gets it from the stack, and of what it does not take Node keeps no more than that. */
const maxBytesAsText = 1024;

/**
 * Where the bytes are that wait: each turn begins at the start of it, so that it stays in the caches. A slow peer that has
 * not taken its bytes keeps all of it, so it has room for the longest that is copied, and for little more.
 */
const roomBytes = 80 * 1024;
let room = Buffer.allocUnsafeSlow(roomBytes);
let filled = 0;

/** Outlets with something that waits, or that has left by itself. */
let due: Outlet[] = [];
let isCalled = false;

/** Under this a stream keeps its outlet: there is one, so that all that is written stays in order. */
const kept = Symbol('outlet');

interface HasOutlet {
  [kept]?: Outlet;
}

export function outletOf(stream: Writable): Outlet {
  return (stream as HasOutlet)[kept] ?? Outlet.for(stream);
}

/** Writes now what waits for the end of the turn. Who looks at what a stream still holds does this before. */
export function writeWaiting(stream: Writable): void {
  (stream as HasOutlet)[kept]?.flush();
}

/** Something was written in this turn that has not left yet. */
export function isWriteWaiting(stream: Writable): boolean {
  return (stream as HasOutlet)[kept]?.isWaiting === true;
}

/** What was written in this turn and has not left yet never does. */
export function dropWaiting(stream: Writable): void {
  (stream as HasOutlet)[kept]?.drop();
}

/** What waits in the one that was, or what the system has not taken of it, keeps it for as long. */
function takeNewRoom(): void {
  room = Buffer.allocUnsafeSlow(roomBytes);
  filled = 0;
}

/*
 * Who moves little (a request, a message) waits for a whole turn of the event loop two or three times on the way. The turns of
 * large transfers are kept shorter beside such a one, so it is counted that somebody is.
 */
let served = 0;

/** Somebody who moves little has been served: said once for each message, or by `turnServed`. */
export function smallServed(): void {
  served++;
}

/** A number that differs from the one before where somebody has been served since. */
export function smallServings(): number {
  return served;
}

/** A turn of the event loop has been of use to somebody who moves little. To be called by an immediate. */
export function turnServed(): void {
  smallServed();
  renewRequests();
}

function endTurn(): void {
  isCalled = false;
  turnServed();
  flushDue();
}

/** What waits leaves now. For who is about to keep this turn busy: what is small should not wait for what is large. */
export function writeAllWaiting(): void {
  if (due.length > 0) flushDue();
}

function flushDue(): void {
  const outlets = due;
  due = [];
  for (const outlet of outlets) outlet.leave();
  if (due.length === 0) filled = 0;
}

/**
 * Writes to a connected stream without what Node does for every write (two objects, two jobs), where nothing waits in the stream
 * and the system takes all of it: nearly always. What it does not take waits in the stream, as ever.
 *
 * What is to leave at the end of the turn (`text`, `copy`) leaves before anything else happens to the stream:
 * before `write`, `end`, `cork` and `destroy`.
 */
export class Outlet {
  readonly #stream: Writable;
  /** Null where each write is the stream's. */
  readonly #direct: DirectWrites | null;
  /** One of these waits for the end of the turn, or neither. */
  #text = '';
  #bytes: Buffer | null = null;
  #isDue = false;

  private constructor(stream: Writable) {
    this.#stream = stream;
    this.#direct = directWritesOf(stream);
  }

  /** The one of a stream that has none yet. */
  static for(stream: Writable): Outlet {
    const outlet = new Outlet(stream);
    // Of one that is being connected it is another later.
    if (!(stream instanceof net.Socket && stream.connecting)) (stream as HasOutlet)[kept] = outlet;
    if (outlet.#direct !== null) flushBefore(stream as net.Socket);
    return outlet;
  }

  /** What is written here leaves as it is, and at once or at the end of the turn. */
  get isDirect(): boolean {
    return this.#direct?.isPlain === true && this.#stream.writableCorked === 0;
  }

  /** TLS gets what is written here, and has encrypted it when that returns: bytes where they are, but a text from a copy. */
  get isSecure(): boolean {
    return this.#direct?.isPlain === false;
  }

  get isWaiting(): boolean {
    return this.#text !== '' || this.#bytes !== null;
  }

  /**
   * Writes at once.
   *
   * @param written called once the bytes are free, unless they are when this returns.
   * @returns whether they are, and more may be written.
   */
  write(bytes: Buffer, written?: () => void): boolean {
    this.flush();
    // To encrypt much at once, and to wait for it, is the stream's.
    if (this.#direct?.isPlain !== true || !this.#mayWait) return this.#writeByStream(bytes, written);
    return this.#direct.put(bytes, written);
  }

  /**
   * The same for what is little, over TLS as well.
   *
   * @param written called once the bytes are free, unless they are when this returns.
   * @returns whether they are.
   */
  put(bytes: Buffer, written: () => void): boolean {
    this.flush();
    if (this.#direct !== null && this.#mayWait) return this.#direct.put(bytes, written);
    this.#stream.write(bytes, written);
    return false;
  }

  /**
   * Writes a text, at the end of the turn where nothing waits in the stream.
   *
   * @param text one character per byte.
   * @returns false when the peer is slow.
   */
  text(text: string): boolean {
    if (this.#text !== '' && this.#text.length + text.length <= maxText) {
      this.#text += text;
      return true;
    }
    this.flush();
    if (text.length > maxText || !this.#mayWait) return this.#stream.write(text, 'latin1');
    if (text === '') return true;
    this.#text = text;
    this.#wait();
    return true;
  }

  /**
   * The same of bytes, which are copied, behind a head.
   *
   * @param head one character per byte.
   * @param length how many of `bytes`.
   * @returns false when the peer is slow; null where nothing was written: something waits in the stream, or it is too much.
   */
  copy(head: string, bytes: Buffer, length: number): boolean | null {
    const all = head.length + length;
    if (all > maxBytes) return null;
    const asText = all <= maxBytesAsText && (!this.isSecure || this.#text !== '');
    const isNext = !asText && this.#bytes !== null && this.#goesOn(this.#bytes, all);
    if (!isNext && (!asText || this.#text === '')) this.flush();
    if (!this.#mayWait) return null;
    if (asText) return this.text(head + latin1Slice(bytes, 0, length));
    if (filled + all > roomBytes) flushDue();
    if (filled + all > roomBytes) takeNewRoom();
    const at = head === '' ? filled : filled + room.write(head, filled, 'latin1');
    bytes.copy(room, at, 0, length);
    // What waits already begins before, and leaves with these in one record of TLS.
    const from = this.#bytes?.byteOffset ?? filled;
    this.#bytes = room.subarray(from, filled + all);
    if (all > maxWaitingBytes) {
      this.flush();
      return !this.#stream.writableNeedDrain;
    }
    filled += all;
    this.#wait();
    return true;
  }

  /** Whether so many bytes more may be put right behind those that wait. */
  #goesOn(waiting: Buffer, more: number): boolean {
    const isLast = waiting.buffer === room.buffer && waiting.byteOffset + waiting.length === filled;
    return isLast && waiting.length + more <= maxWaitingBytes && filled + more <= roomBytes;
  }

  get #mayWait(): boolean {
    return this.#direct !== null && isOpenAndEmpty(this.#stream as net.Socket);
  }

  #wait(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    if (due.push(this) >= maxWaiting) {
      flushDue();
      return;
    }
    if (isCalled) return;
    isCalled = true;
    setImmediate(endTurn);
  }

  /** The turn is over. */
  leave(): void {
    this.#isDue = false;
    try {
      this.flush();
    } catch (error) {
      internalFault('writing at the end of a turn', this.#stream, error);
    }
  }

  /** Writes what waits. */
  flush(): void {
    const text = this.#text;
    const bytes = this.#bytes;
    if (text !== '') {
      this.#text = '';
      this.#direct?.put(text);
    } else if (bytes !== null) {
      this.#bytes = null;
      if (this.#direct?.put(bytes) !== false) return;
      // It is not free before the system has taken all.
      takeNewRoom();
    }
  }

  drop(): void {
    this.#text = '';
    this.#bytes = null;
  }

  /** What happens to the stream from here on happens behind all that was written. */
  settle(): void {
    this.flush();
    this.#direct?.settle();
  }

  #writeByStream(bytes: Buffer, written: (() => void) | undefined): boolean {
    const stream = this.#stream;
    // A callback costs a job of its own; one that is not done, and is long enough, ends with `drain`.
    if (written === undefined || (bytes.length >= stream.writableHighWaterMark && stream.writableLength === 0)) {
      if (stream.write(bytes) && written !== undefined) return true;
      if (written !== undefined) stream.once('drain', written);
    } else {
      stream.write(bytes, written);
    }
    return false;
  }
}

type Write = (this: net.Socket, chunk: never, encoding: never, done: never) => boolean;
type End = (this: net.Socket, chunk: never, encoding: never, done: never) => net.Socket;

type Destroy = net.Socket['destroy'];

const { write, end, cork, destroy } = net.Socket.prototype as {
  write: Write;
  end: End;
  cork: () => void;
  destroy: Destroy;
};

function settle(stream: Writable): void {
  (stream as HasOutlet)[kept]?.settle();
}

const writeBehind: Write = function (chunk, encoding, done) {
  settle(this);
  return write.call(this, chunk, encoding, done);
};

const endBehind: End = function (chunk, encoding, done) {
  settle(this);
  return end.call(this, chunk, encoding, done);
};

/** A stream that is corked takes no write that the system has already: it would write it a second time. */
const corkBehind = function (this: net.Socket): void {
  writeWaiting(this);
  cork.call(this);
};

const destroyBehind = function (this: net.Socket, error?: Error): net.Socket {
  writeWaiting(this);
  return destroy.call(this, error);
};

/** All that happens to the stream happens behind what waits. The functions are the same for all sockets, where they can be. */
function flushBefore(socket: net.Socket): void {
  const own = socket.destroy;
  const ownBehind = (error?: Error): net.Socket => {
    writeWaiting(socket);
    return own.call(socket, error);
  };
  const behind = own === destroy ? destroyBehind : ownBehind;
  Object.assign(socket, { write: writeBehind, end: endBehind, cork: corkBehind, destroy: behind });
}

/** Not ended, not broken, and nothing written to it waits. */
function isOpenAndEmpty(socket: net.Socket): boolean {
  return socket.writableLength === 0 && socket.writable && socket.writableCorked === 0 && !hasTimeout(socket);
}
