/** On whose behalf something waits: as `sourceOf` yields it for a client, or a name of our own. */
export type Asker = number | string;

/** This many askers for whom nothing waits are kept: a map that shrinks and grows leaves tables behind (`Roster`). */
const maxUnused = 1024;

/** First come, first served, among those of one asker; among the askers, each has its turn. */
export class FairQueue<T> {
  readonly #queues = new Map<Asker, T[]>();
  /** Those in which something waits, in the order of their turns. */
  readonly #turns: T[][] = [];
  size = 0;

  add(asker: Asker, item: T): void {
    this.size++;
    const queue = this.#queueOf(asker);
    if (queue.length === 0) this.#turns.push(queue);
    queue.push(item);
  }

  /** The next, or null where nothing waits. */
  take(): T | null {
    const queue = this.#turns.shift();
    if (queue === undefined) return null;
    this.size--;
    const item = queue.shift() as T;
    if (queue.length > 0) this.#turns.push(queue);
    return item;
  }

  /** Askers that are kept, whether anything of theirs waits or not. */
  get known(): number {
    return this.#queues.size;
  }

  #queueOf(asker: Asker): T[] {
    let queue = this.#queues.get(asker);
    if (queue !== undefined) return queue;
    if (this.#queues.size > this.#turns.length + maxUnused) this.#forgetUnused();
    queue = [];
    this.#queues.set(asker, queue);
    return queue;
  }

  #forgetUnused(): void {
    for (const [asker, queue] of this.#queues) if (queue.length === 0) this.#queues.delete(asker);
  }
}
