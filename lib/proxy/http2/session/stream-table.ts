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

  /** False where it was gone before: whoever removes a stream deals with its end. */
  remove(stream: S): boolean {
    return this.#open.delete(stream.id);
  }

  has(stream: S): boolean {
    return this.#open.has(stream.id);
  }

  /** Removes all. */
  clear(): readonly S[] {
    const streams = [...this.#open.values()];
    this.#open.clear();
    return streams;
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
