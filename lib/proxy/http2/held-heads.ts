/**
 * Heads of requests in flight, over all connections. Compression makes 64 KB of 30 bytes, so that what is in flight on a
 * few connections would be more than there is memory.
 */
export class HeldHeads {
  readonly #maxBytes: number;
  readonly #ownBytes: number;
  #bytes = 0;

  /**
   * @param maxBytes in all.
   * @param ownBytes that each connection may hold whatever the others do.
   */
  constructor(maxBytes: number, ownBytes: number) {
    this.#maxBytes = maxBytes;
    this.#ownBytes = ownBytes;
  }

  /**
   * @param held by the same connection already.
   * @returns false where there is no room for so many more.
   */
  take(bytes: number, held: number): boolean {
    if (this.#bytes + bytes > this.#maxBytes && held + bytes > this.#ownBytes) return false;
    this.#bytes += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#bytes -= bytes;
  }
}
