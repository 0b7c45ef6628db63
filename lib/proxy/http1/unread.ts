import { isLent } from '../lent-data.ts';
import { isRequestLine } from './request-line.ts';

const endOfHead = Buffer.from('\r\n\r\n');
const nothing = Buffer.alloc(0);
const CR = 13;
const LF = 10;

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
  /** Bytes of the head that are known to hold neither its end nor anything that is not plain. */
  #looked = 0;
  #lineSeen = false;

  get length(): number {
    return this.bytes.length;
  }

  append(chunk: Buffer): void {
    const held = this.bytes.length;
    if (held === 0) {
      this.bytes = chunk;
      this.#room = null;
      return;
    }
    if (this.#room === null || this.#room.length - this.#filled < chunk.length) {
      const room = Buffer.allocUnsafeSlow(Math.max(1024, 2 * (held + chunk.length)));
      this.bytes.copy(room, 0);
      this.#room = room;
      this.#filled = held;
    }
    chunk.copy(this.#room, this.#filled);
    this.#filled += chunk.length;
    this.bytes = this.#room.subarray(this.#filled - held - chunk.length, this.#filled);
  }

  /** What is unread of a buffer that is only lent is copied, since the loan ends. */
  endLoan(): void {
    if (this.bytes.length > 0 && isLent(this.bytes)) this.bytes = Buffer.from(this.bytes);
  }

  /** What is left when a request has been taken: the end of `bytes`, from `from` on. */
  keep(from: number): void {
    this.#looked = 0;
    this.#lineSeen = false;
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
