/**
 * Room in the record for refusals that are written one by one, in characters: of a minute, in all and for each client. What
 * finds none is counted with its equals.
 */
const aMinute = 512 * 1024;
const minuteMs = 60_000;
/** Of one client; of others no more are told apart than have had some. */
const share = 0.25;

export class RefusalRoom {
  readonly #most: number;
  readonly #nowMs: () => number;
  readonly #ofClients = new Map<string, number>();
  #start = Number.NEGATIVE_INFINITY;
  #taken = 0;

  /** @param threads that have it together, in equal parts. */
  constructor(threads: number, nowMs: () => number) {
    this.#most = aMinute / threads;
    this.#nowMs = nowMs;
  }

  take(client: string, chars: number): boolean {
    const nowMs = this.#nowMs();
    // A clock that is set back begins a minute, too.
    if (nowMs - this.#start >= minuteMs || nowMs < this.#start) {
      this.#start = nowMs;
      this.#taken = 0;
      this.#ofClients.clear();
    }
    const own = (this.#ofClients.get(client) ?? 0) + chars;
    if (this.#taken + chars > this.#most || own > this.#most * share) return false;
    this.#taken += chars;
    this.#ofClients.set(client, own);
    return true;
  }
}
