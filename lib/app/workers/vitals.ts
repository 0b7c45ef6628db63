/** A word for each worker in memory that all threads share: a number that grows for as long as its event loop turns. */
export class Vitals {
  readonly shared: SharedArrayBuffer;
  readonly #beats: Int32Array;

  /** @param workers their number, to begin; or the memory that another thread has begun with. */
  constructor(workers: number | SharedArrayBuffer) {
    this.shared = typeof workers === 'number' ? new SharedArrayBuffer(workers * Int32Array.BYTES_PER_ELEMENT) : workers;
    this.#beats = new Int32Array(this.shared);
  }

  beat(worker: number): void {
    Atomics.add(this.#beats, worker, 1);
  }

  beats(worker: number): number {
    return Atomics.load(this.#beats, worker);
  }
}

/** Milliseconds between beats. */
export const beatMs = 1000;
