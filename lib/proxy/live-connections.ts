/** One open connection, whatever it carries. */
export interface LiveConnection {
  /** Called after a policy change: decide again, and end the connection where it is now forbidden. HTTP decides per request. */
  recheck(): void;
  /** Finish what is in flight, take nothing new, then close. Idle connections close at once. */
  drain(): void;
  /** Ends the connection now. */
  destroy(): void;
}

/** Every open connection: rechecked when policy changes, drained at stop. */
export class LiveConnections {
  readonly #open = new Set<LiveConnection>();
  #draining = false;
  #idle: (() => void)[] = [];

  get size(): number {
    return this.#open.size;
  }

  get draining(): boolean {
    return this.#draining;
  }

  add(connection: LiveConnection): void {
    this.#open.add(connection);
    if (this.#draining) connection.drain();
  }

  remove(connection: LiveConnection): void {
    if (!this.#open.delete(connection) || this.#open.size > 0) return;
    for (const resolve of this.#idle.splice(0)) resolve();
  }

  recheckAll(): void {
    for (const connection of this.#open) connection.recheck();
  }

  /** Resolves true when all have ended by themselves, false when the rest was cut after `graceMs`. */
  async drain(graceMs: number): Promise<boolean> {
    this.#draining = true;
    for (const connection of [...this.#open]) connection.drain();
    if (this.#open.size === 0) return true;
    let timer: NodeJS.Timeout | undefined;
    const drained = await Promise.race([
      new Promise<boolean>((resolve) => this.#idle.push(() => resolve(true))),
      new Promise<boolean>((resolve) => {
        timer = setTimeout(() => resolve(false), graceMs);
      }),
    ]);
    clearTimeout(timer);
    if (!drained) for (const connection of [...this.#open]) connection.destroy();
    return drained;
  }
}
