import type { Socket } from 'node:net';
import { TokenBucket } from '../../token-bucket.ts';
import { letRead } from '../node-handles.ts';
import type { KeyHeeder } from './key-log.ts';

/**
 * KeyUpdates of a client at once, and each second in the long run. OpenSSL does as every one says (RFC 8446 section 4.6.3), for
 * some 30 us, and bounds neither their number nor their rate. Others put up with 16 in a row (Go) or 32 (BoringSSL, rustls).
 * Content between them makes them no cheaper, so it does not count here. A client that needs one has sent gigabytes before.
 */
const mostKeyUpdates = 16;
const perSecond = 1;

/** Counts the KeyUpdates of one client, and ends its reads where they are too many. */
export class KeyUpdates implements KeyHeeder {
  readonly #raw: Socket;
  /** Made with the first, which hardly any client sends. */
  #allowed: TokenBucket | null = null;
  #isOver = false;
  #onMany: (() => void) | null = null;

  /** @param raw the connection below TLS. */
  constructor(raw: Socket) {
    this.#raw = raw;
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

  /** The client has made new keys. */
  newKeys(): void {
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
