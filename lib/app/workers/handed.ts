import type { Descriptors } from '../../proxy/accept/descriptors.ts';

/**
 * Descriptors of connections on their way to one worker, which takes them in this order, and counts. Where it dies before it
 * has taken them nobody else would close them, and their clients would wait for ever.
 */
export class Handed {
  readonly #descriptors: Pick<Descriptors, 'close'>;
  readonly #taken: () => number;
  readonly #fds: number[] = [];
  /** Of those taken, how many have left the list. */
  #forgotten = 0;

  /** @param taken how many the worker has taken so far. */
  constructor(descriptors: Pick<Descriptors, 'close'>, taken: () => number) {
    this.#descriptors = descriptors;
    this.#taken = taken;
  }

  add(fd: number): void {
    this.#forget();
    this.#fds.push(fd);
  }

  /** The worker is over. */
  over(): void {
    this.#forget();
    for (const fd of this.#fds.splice(0)) this.#descriptors.close(fd);
  }

  #forget(): void {
    const taken = this.#taken();
    this.#fds.splice(0, taken - this.#forgotten);
    this.#forgotten = taken;
  }
}
