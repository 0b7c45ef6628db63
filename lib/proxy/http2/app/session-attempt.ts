import type { Socket } from 'node:net';
import { behindReads } from '../../fairness/behind-reads.ts';
import { turn } from '../../fairness/turn.ts';
import { guarded, internalFault } from '../../guard.ts';
import type { Admitted } from '../../http/admitted.ts';
import type { Endpoint } from '../../upstream/endpoint.ts';
import { connectTimedOut, type PendingConnect, type Upstreams } from '../../upstream/upstreams.ts';
import type { AppSession } from './app-session.ts';

/** One for all: what is read is dealt with, or copied, before the next read can happen. */
const readBuffer = Buffer.allocUnsafeSlow(64 * 1024);

/**
 * Whom a session is for: all clients, or one, whose content then has the window for itself. And the first of
 * those who want it, by whose permission it is dialled.
 */
export type Audience = ({ readonly kind: 'everybody' } | { readonly kind: 'client'; readonly owner: object }) & {
  readonly admitted: Admitted;
};

/** Who wants the session. */
interface AttemptOwner {
  readonly endpoint: Endpoint;
  readonly upstreams: Upstreams;
  sessionOf(socket: Socket): AppSession;
  /** There is no session. */
  attemptFailed(error: Error): void;
}

/** A connect, and the wait for the app's SETTINGS behind it. */
export class SessionAttempt {
  readonly audience: Audience;
  /** See `Upstreams.connect`. */
  readonly isExtra: boolean;
  session: AppSession | null = null;
  readonly #owner: AttemptOwner;
  #pending: PendingConnect | null = null;
  #timer: NodeJS.Timeout | null = null;

  constructor(owner: AttemptOwner, audience: Audience, isExtra: boolean) {
    this.#owner = owner;
    this.audience = audience;
    this.isExtra = isExtra;
  }

  start(): void {
    const { endpoint, upstreams } = this.#owner;
    const { connectTimeoutMs } = upstreams;
    // For as long as the session lives.
    const onread = {
      buffer: readBuffer,
      callback: (length: number): boolean => {
        const { session } = this;
        try {
          session?.intake.receive(readBuffer.subarray(0, length));
        } catch (error) {
          internalFault('a read of an HTTP/2 app', session, error);
        }
        if (session === null) return false;
        // As long as a read is full, libuv would read on; frames of a few bytes then keep everybody waiting.
        return length < readBuffer.length || turn.take(length + session.workAsContent, session);
      },
    };
    const startedAt = performance.now();
    // An app that speaks no HTTP/2, or has stopped to work, never sends SETTINGS: they belong to connecting.
    const late = guarded('a wait for SETTINGS of the app', null, () => {
      if (this.#timer === null) return;
      this.#owner.attemptFailed(connectTimedOut(endpoint));
      this.session?.destroy();
    });
    const connected = (error: Error | null, socket: Socket): void => {
      this.#pending = null;
      if (error !== null) {
        this.#owner.attemptFailed(error);
        return;
      }
      this.session = this.#owner.sessionOf(socket);
      this.#timer = setTimeout(behindReads(late), Math.max(0, connectTimeoutMs - (performance.now() - startedAt)));
    };
    const { admitted } = this.audience;
    this.#pending = upstreams.connect(admitted, endpoint, 'sessions', connected, onread, this.isExtra);
  }

  /** It has come to its end, whichever. */
  settled(): void {
    clearTimeout(this.#timer ?? undefined);
    this.#timer = null;
  }

  /** Nobody wants it any more. A session that there is by now is another's to end. */
  cancel(): void {
    this.#pending?.cancel();
  }
}
