import { type Ending, internalFault } from './guard.ts';

/** Milliseconds of a turn of the event loop for handshakes that begin; each is half a millisecond's work, or several. */
const turnMs = 3;

type Begin = () => void;
type Closeable = Ending & { readonly destroyed: boolean };

/**
 * Lets TLS handshakes begin a few at a time. OpenSSL answers a ClientHello with a signature, at once and on this thread:
 * hundreds that are here together would be a quarter of a second in which nobody else is served. Where some have to
 * wait, each client address has its turn.
 */
export class HandshakeTurns {
  readonly #now: () => number;
  #spentMs = 0;
  #running = false;
  readonly #waiting = new Map<string, { readonly socket: Closeable; readonly begin: Begin }[]>();

  /** @param now milliseconds, on any clock. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /**
   * Calls `begin`, now or in a later turn; never, where the socket is closed by then. What it throws ends the socket.
   *
   * @param source the client's address.
   */
  add(source: string, socket: Closeable, begin: Begin): void {
    if (this.#waiting.size === 0 && this.#spentMs < turnMs) {
      this.#begin(socket, begin);
      return;
    }
    const others = this.#waiting.get(source);
    if (others === undefined) this.#waiting.set(source, [{ socket, begin }]);
    else others.push({ socket, begin });
  }

  #begin(socket: Closeable, begin: Begin): void {
    if (!this.#running) {
      this.#running = true;
      setImmediate(this.#nextTurn);
    }
    if (socket.destroyed) return;
    const from = this.#now();
    try {
      begin();
    } catch (error) {
      internalFault('a TLS handshake', socket, error);
    }
    this.#spentMs += this.#now() - from;
  }

  readonly #nextTurn = (): void => {
    this.#running = false;
    this.#spentMs = 0;
    // Whoever is put back is at the end of this very walk.
    for (const [source, queue] of this.#waiting) {
      if (this.#spentMs >= turnMs) break;
      const next = queue.shift();
      this.#waiting.delete(source);
      if (queue.length > 0) this.#waiting.set(source, queue);
      if (next !== undefined) this.#begin(next.socket, next.begin);
    }
  };
}
