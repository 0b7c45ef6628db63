const longestRetryMs = 60_000;

export interface AttemptsOptions {
  work(): Promise<void>;
  /** What is to be done in `work`'s place when the time of another attempt has come. */
  again(): void;
  /** It failed by no fault of the files: the thread ran out of memory, say. */
  onError(error: unknown): void;
  /** Until the second attempt; each further one waits twice as long, up to a minute. */
  readonly retryMs?: number | undefined;
}

/** Work that nothing would tell us to try again, were it to fail. */
export class Attempts {
  readonly #options: AttemptsOptions;
  readonly #signal: AbortSignal;
  #failures = 0;
  #retry: NodeJS.Timeout | undefined;

  constructor(options: AttemptsOptions, signal: AbortSignal) {
    this.#options = options;
    this.#signal = signal;
    signal.addEventListener('abort', () => clearTimeout(this.#retry), { once: true });
  }

  /** Never rejects. */
  async make(): Promise<void> {
    if (this.#signal.aborted) return;
    const { work, again, onError, retryMs = 5_000 } = this.#options;
    try {
      await work();
      this.#failures = 0;
    } catch (error) {
      if (this.#signal.aborted) return;
      onError(error);
      clearTimeout(this.#retry);
      this.#retry = setTimeout(again, Math.min(longestRetryMs, retryMs * 2 ** this.#failures++)).unref();
    }
  }
}
