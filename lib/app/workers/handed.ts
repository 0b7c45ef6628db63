/** A connection on its way to a worker, of which nothing has been read. */
export interface HandedConnection {
  readonly door: number;
  readonly fd: number;
}

/**
 * Connections on their way to one worker, which takes them in this order, and counts. Where it dies before it has taken them,
 * nothing of them has been read, and another worker can serve them.
 */
export class Handed {
  readonly #taken: () => number;
  readonly #connections: HandedConnection[] = [];
  /** Of those taken, how many have left the list. */
  #forgotten = 0;

  /** @param taken how many the worker has taken so far. */
  constructor(taken: () => number) {
    this.#taken = taken;
  }

  add(connection: HandedConnection): void {
    this.#forget();
    this.#connections.push(connection);
  }

  /** The worker is over. @returns what it has not taken, once. */
  over(): readonly HandedConnection[] {
    this.#forget();
    return this.#connections.splice(0);
  }

  #forget(): void {
    const taken = this.#taken();
    // Both are of 32 bits, which go round.
    this.#connections.splice(0, (taken - this.#forgotten) | 0);
    this.#forgotten = taken;
  }
}
