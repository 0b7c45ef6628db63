import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { internalFault } from '../guard.ts';
import { letRead } from '../node-handles.ts';
import { type Intercepted, intercept } from '../node-intercept.ts';
import { ClientFlight, type Taken } from './client-flight.ts';
import { heedKeys, type KeyHeeder, tellOfKeys } from './key-log.ts';
import { KeyUpdates } from './key-updates.ts';
import { feedTls } from './node-tls.ts';
import { RecordEnds } from './record-ends.ts';
import type { Objection } from './shown-certificates.ts';

/** Records that TLS reads before it is asked whether they were too many: a KeyUpdate is one, of 27 bytes or more. */
const recordsPerPiece = 8;

/** Behind the handshake, a read of so many bytes is content: in small pieces it would take several times as long. */
const largeRead = 8 * 1024;

/**
 * What TLS reads on the server's side. OpenSSL goes on through all that it is given while nothing comes of it: a read of 64 KiB
 * of KeyUpdates is a tenth of a second in which nobody else is served. So what is read goes through here first, and is
 * given to TLS in pieces. Once that is released TLS reads by itself, which is quicker; a client that sends too many of them then
 * is cut off behind one such read. The client's certificates are looked at before TLS has all of them.
 */
export class WatchedReads implements KeyHeeder {
  readonly #raw: Socket;
  readonly #secure: TLSSocket;
  /** Null once there can be none. */
  #onObjection: ((objection: Objection) => void) | null;
  readonly #updates: KeyUpdates;
  readonly #ends = new RecordEnds();
  #intercepted: Intercepted | null;
  #isHandshake = true;
  /** Null once its certificates have been looked at, and where they cannot be. */
  #flight: ClientFlight | null;
  #isRefused = false;

  /**
   * @param raw the connection below TLS.
   * @param secure TLS on it, new.
   * @param onObjection called at most once, in the handshake: TLS gets nothing more to read. It must not throw.
   */
  constructor(raw: Socket, secure: TLSSocket, onObjection: (objection: Objection) => void) {
    this.#raw = raw;
    this.#secure = secure;
    this.#onObjection = onObjection;
    this.#updates = new KeyUpdates(raw);
    heedKeys(secure, this);
    this.#intercepted = intercept(raw, this.#onBytes);
    this.#flight = this.#intercepted === null ? null : new ClientFlight();
  }

  readonly #onBytes = (bytes: Buffer): void => {
    try {
      this.feed(bytes);
    } catch (error) {
      internalFault('a read of TLS', this.#secure, error);
    }
  };

  handshakeKeys(secret: Buffer): void {
    this.#flight?.begin(secret);
  }

  newKeys(): void {
    this.#updates.newKeys();
  }

  /** Has TLS read what was read of its connection, from the first byte on. */
  feed(bytes: Buffer): void {
    const isLarge = !this.#isHandshake && bytes.length >= largeRead;
    let rest = bytes;
    while (rest.length > 0 && !this.#updates.isOver && !this.#isRefused) {
      const flight = this.#flight;
      if (flight?.isEncrypted) {
        const unseen = flight.unseen(rest);
        if (unseen === 0) {
          this.#take(flight.take(rest));
          return;
        }
        this.#give(rest.subarray(0, unseen));
        rest = rest.subarray(unseen);
        continue;
      }
      // The keys come with the end of a record, and behind that there may be more.
      const end = this.#ends.pieceEnd(rest, 0, flight === null ? recordsPerPiece : 1);
      feedTls(this.#secure, rest.subarray(0, end), isLarge);
      rest = rest.subarray(end);
      const objection = flight?.passed(this.#ends.isBetween) ?? null;
      if (objection !== null) this.#refuse(objection);
    }
  }

  #take({ passed, state }: Taken): void {
    if (state === 'seen') this.#seen();
    this.#give(passed);
    if (typeof state !== 'string') this.#refuse(state);
  }

  #give(bytes: Buffer): void {
    for (let at = 0; at < bytes.length && !this.#updates.isOver; ) {
      const end = this.#ends.pieceEnd(bytes, at, recordsPerPiece);
      feedTls(this.#secure, bytes.subarray(at, end), false);
      at = end;
    }
  }

  /** For as long as the connection lives nobody is kept but who counts. */
  #seen(): void {
    this.#flight = null;
    this.#onObjection = null;
    tellOfKeys(this.#secure, this.#updates);
  }

  #refuse(objection: Objection): void {
    this.#isRefused = true;
    this.#flight = null;
    letRead(this.#raw, false);
    this.#onObjection?.(objection);
  }

  /** What is large goes to TLS as it is from now on. */
  handshakeOver(): void {
    this.#isHandshake = false;
    // Where there are no certificates to look at.
    if (this.#flight !== null) this.#seen();
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
