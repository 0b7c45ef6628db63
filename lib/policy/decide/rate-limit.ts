import type { RateLimit } from './policy-index.ts';

/**
 * One token bucket as the generic cell rate algorithm keeps it: a single theoretical arrival time. N tokens a second and a
 * burst of N mean that it may run at most one second ahead of the clock.
 */
interface Bucket {
  arrivalMs: number;
}

const aheadMs = 1000;
/** Sums of 1000/N are not exact; without this the last token of a burst would be refused. */
const roundingMs = 1e-6;

function take(bucket: Bucket, rate: number, nowMs: number): boolean {
  // A clock that stepped back must not lock a bucket for longer than it takes to fill.
  bucket.arrivalMs = Math.min(bucket.arrivalMs, nowMs + aheadMs);
  const arrival = Math.max(nowMs, bucket.arrivalMs) + aheadMs / rate;
  if (arrival - nowMs > aheadMs + roundingMs) return false;
  bucket.arrivalMs = arrival;
  return true;
}

/**
 * So many buckets are looked at for each new one, and the full ones dropped: a new bucket is a full one. More than one, so
 * that those that nobody uses go faster than others come; and few, so that nobody's request pays for all.
 */
const lookedAt = 4;
/** Identities beyond this number share one bucket, so that certificates cannot be minted to fill memory. */
const mostIdentities = 65_536;

class Buckets {
  readonly #total: Bucket = { arrivalMs: 0 };
  readonly #anonymous: Bucket = { arrivalMs: 0 };
  readonly #overflow: Bucket = { arrivalMs: 0 };
  readonly #entries = new Map<number, Bucket>();
  readonly #identities = new Map<string, Bucket>();
  /** Goes round and round; what is added meanwhile is met too. */
  #round: Iterator<[string, Bucket]> = this.#identities.entries();

  /** Null when the request may pass. A token taken from the total is not given back when the identity's is refused. */
  take(limit: RateLimit, clientId: string | null, nowMs: number): 'total' | 'identity' | null {
    if (limit.total !== null && !take(this.#total, limit.total, nowMs)) return 'total';
    const override = clientId === null ? undefined : limit.overrides.get(clientId);
    if (override !== undefined) {
      if (override.rate === null) return null;
      return take(this.#entry(override.entry), override.rate, nowMs) ? null : 'identity';
    }
    if (limit.identity === null) return null;
    // All clients without an identity share one bucket.
    const bucket = clientId === null ? this.#anonymous : this.#identity(clientId, nowMs);
    return take(bucket, limit.identity, nowMs) ? null : 'identity';
  }

  #entry(entry: number): Bucket {
    let bucket = this.#entries.get(entry);
    if (bucket === undefined) {
      bucket = { arrivalMs: 0 };
      this.#entries.set(entry, bucket);
    }
    return bucket;
  }

  #identity(id: string, nowMs: number): Bucket {
    const known = this.#identities.get(id);
    if (known !== undefined) return known;
    this.#dropSomeFull(nowMs);
    if (this.#identities.size >= mostIdentities) return this.#overflow;
    const bucket = { arrivalMs: 0 };
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

/** The buckets of every limit in force. They outlive a reload for as long as a limit's own numbers stay the same. */
export class RateLimiter {
  readonly #nowMs: () => number;
  #buckets = new Map<string, Buckets>();

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Spends a token. Null when there is no limit or it is not reached; otherwise the scope that refused. */
  take(limit: RateLimit | null, clientId: string | null): 'total' | 'identity' | null {
    if (limit === null) return null;
    let buckets = this.#buckets.get(limit.key);
    if (buckets === undefined) {
      buckets = new Buckets();
      this.#buckets.set(limit.key, buckets);
    }
    return buckets.take(limit, clientId, this.#nowMs());
  }

  /** Drops the buckets of limits that are no more. */
  retain(limits: readonly RateLimit[]): void {
    const keys = new Set(limits.map(({ key }) => key));
    this.#buckets = new Map([...this.#buckets].filter(([key]) => keys.has(key)));
  }

  /** How many identities have a bucket, over all limits. */
  get identities(): number {
    let sum = 0;
    for (const buckets of this.#buckets.values()) sum += buckets.identities;
    return sum;
  }
}
