/** Of heads that take no more memory than this nobody keeps count: there are no more of them than connections. */
export const smallHead = 8 * 1024;

/** Bytes of heads that each HTTP/2 connection may hold whatever the others do. */
const ownHeads = 256 * 1024;

/**
 * Heads of requests in flight, over all connections. Thousands of clients may each have one of the largest with an app that
 * takes its time; and compression makes 64 KB of 30 bytes, so that what is in flight on a few HTTP/2 connections would be
 * more than there is memory.
 */
export class HeldHeads {
  readonly #maxBytes: number;
  readonly #ownBytes: number;
  #bytes = 0;

  /**
   * @param maxBytes in all.
   * @param ownBytes that each connection of many requests may hold whatever the others do.
   */
  constructor(maxBytes: number, ownBytes = ownHeads) {
    this.#maxBytes = maxBytes;
    this.#ownBytes = ownBytes;
  }

  /** Bytes that are held now. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * @param held by the same connection already; left out where it has one request at a time, and nothing of its own.
   * @returns false where there is no room for so many more.
   */
  take(bytes: number, held = Number.POSITIVE_INFINITY): boolean {
    if (this.#bytes + bytes > this.#maxBytes && held + bytes > this.#ownBytes) return false;
    this.#bytes += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#bytes -= bytes;
  }
}
