import { latin1Slice } from '../node-internals.ts';
import { mayBecomeHead, type ResponseHead, readResponseHead } from './plain-response.ts';
import { bareLineFeed, beginningFault, type ResponseFault } from './response-faults.ts';

const endOfHead = Buffer.from('\r\n\r\n');
const LF = 10;
const CR = 13;

/** The response heads of one connection to the app. Apps repeat theirs: one that is equal to the last is not read again. */
export class ResponseHeads {
  #text = '';
  #method = '';
  #head: ResponseHead | ResponseFault = beginningFault(Buffer.alloc(0));

  /** Bytes of the head that was read last, with its empty line. */
  get length(): number {
    return this.#text.length;
  }

  /**
   * The head that these bytes begin with. Whatever they are, it is known at once whether more can make one of them.
   *
   * @param method of the request.
   */
  read(bytes: Buffer, method: string): ResponseHead | ResponseFault | 'partial' {
    if (this.#isSame(bytes, method)) return this.#head;
    const at = bytes.indexOf(endOfHead);
    if (at === -1) {
      if (!mayBecomeHead(bytes)) return beginningFault(bytes);
      return hasBareLineFeed(bytes) ? bareLineFeed : 'partial';
    }
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

/** Some take such a line for whole, others wait for its CR: an app that sends one means that its head has ended. */
function hasBareLineFeed(bytes: Buffer): boolean {
  for (let at = bytes.indexOf(LF); at !== -1; at = bytes.indexOf(LF, at + 1)) {
    if (at === 0 || bytes[at - 1] !== CR) return true;
  }
  return false;
}
