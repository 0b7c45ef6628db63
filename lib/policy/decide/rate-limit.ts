import { type BucketStore, type LimitBuckets, PlainStore } from './buckets.ts';
import type { RateLimit } from './policy-index.ts';

/** In Linkerd's words. */
export type LimitReached = 'total' | 'per-identity' | 'override';

/** As Linkerd says it to the client. */
export function reachedText(
  { total, identity, overrides }: RateLimit,
  reached: LimitReached,
  id: string | null,
): string {
  const rate =
    reached === 'total' ? total : reached === 'override' ? (overrides.get(id ?? '')?.rate ?? null) : identity;
  return `${reached} rate limit exceeded: ${rate}rps`;
}

/** Every limit in force. Buckets outlive a reload for as long as a limit's own numbers stay the same. */
export class RateLimiter {
  readonly #nowMs: () => number;
  readonly #store: BucketStore;
  #limits = new Map<string, LimitBuckets>();

  /** @param nowMs where several threads share a store, the same clock in all of them. */
  constructor(nowMs: () => number, store: BucketStore = new PlainStore()) {
    this.#nowMs = nowMs;
    this.#store = store;
  }

  /**
   * Spends a token. Null when there is no limit or it is not reached; otherwise the limit that refused. A token taken from
   * the total is not given back when the identity's is refused.
   */
  take(limit: RateLimit | null, clientId: string | null): LimitReached | null {
    if (limit === null) return null;
    const buckets = this.#bucketsOf(limit);
    const nowMs = this.#nowMs();
    if (limit.total !== null && !buckets.total.take(limit.total, nowMs)) return 'total';
    const override = clientId === null ? undefined : limit.overrides.get(clientId);
    if (override !== undefined) {
      if (override.rate === null) return null;
      return buckets.entry(override.entry).take(override.rate, nowMs) ? null : 'override';
    }
    if (limit.identity === null) return null;
    const bucket = clientId === null ? buckets.anonymous : buckets.identity(clientId, nowMs);
    return bucket.take(limit.identity, nowMs) ? null : 'per-identity';
  }

  #bucketsOf({ key }: RateLimit): LimitBuckets {
    let buckets = this.#limits.get(key);
    if (buckets === undefined) {
      buckets = this.#store.of(key);
      this.#limits.set(key, buckets);
    }
    return buckets;
  }

  /** Drops the buckets of limits that are no more. */
  retain(limits: readonly RateLimit[]): void {
    const keys = new Set(limits.map(({ key }) => key));
    this.#store.retain(keys);
    this.#limits = new Map([...this.#limits].filter(([key]) => keys.has(key)));
  }

  /** How many identities have a bucket, over all limits. */
  get identities(): number {
    let sum = 0;
    for (const buckets of this.#limits.values()) sum += buckets.identities;
    return sum;
  }
}
