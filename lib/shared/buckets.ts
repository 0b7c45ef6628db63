import { type Bucket, type BucketStore, type LimitBuckets, spend } from '../policy/decide/buckets.ts';
import { type Hash64, KeyedHash } from './keyed-hash.ts';
import { SharedLock } from './lock.ts';

/** What threads need to keep the same buckets. Can be sent to a thread, and is the same memory there. */
export interface BucketMemory {
  readonly key: Hash64;
  /** Those that the policy's own documents ask for: a few for each limit. */
  readonly named: SharedArrayBuffer;
  readonly identities: SharedArrayBuffer;
}

const namedSlots = 2 ** 14;
/** For identities that have asked within the last second, over all limits. */
const identitySlots = 2 ** 17;

/** @param key as random as can be had. */
export function bucketMemory(
  key: Hash64,
  slots: { readonly named: number; readonly identities: number } = { named: namedSlots, identities: identitySlots },
): BucketMemory {
  return { key, named: tableMemory(slots.named), identities: tableMemory(slots.identities) };
}

/** So many slots are looked at for a key, from where its hash says. */
const reach = 32;
const headerBytes = 16;

function tableMemory(slots: number): SharedArrayBuffer {
  return new SharedArrayBuffer(headerBytes + slots * 16);
}

/** Arrival time of a slot that is being given to another bucket. */
const changing = -1;

/** A number and the bits of it, to compare and exchange. */
const number = new Float64Array(1);
const bits = new BigInt64Array(number.buffer);

function bitsOf(value: number): bigint {
  number[0] = value;
  return bits[0] as bigint;
}

function numberOf(value: bigint): number {
  bits[0] = value;
  return number[0] as number;
}

/**
 * Buckets by hash. Each slot is a hash and an arrival time. A full bucket is as good as a new one, so that its slot is given
 * to whatever needs one: nothing is ever removed, and memory of zeros is a table of full buckets.
 *
 * Tokens are spent without a lock: by exchanging the arrival time, if it is still the one that was read. Arrival times of a
 * slot only grow, and a slot that changes hands has another one than before, so that no token is spent from a bucket
 * that has just become somebody else's. Slots are given away under a lock, so that no bucket gets two. A lock that was
 * taken away from a living holder can let that happen: that one bucket then is two until they are full again, at most a second.
 */
class Table {
  readonly #times: BigInt64Array;
  readonly #hashes: Int32Array;
  readonly #lock: SharedLock;
  readonly #mask: number;

  constructor(memory: SharedArrayBuffer) {
    this.#lock = new SharedLock(new Int32Array(memory, 0, 2));
    this.#times = new BigInt64Array(memory, headerBytes);
    this.#hashes = new Int32Array(memory, headerBytes);
    this.#mask = this.#times.length / 2 - 1;
  }

  /** The slot of a bucket, which may be a slot that has just been given to it; -1 when all that it could have are in use. */
  place({ hi, lo }: Hash64, nowMs: number): number {
    const found = this.#find(hi, lo);
    if (found !== -1 && numberOf(this.read(found)) >= 0) return found;
    return this.#lock.run(() => this.#claim(hi, lo, nowMs));
  }

  /** The bits of the arrival time. */
  read(slot: number): bigint {
    return Atomics.load(this.#times, slot * 2);
  }

  isOf(slot: number, { hi, lo }: Hash64): boolean {
    return Atomics.load(this.#hashes, slot * 4 + 2) === hi && Atomics.load(this.#hashes, slot * 4 + 3) === lo;
  }

  exchange(slot: number, before: bigint, after: number): boolean {
    return Atomics.compareExchange(this.#times, slot * 2, before, bitsOf(after)) === before;
  }

  #find(hi: number, lo: number): number {
    for (let i = 0; i < reach; i++) {
      const slot = (lo + i) & this.#mask;
      if (Atomics.load(this.#hashes, slot * 4 + 2) === hi && Atomics.load(this.#hashes, slot * 4 + 3) === lo)
        return slot;
    }
    return -1;
  }

  #claim(hi: number, lo: number, nowMs: number): number {
    const found = this.#find(hi, lo);
    if (found !== -1) {
      // Left half done by a thread that was ended.
      this.exchange(found, bitsOf(changing), nowMs);
      return found;
    }
    for (let i = 0; i < reach; i++) {
      const slot = (lo + i) & this.#mask;
      const before = this.read(slot);
      if (numberOf(before) >= nowMs || !this.exchange(slot, before, changing)) continue;
      Atomics.store(this.#hashes, slot * 4 + 2, hi);
      Atomics.store(this.#hashes, slot * 4 + 3, lo);
      // Full, and later than it ever was.
      Atomics.store(this.#times, slot * 2, bitsOf(nowMs));
      return slot;
    }
    return -1;
  }
}

/** One thread's hold on a bucket. */
class SharedBucket implements Bucket {
  readonly #table: Table;
  readonly #hash: Hash64;
  /** Used instead where there is no place; null: then nothing can be spent. */
  readonly #beyond: Bucket | null;
  #slot = -1;

  constructor(table: Table, hash: Hash64, beyond: Bucket | null) {
    this.#table = table;
    this.#hash = hash;
    this.#beyond = beyond;
  }

  take(rate: number, nowMs: number): boolean {
    const table = this.#table;
    for (;;) {
      if (this.#slot === -1) this.#slot = table.place(this.#hash, nowMs);
      if (this.#slot === -1) return this.#beyond?.take(rate, nowMs) ?? false;
      // The time first: if it is still the same afterwards, the slot has not changed hands in between.
      const before = table.read(this.#slot);
      const arrivalMs = numberOf(before);
      if (arrivalMs === changing || !table.isOf(this.#slot, this.#hash)) {
        this.#slot = -1;
        continue;
      }
      const after = spend(arrivalMs, rate, nowMs);
      if (after === null) return false;
      if (table.exchange(this.#slot, before, after)) return true;
    }
  }
}

/** Holds that a thread keeps for identities of one limit; it finds any of them again by its hash. */
const mostHolds = 65_536;

class SharedBuckets implements LimitBuckets {
  readonly total: Bucket;
  readonly anonymous: Bucket;
  readonly #overflow: Bucket;
  readonly #named: (name: string) => Bucket;
  readonly #one: (id: string) => Bucket;
  readonly #entries = new Map<number, Bucket>();
  #identities = new Map<string, Bucket>();

  constructor(hash: KeyedHash, within: Hash64, named: Table, identities: Table) {
    this.#named = (name) => new SharedBucket(named, hash.of(name, within), null);
    this.total = this.#named('total');
    this.anonymous = this.#named('anonymous');
    this.#overflow = this.#named('overflow');
    this.#one = (id) => new SharedBucket(identities, hash.of(id, within), this.#overflow);
  }

  entry(entry: number): Bucket {
    let bucket = this.#entries.get(entry);
    if (bucket === undefined) {
      bucket = this.#named(`entry ${entry}`);
      this.#entries.set(entry, bucket);
    }
    return bucket;
  }

  identity(id: string): Bucket {
    let bucket = this.#identities.get(id);
    if (bucket === undefined) {
      if (this.#identities.size >= mostHolds) this.#identities = new Map();
      bucket = this.#one(id);
      this.#identities.set(id, bucket);
    }
    return bucket;
  }

  get identities(): number {
    return this.#identities.size;
  }
}

/**
 * Buckets of several threads, exact over all of them. All take the time from one clock, which never steps back. A bucket of an
 * identity that finds no place, because all near it were used within the last second, is shared with the others that found
 * none; a limit's own bucket that finds none refuses.
 */
export class SharedBucketStore implements BucketStore {
  readonly #hash: KeyedHash;
  readonly #named: Table;
  readonly #identities: Table;

  constructor(memory: BucketMemory) {
    this.#hash = new KeyedHash(memory.key);
    this.#named = new Table(memory.named);
    this.#identities = new Table(memory.identities);
  }

  of(limit: string): LimitBuckets {
    return new SharedBuckets(this.#hash, this.#hash.of(limit), this.#named, this.#identities);
  }

  /** A bucket that nobody asks for is full within a second, and then is as good as removed. */
  retain(): void {}
}
