/** How far faults of our own are to be trusted away: a few are a few connections, many are a process in unknown state. */

/** Milliseconds that a fault counts. */
const windowMs = 60_000;
/** So many faults within the window, and `/ready` says no. */
const unreadyAt = 3;
/** So many, and `/live` says no: what watches the process starts it again. */
const deadAt = 20;
/** So many that belonged to no connection (nobody knows what they left undone), and `/live` says no. */
const deadAtLoose = 3;

export class Soundness {
  readonly #now: () => number;
  /** The times of the last faults; no more than are asked for. */
  readonly #all: number[] = [];
  readonly #loose: number[] = [];

  /** @param now monotonic milliseconds. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** `ended`: what the fault took with it. */
  fault(ended: 'connection' | 'request' | 'nothing'): void {
    const at = this.#now();
    this.#all.push(at);
    if (this.#all.length > deadAt) this.#all.shift();
    if (ended !== 'nothing') return;
    this.#loose.push(at);
    if (this.#loose.length > deadAtLoose) this.#loose.shift();
  }

  /** False while the last minute has had three faults, so for up to a minute after the last. */
  get ready(): boolean {
    return !this.#had(this.#all, unreadyAt);
  }

  get live(): boolean {
    return !this.#had(this.#all, deadAt) && !this.#had(this.#loose, deadAtLoose);
  }

  #had(times: readonly number[], count: number): boolean {
    const since = times[times.length - count];
    return since !== undefined && this.#now() - since < windowMs;
  }
}
