import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { internalFault } from '../guard.ts';
import { type Intercepted, intercept } from '../node-intercept.ts';
import { KeyUpdates } from './key-updates.ts';
import { feedTls } from './node-tls.ts';
import { RecordEnds } from './record-ends.ts';

/** Records that TLS reads before it is asked whether they were too many: a KeyUpdate is one, of 27 bytes or more. */
const recordsPerPiece = 8;

/** Behind the handshake, a read of so many bytes is content: in small pieces it would take several times as long. */
const largeRead = 8 * 1024;

/**
 * What TLS reads on the server's side. OpenSSL goes on through all that it is given while nothing comes of it: a read of 64 KiB
 * of KeyUpdates is a tenth of a second in which nobody else is served. So what is read goes through here first, and is
 * given to TLS in pieces. Once that is released TLS reads by itself, which is quicker; a client that sends too many of them then
 * is cut off behind one such read.
 */
export class WatchedReads {
  readonly #secure: TLSSocket;
  readonly #updates: KeyUpdates;
  readonly #ends = new RecordEnds();
  #intercepted: Intercepted | null;
  #isHandshake = true;

  /**
   * @param raw the connection below TLS.
   * @param secure TLS on it, new.
   */
  constructor(raw: Socket, secure: TLSSocket) {
    this.#secure = secure;
    this.#updates = new KeyUpdates(raw, secure);
    this.#intercepted = intercept(raw, this.#onBytes);
  }

  readonly #onBytes = (bytes: Buffer): void => {
    try {
      this.feed(bytes);
    } catch (error) {
      internalFault('a read of TLS', this.#secure, error);
    }
  };

  /** Has TLS read what was read of its connection, from the first byte on. */
  feed(bytes: Buffer): void {
    const isLarge = !this.#isHandshake && bytes.length >= largeRead;
    for (let at = 0; at < bytes.length && !this.#updates.isOver; ) {
      const end = this.#ends.pieceEnd(bytes, at, recordsPerPiece);
      feedTls(this.#secure, bytes.subarray(at, end), isLarge);
      at = end;
    }
  }

  /** What is large goes to TLS as it is from now on. */
  handshakeOver(): void {
    this.#isHandshake = false;
  }

  /** See `KeyUpdates.whenMany`. */
  whenMany(run: () => void): void {
    this.#updates.whenMany(run);
  }

  /** TLS reads by itself, from the next read on. May be called more than once. */
  release(): void {
    this.#intercepted?.release();
    this.#intercepted = null;
  }
}
