import { type Ending, internalFault } from '../../guard.ts';

/** Who has data that waits for room. */
export interface Queued extends Ending {
  /** It is in the queue. Nobody else's to set. */
  queued: boolean;
  readonly closed: boolean;
  /** Sends as much as there is room for. True when nothing waits any more. */
  pump(): boolean;
}

/** Streams with data that waits for room, in the order of their turns. */
export class SendQueue {
  #waiting = new Set<Queued>();
  #pumping = false;

  add(stream: Queued): void {
    if (stream.queued) return;
    stream.queued = true;
    this.#waiting.add(stream);
  }

  remove(stream: Queued): void {
    if (stream.queued) this.#waiting.delete(stream);
  }

  /** Gives everyone a turn, for as long as the output takes data. */
  pump(output: { readonly blocked: boolean }): void {
    if (this.#pumping || this.#waiting.size === 0) return;
    this.#pumping = true;
    const waiting = this.#waiting;
    this.#waiting = new Set();
    for (const stream of waiting) {
      stream.queued = false;
      try {
        if (!stream.closed && (output.blocked || !stream.pump())) this.add(stream);
      } catch (error) {
        internalFault('an HTTP/2 stream that has room again', stream, error);
      }
    }
    this.#pumping = false;
  }
}
