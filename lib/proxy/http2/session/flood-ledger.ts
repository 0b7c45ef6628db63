import { now } from '../../../moment.ts';
import { TokenBucket } from '../../../token-bucket.ts';

/** Frames that do no work, at once and a second. */
const overheadBurst = 10_000;
const overheadRate = 1000;

/** What is cheap to send and not cheap to receive, as far as one peer may send it. */
export class FloodLedger {
  readonly #overhead = new TokenBucket(overheadBurst, overheadRate, now);
  readonly #resets: TokenBucket | null;

  /** @param maxResets at once, and a tenth of them a second; null: as many as it likes. */
  constructor(maxResets: number | null) {
    this.#resets = maxResets === null ? null : new TokenBucket(maxResets, maxResets / 10, now);
  }

  /** A frame that does no work: PING, SETTINGS, PRIORITY, WINDOW_UPDATE, empty DATA and more. False: one too many. */
  overhead(): boolean {
    return this.#overhead.take();
  }

  /**
   * We have sent so many bytes of DATA in a frame. A peer may give back room twice, the connection's and the stream's,
   * for every few bytes that it reads.
   */
  earn(bytes: number): void {
    this.#overhead.earn(2 + (bytes >> 8));
  }

  /** A stream that ends in a reset, of the peer or of ours because of what it did. False: one too many. */
  reset(): boolean {
    return this.#resets === null || this.#resets.take();
  }
}
