import { freeBytes, type Keeper, Kept } from '../kept.ts';
import { isLent } from '../lent-data.ts';
import { isRequestLine } from './request-line.ts';

const endOfHead = Buffer.from('\r\n\r\n');
const nothing = Buffer.alloc(0);
const CR = 13;
const LF = 10;

/** No head is longer, so that room for more is only made where more has come. */
const longestHead = 64 * 1024;
const smallRoom = 1024;

/** Twice as much as there is, so that each byte is copied a few times at most. */
function roomFor(bytes: number): number {
  return Math.max(smallRoom, bytes < longestHead ? Math.min(2 * bytes, longestHead) : 2 * bytes);
}

/** What there is of a head. */
export type HeadProgress =
  /** It may become a plain one when more bytes come. */
  | 'partial'
  /** No more bytes make a plain one of it. */
  | 'not-plain'
  /** Whole: the offset of its empty line's CRLF, and of the CRLF before. */
  | number;

/**
 * Bytes of a client that came before their turn: part of a head, or pipelined requests. However small the packets are in
 * which they come, each byte is copied and looked at a bounded number of times.
 */
export class Unread {
  bytes: Buffer = nothing;
  /** `bytes` are the tail of what is filled of this, and there is room behind; null where they are somebody else's. */
  #room: Buffer | null = null;
  #filled = 0;
  /** Somebody else has seen some of what is in there, and may be writing it. */
  #isShared = false;
  readonly #kept: Kept;
  /** Bytes of the head that are known to hold neither its end nor anything that is not plain. */
  #looked = 0;
  #lineSeen = false;

  constructor(keeper: Keeper) {
    this.#kept = new Kept(keeper);
  }

  get length(): number {
    return this.bytes.length;
  }

  append(chunk: Buffer): void {
    const held = this.bytes.length;
    if (held === 0) {
      this.bytes = chunk;
      this.#room = null;
      this.#isShared = true;
      return;
    }
    if (this.#room === null || this.#room.length - this.#filled < chunk.length) {
      const room = Buffer.allocUnsafeSlow(roomFor(held + chunk.length));
      this.bytes.copy(room, 0);
      this.#letGo();
      this.#room = room;
      this.#isShared = false;
      this.#filled = held;
    }
    chunk.copy(this.#room, this.#filled);
    this.#filled += chunk.length;
    this.bytes = this.#room.subarray(this.#filled - held - chunk.length, this.#filled);
  }

  /**
   * What is unread at the end of a read is kept: of a buffer that is only lent a copy, since the loan ends, and of one that is
   * several times as large, which would be kept with it.
   */
  settle(): void {
    const { length, buffer } = this.bytes;
    if (length === 0) {
      // Nearly always nothing was kept.
      if (this.#kept.bytes > 0) this.#kept.set(0);
      return;
    }
    if (isLent(this.bytes) || buffer.byteLength > 2 * length + smallRoom) {
      const room = Buffer.allocUnsafeSlow(length);
      this.#filled = this.bytes.copy(room);
      this.#letGo();
      this.#room = room;
      this.bytes = room;
      this.#isShared = false;
    }
    this.#kept.set(this.bytes.buffer.byteLength);
  }

  /** What is unread is somebody else's from now on. */
  giveAway(): Buffer {
    this.settle();
    const { bytes } = this;
    this.keep(bytes.length);
    this.#kept.set(0);
    return bytes;
  }

  /** Nobody wants them any more. */
  drop(): void {
    this.bytes = nothing;
    this.#letGo();
    this.#kept.set(0);
  }

  #letGo(): void {
    if (this.#room !== null && !this.#isShared) freeBytes(this.#room);
    this.#room = null;
  }

  /** What is left when a request has been taken: the end of `bytes`, from `from` on. */
  keep(from: number): void {
    this.#looked = 0;
    this.#lineSeen = false;
    this.#isShared = true;
    if (from < this.bytes.length) {
      this.bytes = this.bytes.subarray(from);
      return;
    }
    // An empty view would keep the whole chunk alive for as long as the connection is idle.
    this.bytes = nothing;
    this.#room = null;
  }

  /** What has been taken was too much: these are `bytes` again, the end of what they were. Nothing has been appended since. */
  takeBack(bytes: Buffer): void {
    this.bytes = bytes;
  }

  /** Looks at what came since the last look. */
  look(): HeadProgress {
    const { bytes } = this;
    const end = bytes.indexOf(endOfHead, Math.max(0, this.#looked - 3));
    if (end !== -1) return end;
    for (;;) {
      const at = this.#looked;
      const cr = bytes.indexOf(CR, at);
      const lf = bytes.indexOf(LF, at);
      if (lf !== -1 && (cr === -1 || lf < cr)) return 'not-plain';
      if (cr === -1 || cr === bytes.length - 1) {
        this.#looked = cr === -1 ? bytes.length : cr;
        return cr === 0 ? 'not-plain' : 'partial';
      }
      if (lf !== cr + 1 || cr === 0) return 'not-plain';
      if (!this.#lineSeen) {
        if (!isRequestLine(bytes.toString('latin1', 0, lf + 1))) return 'not-plain';
        this.#lineSeen = true;
      }
      this.#looked = lf + 1;
    }
  }
}
