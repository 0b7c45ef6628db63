import { Roster, type Rostered } from '../../roster.ts';
import { type Ending, internalFault } from '../guard.ts';
import { letRead } from '../node-handles.ts';
import { type Asker, FairQueue } from './fair-queue.ts';
import { NextTurn } from './next-turn.ts';
import { turn } from './turn.ts';

/** The raw socket. */
export interface HandshakeSocket extends Ending {
  readonly destroyed: boolean;
}

/** One handshake among those of `HandshakeTurns`. */
export class HandshakeTurn implements Rostered {
  rosterPlace = -1;
  /** The turns' own. `last-read`: is not held once more, or a flood would keep for ever who is asked about. */
  state: 'waiting' | 'read' | 'held' | 'last-read' | 'over' = 'waiting';
  readonly socket: HandshakeSocket;
  readonly begin: () => void;

  constructor(socket: HandshakeSocket, begin: () => void) {
    this.socket = socket;
    this.begin = begin;
  }
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
  readonly #waiting = new FairQueue<HandshakeTurn>();
  readonly #read = new Roster<HandshakeTurn>();
  /** Have begun and are not read, those that have waited longest first; among them who is over meanwhile. */
  readonly #held: HandshakeTurn[] = [];
  /** See `onceRead`. Few ever are. */
  readonly #asking = new Map<HandshakeTurn, () => void>();
  #ended = 0;
  readonly #nextTurn = new NextTurn(() => this.#readOn());

  /**
   * Calls `begin`, now or in a later turn; never, where the socket is closed by then. What it throws ends the socket.
   *
   * @param source as `sourceOf` yields it: who has a network of addresses has one turn.
   */
  add(source: Asker, handshake: HandshakeTurn): void {
    if (turn.mayWork()) {
      this.#begin(handshake);
      return;
    }
    this.#waiting.add(source, handshake);
    turn.later(this.#next);
  }

  /** Called once for each that waits, and begins one: of the address that has waited longest. */
  readonly #next = (): void => {
    for (let next = this.#waiting.take(); next !== null; next = this.#waiting.take()) {
      if (next.state === 'over' || next.socket.destroyed) continue;
      this.#begin(next);
      return;
    }
  };

  /** It has come to an end, well or not: called within the event that ended it, for each that was added. */
  over(handshake: HandshakeTurn): void {
    const wasRead = handshake.state === 'read' || handshake.state === 'last-read';
    handshake.state = 'over';
    this.#asking.delete(handshake);
    this.#read.delete(handshake);
    // Those that have only gone were no work.
    if (!wasRead || handshake.socket.destroyed) return;
    this.#ended++;
    this.#nextTurn.schedule();
    if (this.#ended < endsPerTurn) return;
    for (const each of this.#read) {
      this.#read.delete(each);
      each.state = 'held';
      this.#held.push(each);
      letRead(each.socket, false);
    }
  }

  /** Calls `run`, which is to be `guarded`, once what has come of it by now has been read; never, where it is over by then. */
  onceRead(handshake: HandshakeTurn, run: () => void): void {
    if (handshake.state === 'over') return;
    this.#asking.set(handshake, run);
    this.#nextTurn.schedule();
  }

  #begin(handshake: HandshakeTurn): void {
    this.#letRead(handshake);
    try {
      handshake.begin();
    } catch (error) {
      internalFault('a TLS handshake', handshake.socket, error);
    }
  }

  #letRead(handshake: HandshakeTurn): void {
    handshake.state = 'read';
    this.#read.add(handshake);
  }

  #readOn(): void {
    this.#ended = 0;
    // Behind the reads of this turn, and before others are read again.
    for (const [handshake, run] of this.#asking) {
      if (handshake.state === 'held') continue;
      this.#asking.delete(handshake);
      run();
    }
    for (let left = endsPerTurn; left > 0; ) {
      const next = this.#held.shift();
      if (next === undefined) break;
      if (next.state !== 'held') continue;
      left--;
      if (this.#asking.has(next)) next.state = 'last-read';
      else this.#letRead(next);
      letRead(next.socket, true);
    }
    if (this.#held.length > 0 || this.#asking.size > 0) this.#nextTurn.schedule();
  }
}
