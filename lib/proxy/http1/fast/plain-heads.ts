import type { Keeper } from '../../kept.ts';
import { type HeadProgress, Unread } from '../unread.ts';
import { maxKnownHead, maxPlainHead, PlainRequest, readPlainHead } from './plain-request.ts';

/** What of a connection is unread, and the heads of plain requests in it. */
export class PlainHeads extends Unread {
  readonly #maxHead: number;
  /** Clients repeat themselves; this spares reading the same again. */
  #last: PlainRequest | null = null;
  #isRepeated = false;

  /** @param maxHead bytes of a head; a longer one is not plain. */
  constructor(maxHead: number, keeper: Keeper) {
    super(keeper);
    this.#maxHead = Math.min(maxPlainHead, maxHead - 4);
  }

  /** Looks for the end of the head that comes next. */
  find(): HeadProgress {
    const last = this.#last;
    this.#isRepeated = last?.begins(this.bytes) === true;
    if (last !== null && this.#isRepeated) return last.text.length - 4;
    const at = this.look();
    const bytes = at === 'partial' ? this.length : at;
    return bytes !== 'not-plain' && bytes > this.#maxHead ? 'not-plain' : at;
  }

  /**
   * Reads the head that was found; null where it is not plain.
   *
   * @param at as `find` has it.
   */
  read(at: number): PlainRequest | null {
    if (this.#isRepeated) return this.#last;
    const head = readPlainHead(this.bytes.toString('latin1', 0, at + 4), this.#last?.fields ?? null);
    if (head === null) return null;
    const request = new PlainRequest(head);
    this.#last = request.text.length > maxKnownHead ? null : request;
    return request;
  }

  /** Lets go of the last head, which may be long. */
  forget(): void {
    this.#last = null;
  }
}
