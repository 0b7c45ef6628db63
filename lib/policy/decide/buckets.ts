/** One token bucket. The rate is that of its limit, in tokens a second, and the same at every call. */
export interface Bucket {
  /** Spends a token; false when there is none, and then nothing is spent. */
  take(rate: number, nowMs: number): boolean;
}

/** The buckets of one limit. */
export interface LimitBuckets {
  readonly total: Bucket;
  /** All clients without an identity share it. */
  readonly anonymous: Bucket;
  /** Of an override, by its place in the document. */
  entry(entry: number): Bucket;
  identity(id: string, nowMs: number): Bucket;
  /** How many identities have a bucket here. */
  readonly identities: number;
}

/** Where buckets are kept. `limit`: its `key`; of one key there are the same buckets every time. */
export interface BucketStore {
  of(limit: string): LimitBuckets;
  /** Limits other than these are no more. */
  retain(limits: ReadonlySet<string>): void;
}

const aheadMs = 1000;
/** Sums of 1000/N are not exact, the less so the longer the clock has run; without this the last token of a burst would be refused. */
const roundingMs = 1e-4;

/**
 * A bucket as the generic cell rate algorithm keeps it: a single theoretical arrival time. N tokens a second and a burst of
 * N mean that it may run at most one second ahead of the clock; one that is not ahead of it is full.
 *
 * @returns the arrival time once a token is spent; null when there is none.
 */
export function spend(arrivalMs: number, rate: number, nowMs: number): number | null {
  const arrival = Math.max(nowMs, arrivalMs) + aheadMs / rate;
  return arrival - nowMs > aheadMs + roundingMs ? null : arrival;
}

class PlainBucket implements Bucket {
  arrivalMs = 0;

  take(rate: number, nowMs: number): boolean {
    // A clock that stepped back must not lock a bucket for longer than it takes to fill.
    this.arrivalMs = Math.min(this.arrivalMs, nowMs + aheadMs);
    const arrival = spend(this.arrivalMs, rate, nowMs);
    if (arrival === null) return false;
    this.arrivalMs = arrival;
    return true;
  }
}

/**
 * So many buckets are looked at for each new one, and the full ones dropped: a new bucket is a full one. More than one, so
 * that those that nobody uses go faster than others come; and few, so that nobody's request pays for all.
 */
const lookedAt = 4;
/** Identities beyond this number share one bucket, so that certificates cannot be minted to fill memory. */
const mostIdentities = 65_536;

class PlainBuckets implements LimitBuckets {
  readonly total = new PlainBucket();
  readonly anonymous = new PlainBucket();
  readonly #overflow = new PlainBucket();
  readonly #entries = new Map<number, PlainBucket>();
  readonly #identities = new Map<string, PlainBucket>();
  /** Goes round and round; what is added meanwhile is met too. */
  #round: Iterator<[string, PlainBucket]> = this.#identities.entries();

  entry(entry: number): Bucket {
    let bucket = this.#entries.get(entry);
    if (bucket === undefined) {
      bucket = new PlainBucket();
      this.#entries.set(entry, bucket);
    }
    return bucket;
  }

  identity(id: string, nowMs: number): Bucket {
    const known = this.#identities.get(id);
    if (known !== undefined) return known;
    this.#dropSomeFull(nowMs);
    if (this.#identities.size >= mostIdentities) return this.#overflow;
    const bucket = new PlainBucket();
    this.#identities.set(id, bucket);
    return bucket;
  }

  #dropSomeFull(nowMs: number): void {
    for (let i = 0; i < lookedAt; i++) {
      const next = this.#round.next();
      if (next.done) {
        this.#round = this.#identities.entries();
        return;
      }
      const [id, { arrivalMs }] = next.value;
      if (arrivalMs <= nowMs) this.#identities.delete(id);
    }
  }

  get identities(): number {
    return this.#identities.size;
  }
}

/** For one thread that decides alone. */
export class PlainStore implements BucketStore {
  #limits = new Map<string, PlainBuckets>();

  of(limit: string): LimitBuckets {
    let buckets = this.#limits.get(limit);
    if (buckets === undefined) {
      buckets = new PlainBuckets();
      this.#limits.set(limit, buckets);
    }
    return buckets;
  }

  retain(limits: ReadonlySet<string>): void {
    this.#limits = new Map([...this.#limits].filter(([limit]) => limits.has(limit)));
  }
}
