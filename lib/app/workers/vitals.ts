/** Words of one worker: a cache line of its own, since it writes there while others read. */
const stride = 16;
const word = { beats: 0, open: 1, given: 2, taken: 3 } as const;

/** What each worker says of itself in memory that all threads share. */
export class Vitals {
  readonly shared: SharedArrayBuffer;
  readonly #words: Int32Array;

  /** @param workers their number, to begin; or the memory that another thread has begun with. */
  constructor(workers: number | SharedArrayBuffer) {
    this.shared =
      typeof workers === 'number' ? new SharedArrayBuffer(workers * stride * Int32Array.BYTES_PER_ELEMENT) : workers;
    this.#words = new Int32Array(this.shared);
  }

  /** Its event loop turns. */
  beat(worker: number): void {
    Atomics.add(this.#words, worker * stride + word.beats, 1);
  }

  beats(worker: number): number {
    return Atomics.load(this.#words, worker * stride + word.beats);
  }

  /** Whether others may hand connections to it: the main thread alone says so. */
  setOpen(worker: number, open: boolean): void {
    Atomics.store(this.#words, worker * stride + word.open, Number(open));
  }

  closeAll(): void {
    for (let at = word.open; at < this.#words.length; at += stride) Atomics.store(this.#words, at, 0);
  }

  isOpen(worker: number): boolean {
    return Atomics.load(this.#words, worker * stride + word.open) === 1;
  }

  /** One more connection is on its way to it. */
  give(worker: number): void {
    Atomics.add(this.#words, worker * stride + word.given, 1);
  }

  /** How many are on their way to it. */
  underway(worker: number): number {
    return (Atomics.load(this.#words, worker * stride + word.given) - this.taken(worker)) | 0;
  }

  /** It has taken one more of the connections that were handed to it. */
  take(worker: number): void {
    Atomics.add(this.#words, worker * stride + word.taken, 1);
  }

  /** How many it has taken; from 0 on for a new thread. */
  taken(worker: number): number {
    return Atomics.load(this.#words, worker * stride + word.taken);
  }

  /** A new thread begins, or one is over. */
  reset(worker: number): void {
    this.setOpen(worker, false);
    Atomics.store(this.#words, worker * stride + word.given, 0);
    Atomics.store(this.#words, worker * stride + word.taken, 0);
  }
}

/** Milliseconds between beats. */
export const beatMs = 1000;
