import type { Count } from '../proxy/fairness/count.ts';
import type { Wanted } from '../proxy/fairness/live-connections.ts';

/** Words from one worker's count to the next: a cache line of its own for each, since it writes there all the time. */
const stride = 16;

/** Memory for the counts of so many workers. */
export function countMemory(workers: number): SharedArrayBuffer {
  return new SharedArrayBuffer(workers * stride * Int32Array.BYTES_PER_ELEMENT);
}

/**
 * What several workers have, each in a word of its own that nobody else writes. Of two that add at one moment both may see the
 * other's: they never have more than they may, and at worst one less.
 */
export class SharedCount implements Count {
  readonly #counts: Int32Array;
  readonly #place: number;
  #own = 0;

  /** @param worker whose count this is; of one that was before there is none. */
  constructor(memory: SharedArrayBuffer, worker: number) {
    this.#counts = new Int32Array(memory);
    this.#place = worker * stride;
    Atomics.store(this.#counts, this.#place, 0);
  }

  get total(): number {
    let total = 0;
    for (let place = 0; place < this.#counts.length; place += stride) total += Atomics.load(this.#counts, place);
    return total;
  }

  add(): void {
    Atomics.store(this.#counts, this.#place, ++this.#own);
  }

  remove(): void {
    Atomics.store(this.#counts, this.#place, --this.#own);
  }
}

/** Each worker's count, for who has none of them. */
export class CountsSeen {
  readonly #counts: Int32Array;
  readonly workers: number;

  constructor(memory: SharedArrayBuffer) {
    this.#counts = new Int32Array(memory);
    this.workers = this.#counts.length / stride;
  }

  of(worker: number): number {
    return Atomics.load(this.#counts, worker * stride);
  }
}

/** All of them, at one moment. */
export function countsOf(memory: SharedArrayBuffer): readonly number[] {
  const seen = new CountsSeen(memory);
  return Array.from({ length: seen.workers }, (_, worker) => seen.of(worker));
}

/** The worker is no more, and has nothing. */
export function forgetCount(memory: SharedArrayBuffer, worker: number): void {
  Atomics.store(new Int32Array(memory), worker * stride, 0);
}

/** A worker asks for no more than this at a time: the room is for clients that try again. */
const mostWanted = 64;

/** Room that workers want from each other, in the same memory as a count. */
export class SharedWanted implements Wanted {
  readonly #counts: Int32Array;
  readonly #place: number;

  constructor(memory: SharedArrayBuffer, worker: number) {
    this.#counts = new Int32Array(memory);
    this.#place = worker * stride;
    Atomics.store(this.#counts, this.#place, 0);
  }

  ask(): void {
    if (Atomics.load(this.#counts, this.#place) < mostWanted) Atomics.add(this.#counts, this.#place, 1);
  }

  take(): boolean {
    for (let place = 0; place < this.#counts.length; place += stride) {
      if (place === this.#place) continue;
      const wanted = Atomics.load(this.#counts, place);
      if (wanted > 0 && Atomics.compareExchange(this.#counts, place, wanted, wanted - 1) === wanted) return true;
    }
    return false;
  }
}
