import { preface } from '../session/protocol.ts';

/** What a client sends before its first frame (RFC 9113 3.4), in however many pieces it comes. */
export class ClientPreface {
  /** Bytes of it that have come. */
  #bytes = 0;

  /** How many of these bytes belong to it, 0 once it is complete; -1 where they are something else. */
  take(chunk: Buffer): number {
    if (this.#bytes === preface.length) return 0;
    const bytes = Math.min(chunk.length, preface.length - this.#bytes);
    if (preface.compare(chunk, 0, bytes, this.#bytes, this.#bytes + bytes) !== 0) return -1;
    this.#bytes += bytes;
    return bytes;
  }
}
