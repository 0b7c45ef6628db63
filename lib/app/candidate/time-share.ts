/** Of the event loop, where somebody asks for more. */
const share = 1 / 5;
/** Milliseconds that may be spent at once: more than a thread that is kept from the processor now and then seems to spend. */
const atOnce = 1000;
/** A clock that is set forward is no time that was spent. */
const longestMs = 60_000;

/**
 * Keeps what is done beside a request to a fifth of the thread's time. It is given readings of a clock of milliseconds, which is
 * exact enough: of what takes a tenth of one, every tenth seems to take a whole one.
 */
export class TimeShare {
  #owedMs = 0;
  #at = 0;

  /** Whether there is time left. */
  isLeft(nowMs: number): boolean {
    if (this.#owedMs <= atOnce) return true;
    this.#settle(nowMs);
    return this.#owedMs <= atOnce;
  }

  /** @param times so often: others that were not timed are taken to have cost the same. */
  spent(fromMs: number, nowMs: number, times = 1): void {
    if (nowMs === fromMs) return;
    this.#settle(nowMs);
    this.#owedMs += Math.min(longestMs, Math.max(0, nowMs - fromMs)) * times;
  }

  #settle(nowMs: number): void {
    this.#owedMs = Math.max(0, this.#owedMs - Math.max(0, nowMs - this.#at) * share);
    this.#at = nowMs;
  }
}
