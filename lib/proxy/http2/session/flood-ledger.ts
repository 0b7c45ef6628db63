import { now } from '../../../moment.ts';

/** Frames that do no work, at once and a second. */
const overheadBurst = 10_000;
const overheadRate = 1000;

/** Allows bursts, and a rate in the long run. */
class TokenBucket {
  readonly #burst: number;
  readonly #perSecond: number;
  #tokens: number;
  #at = now();

  constructor(burst: number, perSecond: number) {
    this.#burst = burst;
    this.#perSecond = perSecond;
    this.#tokens = burst;
  }

  /**
   * False when there are none left. The clock is read each time: a bucket that was full for a while would otherwise be
   * given what it could not hold, when it runs out, and allow twice its burst.
   */
  take(): boolean {
    const nowMs = now();
    this.#tokens = Math.min(this.#burst, this.#tokens + ((nowMs - this.#at) / 1000) * this.#perSecond);
    this.#at = nowMs;
    if (this.#tokens < 1) return false;
    this.#tokens--;
    return true;
  }

  earn(tokens: number): void {
    this.#tokens = Math.min(this.#burst, this.#tokens + tokens);
  }
}

/** What is cheap to send and not cheap to receive, as far as one peer may send it. */
export class FloodLedger {
  readonly #overhead = new TokenBucket(overheadBurst, overheadRate);
  readonly #resets: TokenBucket | null;

  /** @param maxResets at once, and a tenth of them a second; null: as many as it likes. */
  constructor(maxResets: number | null) {
    this.#resets = maxResets === null ? null : new TokenBucket(maxResets, maxResets / 10);
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
