/** For how long a connection has carried nothing, as far as looks at it tell. */
export class IdleClock {
  #since = 0;
  /** The last stream when it was first seen without any; -1 while it has some. */
  #after = -1;

  /**
   * Looks at it.
   *
   * @param now on the clock of `performance.now()`.
   * @returns milliseconds since the first of the looks that have found it unused, without a stream in between; 0 for that.
   */
  look(now: number, streams: { readonly size: number; readonly last: number }): number {
    const isUnused = streams.size === 0;
    if (isUnused && this.#after === streams.last) return now - this.#since;
    this.#after = isUnused ? streams.last : -1;
    this.#since = now;
    return 0;
  }
}
