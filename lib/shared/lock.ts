/** Milliseconds after which a holder counts as dead: it holds the lock for microseconds, unless its thread has been ended. */
const deadMs = 50;
const spins = 100;

/**
 * A lock in shared memory, for what happens seldom and is over at once. The thread of a holder may be ended at any moment,
 * so that a lock that is not given back is taken away. Should that holder only have been kept from the processor, two are
 * in at once: what they do must bear that (see the users).
 */
export class SharedLock {
  /** The number of the acquisition that holds it, or 0; and the last number given. */
  readonly #words: Int32Array;

  /** @param words two words of shared memory, zero at first. */
  constructor(words: Int32Array) {
    this.#words = words;
  }

  /** Runs `work` while no other thread is in its own. */
  run<T>(work: () => T): T {
    const ticket = this.#acquire();
    try {
      return work();
    } finally {
      if (Atomics.compareExchange(this.#words, 0, ticket, 0) === ticket) Atomics.notify(this.#words, 0, 1);
    }
  }

  #acquire(): number {
    const words = this.#words;
    let ticket = 0;
    // Never 0, which is nobody's.
    while (ticket === 0) ticket = (Atomics.add(words, 1, 1) + 1) | 0;
    for (let tries = 0; ; tries++) {
      const holder = Atomics.compareExchange(words, 0, 0, ticket);
      if (holder === 0) return ticket;
      if (tries < spins || Atomics.wait(words, 0, holder, deadMs) !== 'timed-out') continue;
      if (Atomics.compareExchange(words, 0, holder, ticket) === holder) return ticket;
    }
  }
}
