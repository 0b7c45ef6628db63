import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { TokenBucket } from '../../token-bucket.ts';
import { letRead } from '../node-handles.ts';

/**
 * KeyUpdates of a client at once, and each second in the long run. OpenSSL does as every one says (RFC 8446 section 4.6.3), for
 * some 30 us, and bounds neither their number nor their rate. Others put up with 16 in a row (Go) or 32 (BoringSSL, rustls).
 * Content between them makes them no cheaper, so it does not count here. A client that needs one has sent gigabytes before.
 */
const mostKeyUpdates = 16;
const perSecond = 1;

/** By this the log of keys calls the client's own keys, each time that they are new. */
const newKeys = 'CLIENT_TRAFFIC_SECRET_N';

/** Under this a TLS socket keeps who counts. */
const kept = Symbol('key updates');

interface Counted extends TLSSocket {
  [kept]?: KeyUpdates;
}

/**
 * One for all sockets. OpenSSL says so while it reads, in every handshake, too. Of the keys themselves nothing is to stay,
 * unless Node was told to write them down (--tls-keylog).
 */
function onKeys(this: Counted, line: Buffer): void {
  const isUpdate = line.toString('latin1', 0, newKeys.length) === newKeys;
  if (this.listenerCount('keylog') === 1) line.fill(0);
  if (isUpdate) this[kept]?.came();
}

/** Counts the KeyUpdates of one client, and ends its reads where they are too many. */
export class KeyUpdates {
  readonly #raw: Socket;
  /** Made with the first, which hardly any client sends. */
  #allowed: TokenBucket | null = null;
  #isOver = false;
  #onMany: (() => void) | null = null;

  /**
   * @param raw the connection below TLS.
   * @param secure TLS on it, new: what it was told before is not known.
   */
  constructor(raw: Socket, secure: TLSSocket) {
    this.#raw = raw;
    const counted: Counted = secure;
    counted[kept] = this;
    counted.on('keylog', onKeys);
  }

  /** There were too many: TLS is to read no more. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** @param run guards what it does by itself. Called once, never from within OpenSSL: it may destroy the connection. */
  whenMany(run: () => void): void {
    this.#onMany = run;
    if (this.#isOver) this.#tell();
  }

  came(): void {
    if (this.#isOver) return;
    this.#allowed ??= new TokenBucket(mostKeyUpdates, perSecond, () => performance.now());
    if (this.#allowed.take()) return;
    this.#isOver = true;
    letRead(this.#raw, false);
    this.#tell();
  }

  #tell(): void {
    setImmediate(() => {
      const run = this.#onMany;
      this.#onMany = null;
      run?.();
    });
  }
}
