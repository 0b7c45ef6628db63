import { setTimeout as delay } from 'node:timers/promises';

/** How long the event loop may be held at a time. */
const sliceMs = 2;
/**
 * How long it then belongs to the traffic. One turn would not do: a request and its response take several, and each would
 * wait for a slice.
 */
const restMs = 6;

/** Divides what only the main thread can do, so that requests hardly notice. */
export class Slices {
  #endsAt = performance.now() + sliceMs;

  /** To be awaited between two steps; lets go of the event loop where the slice is used up. */
  async rest(): Promise<void> {
    if (performance.now() < this.#endsAt) return;
    await delay(restMs);
    this.#endsAt = performance.now() + sliceMs;
  }
}
