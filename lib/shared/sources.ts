import type { Asker } from '../proxy/fairness/fair-queue.ts';
import type { Source } from '../proxy/fairness/sources.ts';
import { type Hash64, KeyedHash } from './keyed-hash.ts';
import { SharedLock } from './lock.ts';

/** What workers need to count the connections of each source together. */
export interface SourceMemory {
  readonly key: Hash64;
  readonly workers: number;
  readonly table: SharedArrayBuffer;
}

const leastSlots = 1024;
const mostSlots = 2 ** 18;
const headerWords = 2;

/** @param maxConnections from so many sources at most there can be connections. */
export function sourceMemory(key: Hash64, workers: number, maxConnections: number): SourceMemory {
  const wanted = Math.min(mostSlots, Math.max(leastSlots, 2 * maxConnections));
  const slots = 2 ** Math.ceil(Math.log2(wanted));
  return { key, workers, table: new SharedArrayBuffer(4 * (headerWords + slots * (2 + workers))) };
}

/** So many slots are looked at for a source, from where its hash says. */
const reach = 32;

/**
 * Sources by hash: a slot is a hash and each worker's connections, which only that worker writes. A worker comes to a slot, or
 * takes one where nobody has any connection, under the lock, and has it for as long as it has connections.
 *
 * A source that finds no slot, because all near it are in use, is counted by each worker for itself, as if the others had as
 * many.
 */
export class SharedSources {
  readonly #words: Int32Array;
  readonly #lock: SharedLock;
  readonly #hash: KeyedHash;
  readonly #worker: number;
  readonly #slots: number;
  readonly workers: number;

  /** @param worker of what was before its place is empty, see `forget`. */
  constructor(memory: SourceMemory, worker: number) {
    this.#lock = new SharedLock(new Int32Array(memory.table, 0, headerWords));
    this.#words = new Int32Array(memory.table, 4 * headerWords);
    this.#hash = new KeyedHash(memory.key);
    this.#worker = worker;
    this.workers = memory.workers;
    this.#slots = this.#words.length / (2 + memory.workers);
  }

  of(asker: Asker): Source {
    return new SharedSource(this, this.#hash.of(String(asker)));
  }

  /** The slot in which this worker's first connection of a source is counted; -1 where there is none. */
  enter(hash: Hash64): number {
    return this.#lock.run(() => this.#claim(hash));
  }

  set(slot: number, own: number): void {
    Atomics.store(this.#words, this.#at(slot) + 2 + this.#worker, own);
  }

  open(slot: number): number {
    let open = 0;
    for (let i = 0; i < this.workers; i++) open += Atomics.load(this.#words, this.#at(slot) + 2 + i);
    return open;
  }

  /** A worker is no more, and has no connections. */
  forget(worker: number): void {
    for (let slot = 0; slot < this.#slots; slot++) Atomics.store(this.#words, this.#at(slot) + 2 + worker, 0);
  }

  #at(slot: number): number {
    return slot * (2 + this.workers);
  }

  #claim({ hi, lo }: Hash64): number {
    const words = this.#words;
    let free = -1;
    for (let i = 0; i < reach; i++) {
      const slot = (lo + i) & (this.#slots - 1);
      const at = this.#at(slot);
      if (words[at] === hi && words[at + 1] === lo) {
        this.set(slot, 1);
        return slot;
      }
      if (free === -1 && this.open(slot) === 0) free = slot;
    }
    if (free === -1) return -1;
    words[this.#at(free)] = hi;
    words[this.#at(free) + 1] = lo;
    this.set(free, 1);
    return free;
  }
}

class SharedSource implements Source {
  readonly #sources: SharedSources;
  readonly #hash: Hash64;
  #slot = -1;
  own = 0;

  constructor(sources: SharedSources, hash: Hash64) {
    this.#sources = sources;
    this.#hash = hash;
  }

  get open(): number {
    return this.#slot === -1 ? this.own * this.#sources.workers : this.#sources.open(this.#slot);
  }

  add(): void {
    if (++this.own === 1) this.#slot = this.#sources.enter(this.#hash);
    else if (this.#slot !== -1) this.#sources.set(this.#slot, this.own);
  }

  remove(): void {
    this.own--;
    if (this.#slot !== -1) this.#sources.set(this.#slot, this.own);
    // The slot may be another's from now on.
    if (this.own === 0) this.#slot = -1;
  }
}
