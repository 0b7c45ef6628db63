import type { Socket } from 'node:net';
import { longRead, type PutOff, turn } from '../../fairness/turn.ts';
import { guarded } from '../../guard.ts';
import type { Keeper } from '../../kept.ts';
import { type Feed, takeFeed } from '../../node-internals.ts';
import { halfOpenMs } from '../limits.ts';
import { Unread } from '../unread.ts';

/** Bytes that Node's parser gets at once when they may be heads: it hands over all requests among them in one go. */
const leastPiece = 512;
/** The same in the middle of a body, where nothing else has come for a while. */
const mostPiece = 16 * 1024;

/** What the feed must know of the connection that it feeds. */
export interface FedConnection {
  /** Requests that the parser has handed over so far. */
  readonly handedOver: number;
  /** Requests wait for the one that is being answered: no more are parsed. */
  readonly isWaiting: boolean;
  /** A body is being read, and its reader has enough for now. */
  readonly isBlocked: boolean;
  /** Bytes were given to the parser. False ends the feeding. */
  fed(bytes: number): boolean;
  /** Of all that has come nothing waits. */
  fedAll(): void;
}

/**
 * Stands between a socket and Node's parser, which would otherwise turn 64 KB of pipelined requests into objects before
 * anybody else has a turn. Where a piece of them held a request, the next waits for the next turn.
 */
export class SlicedFeed {
  readonly #socket: Socket;
  readonly #connection: FedConnection;
  readonly #feed: Feed;
  readonly #unread: Unread;
  #pieceBytes = leastPiece;
  #resting: PutOff | null = null;
  /** The client sends nothing more, which the parser is told behind all that has come. */
  #hasEnded = false;

  /** Once the server has been given the socket; nothing of it has been read since. */
  constructor(socket: Socket, connection: FedConnection, keeper: Keeper) {
    this.#socket = socket;
    this.#connection = connection;
    this.#unread = new Unread(keeper);
    this.#feed = takeFeed(socket);
    socket.on('data', this.#onData);
    socket.once('end', this.#onEnd);
    socket.once('close', () => this.stop());
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#unread.append(chunk);
    if (this.#resting !== null) {
      // Who reads a body has Node read on, whoever has paused the socket.
      this.#socket.pause();
    } else if (chunk.length >= longRead && !turn.mayWork()) this.#rest();
    else this.#pump();
    this.#unread.settle();
  };

  /** No pause holds it back, so bytes may still be unread. */
  readonly #onEnd = (): void => {
    this.#hasEnded = true;
    this.#finish();
  };

  /** The last of the connection, whose end somebody else has seen. */
  takeLast(bytes: Buffer): void {
    this.#hasEnded = true;
    this.#onData(bytes);
  }

  get heldBytes(): number {
    return this.#unread.length;
  }

  /** What has come waits for its turn. */
  get isResting(): boolean {
    return this.#resting !== null;
  }

  /** Goes on, when no request waits any more. */
  resume(): void {
    if (this.#resting !== null) return;
    if (this.#unread.length > 0) this.#rest();
    else if (this.#socket.isPaused()) this.#socket.resume();
  }

  /** Feeds no more; yields what has not been fed. */
  stop(): Buffer {
    this.#socket.removeListener('data', this.#onData);
    this.#socket.removeListener('end', this.#onEnd);
    this.#hasEnded = false;
    if (this.#resting !== null) this.#resting.run = null;
    this.#resting = null;
    return this.#unread.giveAway();
  }

  #rest(): void {
    this.#socket.pause();
    this.#resting = turn.later(this.#rested);
  }

  readonly #rested = guarded('HTTP/1, the next slice', { destroy: () => this.#socket.destroy() }, () => {
    this.#resting = null;
    this.#pump();
    this.#unread.settle();
  });

  /** Somebody has ended the connection, or taken it over, and with it our listener off. */
  get #isTaken(): boolean {
    return !this.#socket.listeners('data').includes(this.#onData as () => void);
  }

  #pump(): void {
    const connection = this.#connection;
    while (this.#unread.length > 0) {
      if (connection.isWaiting) {
        this.#socket.pause();
        return;
      }
      if (this.#isTaken) return;
      const before = connection.handedOver;
      const { bytes } = this.#unread;
      const piece = bytes.subarray(0, this.#pieceBytes);
      this.#unread.keep(piece.length);
      const taken = this.#feed.data(piece);
      if (this.#hasEnded) this.#limitHalfOpen();
      if (this.#isTaken || !connection.fed(taken)) return;
      // Behind a request for a switch that is no switch to us, a parser stops all the same.
      if (taken > 0 && taken < piece.length) this.#unread.takeBack(bytes.subarray(taken));
      if (connection.handedOver === before) {
        this.#pieceBytes = Math.min(mostPiece, 2 * this.#pieceBytes);
        continue;
      }
      this.#pieceBytes = leastPiece;
      if (this.#unread.length > 0) {
        this.#rest();
        return;
      }
    }
    if (this.#socket.isPaused() && !connection.isWaiting && !connection.isBlocked) this.#socket.resume();
    connection.fedAll();
    this.#finish();
  }

  #finish(): void {
    if (!this.#hasEnded || this.#unread.length > 0 || this.#resting !== null || this.#isTaken) return;
    this.#hasEnded = false;
    this.#limitHalfOpen();
    this.#feed.end();
  }

  /** Node sets its own timeout between requests, and takes it back with the next. */
  #limitHalfOpen(): void {
    this.#socket.setTimeout(halfOpenMs);
  }
}
