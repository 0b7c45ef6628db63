import type { StreamState } from './stream-state.ts';

/** Streams that we have reset, and whose frames may still be on their way to us. */
const maxReset = 1000;

/** What is known of a stream by its number. */
interface Numbered {
  readonly id: number;
  readonly state: StreamState;
}

/** The streams of one connection. All are the client's: an app opens none, since pushes are not wanted. */
export class StreamTable<S extends Numbered> {
  readonly #open = new Map<number, S>();
  readonly #reset = new Set<number>();
  /** The highest that the client has opened; 0 before the first. */
  last = 0;
  #unusedSince = 0;
  /** The last stream when the table was first seen empty; -1 while it is not. */
  #unusedAfter = -1;

  get size(): number {
    return this.#open.size;
  }

  get(streamId: number): S | undefined {
    return this.#open.get(streamId);
  }

  values(): IterableIterator<S> {
    return this.#open.values();
  }

  add(stream: S): void {
    this.#open.set(stream.id, stream);
  }

  /** False where it was gone before: the one that removes a stream deals with its end. */
  remove(streamId: number): boolean {
    return this.#open.delete(streamId);
  }

  isOpen(streamId: number): boolean {
    return this.#open.has(streamId);
  }

  /** Removes all. */
  clear(): readonly S[] {
    const streams = [...this.#open.values()];
    this.#open.clear();
    return streams;
  }

  /**
   * Looks for how long there have been no streams.
   *
   * @param now on the clock of `performance.now()`.
   * @returns milliseconds since the first of the looks that have found none, without a stream in between; 0 for that.
   */
  unusedMs(now: number): number {
    const isUnused = this.size === 0;
    if (isUnused && this.#unusedAfter === this.last) return now - this.#unusedSince;
    this.#unusedAfter = isUnused ? this.last : -1;
    this.#unusedSince = now;
    return 0;
  }

  /** The state of any stream, one that is no more or has never been among them. */
  stateOf(streamId: number): StreamState {
    const stream = this.#open.get(streamId);
    if (stream !== undefined) return stream.state;
    if (streamId % 2 === 0 || streamId > this.last) return 'idle';
    return this.#reset.has(streamId) ? 'reset' : 'closed';
  }

  /** We have reset the stream before its peer had ended it. The oldest of too many are forgotten. */
  rememberReset(streamId: number): void {
    this.#reset.add(streamId);
    if (this.#reset.size <= maxReset) return;
    for (const oldest of this.#reset) {
      this.#reset.delete(oldest);
      break;
    }
  }

  /** The peer has ended it as well: nothing of it is on its way any more. */
  forgetReset(streamId: number): void {
    this.#reset.delete(streamId);
  }
}
