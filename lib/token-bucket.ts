/** Allows bursts, and a rate in the long run. */
export class TokenBucket {
  readonly #burst: number;
  readonly #perSecond: number;
  #tokens: number;
  readonly #nowMs: () => number;
  #at: number;

  /** @param nowMs monotonic. */
  constructor(burst: number, perSecond: number, nowMs: () => number) {
    this.#burst = burst;
    this.#perSecond = perSecond;
    this.#tokens = burst;
    this.#nowMs = nowMs;
    this.#at = nowMs();
  }

  /**
   * False when there are none left. The clock is read each time: a bucket that was full for a while would otherwise be
   * given what it could not hold, when it runs out, and allow twice its burst.
   */
  take(): boolean {
    const nowMs = this.#nowMs();
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
