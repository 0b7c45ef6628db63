import type { Opening } from './opening.ts';

/** What becomes of bytes on their way into a tunnel. */
export type Passage =
  | { readonly kind: 'forward'; readonly bytes: Buffer }
  /** They would be a request if the client ended here; what follows tells. */
  | { readonly kind: 'hold' }
  /** Something that serves HTTP would take them for a request. */
  | { readonly kind: 'refuse' };

/** More than this is not held: no request line is so long. */
const mostHeld = 64 * 1024;

const hold: Passage = { kind: 'hold' };
const refuse: Passage = { kind: 'refuse' };

/**
 * Stands in a tunnel on a port without a declared protocol until the app has said something, which an HTTP server does
 * not before it has a request. Until then no bytes go on that complete what somebody's server would take for one; those
 * of another protocol go on as they come.
 */
export class TunnelGuard {
  readonly #opening: Opening;
  #held: Buffer[] = [];
  #heldBytes = 0;

  /** @param opening has read what was read of the stream so far. */
  constructor(opening: Opening) {
    this.#opening = opening;
  }

  /** Some bytes are held, undecided; if the client ends now they are a request. */
  get isHolding(): boolean {
    return this.#heldBytes > 0;
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** Nothing can become a request any more: the guard may go. */
  get isDone(): boolean {
    return this.#opening.isHarmless && !this.isHolding;
  }

  pass(chunk: Buffer): Passage {
    this.#opening.read(chunk);
    return this.judge(chunk);
  }

  /** For bytes that the opening has read already. */
  judge(chunk: Buffer): Passage {
    if (this.#opening.isRequest) return refuse;
    if (this.#opening.endsAsRequest) {
      if (this.#heldBytes + chunk.length > mostHeld) return refuse;
      this.#held.push(chunk);
      this.#heldBytes += chunk.length;
      return hold;
    }
    return { kind: 'forward', bytes: this.release(chunk) };
  }

  /** What was held, and `chunk` behind it. */
  release(chunk: Buffer): Buffer {
    if (this.#heldBytes === 0) return chunk;
    const bytes = Buffer.concat([...this.#held, chunk]);
    this.#held = [];
    this.#heldBytes = 0;
    return bytes;
  }
}
