import { latin1Slice } from '../node-internals.ts';
import { type ResponseHead, readResponseHead } from './plain-response.ts';

const endOfHead = Buffer.from('\r\n\r\n');
const LF = 10;

/** The response heads of one connection to the app. Apps repeat theirs: one that is equal to the last is not read again. */
export class ResponseHeads {
  #text = '';
  #method = '';
  #head: ResponseHead | null = null;

  /** Bytes of the head that was read last, with its empty line. */
  get length(): number {
    return this.#text.length;
  }

  /**
   * The head that these bytes begin with; null where it is malformed.
   *
   * @param method of the request.
   */
  read(bytes: Buffer, method: string): ResponseHead | null | 'partial' {
    if (this.#isSame(bytes, method)) return this.#head;
    const at = bytes.indexOf(endOfHead);
    if (at === -1) return 'partial';
    this.#text = latin1Slice(bytes, 0, at + endOfHead.length);
    this.#method = method;
    this.#head = readResponseHead(this.#text, method);
    return this.#head;
  }

  #isSame(bytes: Buffer, method: string): boolean {
    const { length } = this.#text;
    if (length === 0 || bytes.length < length || method !== this.#method) return false;
    // Nearly all that differ in length do so in these two bytes, which need no text.
    if (bytes[length - 1] !== LF || bytes[length - 3] !== LF) return false;
    return latin1Slice(bytes, 0, length) === this.#text;
  }
}
