import { type Ending, internalFault } from './guard.ts';
import { turn } from './turn.ts';

type Begin = () => void;
type Closeable = Ending & { readonly destroyed: boolean };

/**
 * Lets TLS handshakes begin a few at a time. OpenSSL answers a ClientHello with a signature, on this thread, in the ticks
 * behind `begin`: hundreds that are here together would be a quarter of a second in which nobody else is served. Where
 * some have to wait, each client address has its turn.
 */
export class HandshakeTurns {
  readonly #waiting = new Map<string, { readonly socket: Closeable; readonly begin: Begin }[]>();

  /**
   * Calls `begin`, now or in a later turn; never, where the socket is closed by then. What it throws ends the socket.
   *
   * @param source the client's address.
   */
  add(source: string, socket: Closeable, begin: Begin): void {
    if (turn.mayWork()) {
      run(socket, begin);
      return;
    }
    const others = this.#waiting.get(source);
    if (others === undefined) this.#waiting.set(source, [{ socket, begin }]);
    else others.push({ socket, begin });
    turn.later(this.#next);
  }

  /** Called once for each that waits, and begins one: of the address that has waited longest. */
  readonly #next = (): void => {
    for (const [source, queue] of this.#waiting) {
      this.#waiting.delete(source);
      const next = queue.shift();
      // At the end of this very walk.
      if (queue.length > 0) this.#waiting.set(source, queue);
      if (next === undefined || next.socket.destroyed) continue;
      run(next.socket, next.begin);
      return;
    }
  };
}

function run(socket: Closeable, begin: Begin): void {
  try {
    begin();
  } catch (error) {
    internalFault('a TLS handshake', socket, error);
  }
}
