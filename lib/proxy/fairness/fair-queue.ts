/** On whose behalf something waits: as `sourceOf` yields it for a client, or a name of our own. */
export type Asker = number | string;

/** First come, first served, among those of one asker; among the askers, each has its turn. */
export class FairQueue<T> {
  /** Those who wait, in the order of their turns. None is empty. */
  readonly #queues = new Map<Asker, T[]>();
  size = 0;

  add(asker: Asker, item: T): void {
    this.size++;
    const queue = this.#queues.get(asker);
    if (queue === undefined) this.#queues.set(asker, [item]);
    else queue.push(item);
  }

  /** The next, or null where nothing waits. */
  take(): T | null {
    for (const [asker, queue] of this.#queues) {
      const item = queue.shift() as T;
      this.size--;
      this.#queues.delete(asker);
      if (queue.length > 0) this.#queues.set(asker, queue);
      return item;
    }
    return null;
  }
}
