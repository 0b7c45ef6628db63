import { type Asker, FairQueue } from '../fairness/fair-queue.ts';
import { NextTurn } from '../fairness/next-turn.ts';
import { turn } from '../fairness/turn.ts';
import { type Ending, internalFault } from '../guard.ts';
import { letRead } from '../node-handles.ts';

type Begin = () => void;

/** The raw socket. */
export interface HandshakeSocket extends Ending {
  readonly destroyed: boolean;
}

/** Handshakes that may end in a turn, each a third of a millisecond's work: certificates and signatures are verified. */
const endsPerTurn = 8;

/**
 * Lets TLS handshakes begin a few at a time. OpenSSL answers a ClientHello with a signature, on this thread, in the ticks
 * behind `begin`: hundreds that are here together would be a quarter of a second in which nobody else is served. Where
 * some have to wait, each client address has its turn.
 *
 * What clients answer is verified in OpenSSL as it is read, before any of our code runs. So when enough have ended in a turn,
 * the others are not read (libuv then leaves out what epoll has told of them already), and go on a few in each turn.
 */
export class HandshakeTurns {
  readonly #waiting = new FairQueue<{ readonly socket: HandshakeSocket; readonly begin: Begin }>();
  /** Have begun: those that are read, and those that are not. */
  readonly #read = new Set<HandshakeSocket>();
  readonly #held = new Set<HandshakeSocket>();
  /** Are read again and asked about: they are not held once more, or a flood would keep them for ever. */
  readonly #lastRead = new Set<HandshakeSocket>();
  /** See `onceRead`. */
  readonly #asking = new Map<HandshakeSocket, () => void>();
  #ended = 0;
  readonly #nextTurn = new NextTurn(() => this.#readOn());

  /**
   * Calls `begin`, now or in a later turn; never, where the socket is closed by then. What it throws ends the socket.
   *
   * @param source as `sourceOf` yields it: who has a network of addresses has one turn.
   */
  add(source: Asker, socket: HandshakeSocket, begin: Begin): void {
    if (turn.mayWork()) {
      this.#begin(socket, begin);
      return;
    }
    this.#waiting.add(source, { socket, begin });
    turn.later(this.#next);
  }

  /** Called once for each that waits, and begins one: of the address that has waited longest. */
  readonly #next = (): void => {
    for (let next = this.#waiting.take(); next !== null; next = this.#waiting.take()) {
      if (next.socket.destroyed) continue;
      this.#begin(next.socket, next.begin);
      return;
    }
  };

  /** It has come to an end, well or not: called within the event that ended it, for each that was added. */
  over(socket: HandshakeSocket): void {
    this.#asking.delete(socket);
    this.#held.delete(socket);
    const wasRead = this.#lastRead.delete(socket) || this.#read.delete(socket);
    // Those that have only gone were no work.
    if (!wasRead || socket.destroyed) return;
    this.#ended++;
    this.#nextTurn.schedule();
    if (this.#ended < endsPerTurn) return;
    for (const each of this.#read) {
      letRead(each, false);
      this.#held.add(each);
    }
    this.#read.clear();
  }

  /** Calls `run`, which is to be `guarded`, once what has come of it by now has been read; never, where it is over by then. */
  onceRead(socket: HandshakeSocket, run: () => void): void {
    this.#asking.set(socket, run);
    this.#nextTurn.schedule();
  }

  #begin(socket: HandshakeSocket, begin: Begin): void {
    this.#read.add(socket);
    try {
      begin();
    } catch (error) {
      internalFault('a TLS handshake', socket, error);
    }
  }

  #readOn(): void {
    this.#ended = 0;
    // Behind the reads of this turn, and before others are read again.
    for (const [socket, run] of this.#asking) {
      if (this.#held.has(socket)) continue;
      this.#asking.delete(socket);
      run();
    }
    let left = endsPerTurn;
    for (const socket of this.#held) {
      if (left-- === 0) break;
      this.#held.delete(socket);
      (this.#asking.has(socket) ? this.#lastRead : this.#read).add(socket);
      letRead(socket, true);
    }
    if (this.#held.size > 0 || this.#asking.size > 0) this.#nextTurn.schedule();
  }
}
