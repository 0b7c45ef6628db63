import type { Socket } from 'node:net';
import type { Endpoint, Upstreams } from '../upstream.ts';
import { type ClientHome, ClientSession } from './client-session.ts';

/** One for all: what is read is dealt with, or copied, before the next read can happen. */
const readBuffer = Buffer.allocUnsafeSlow(64 * 1024);

/** A request that is waiting for a session. */
export interface Waiting {
  /** Asked again after a wait: the client may be gone. */
  readonly isWanted: () => boolean;
  readonly ready: (session: ClientSession) => void;
  readonly failed: (error: Error) => void;
}

/** Warm HTTP/2 sessions (prior knowledge, RFC 9113 3.3) to one app address: as few as its stream limit allows. */
export class AppSessions implements ClientHome {
  readonly #endpoint: Endpoint;
  readonly #upstreams: Upstreams;
  readonly #sessions: ClientSession[] = [];
  readonly #connecting = new Set<ClientSession>();
  readonly #waiting: Waiting[] = [];
  #isConnecting = false;

  constructor(endpoint: Endpoint, upstreams: Upstreams) {
    this.#endpoint = endpoint;
    this.#upstreams = upstreams;
  }

  /** A session with room, or null. */
  take(): ClientSession | null {
    for (const session of this.#sessions) if (session.hasRoom) return session;
    return null;
  }

  /** Waits for one. */
  wait(waiting: Waiting): void {
    this.#waiting.push(waiting);
    this.#connect();
  }

  #connect(): void {
    if (this.#isConnecting) return;
    this.#isConnecting = true;
    let session: ClientSession | null = null;
    const onread = {
      buffer: readBuffer,
      callback: (length: number): boolean => {
        session?.receive(readBuffer.subarray(0, length));
        return session !== null;
      },
    };
    const connected = (error: Error | null, socket: Socket): void => {
      if (error !== null) {
        this.#settled(error);
        return;
      }
      session = new ClientSession(socket, this);
      // An app that speaks no HTTP/2 never sends SETTINGS: wait for them, so that it is a connect failure.
      this.#connecting.add(session);
    };
    this.#upstreams.connect(this.#endpoint, connected, onread);
  }

  ready(session: ClientSession): void {
    if (!this.#connecting.delete(session)) return;
    this.#sessions.push(session);
    this.#settled(null);
  }

  retired(session: ClientSession): void {
    const at = this.#sessions.indexOf(session);
    if (at !== -1) this.#sessions.splice(at, 1);
    if (this.#connecting.delete(session)) this.#settled(new Error('the application closed the session'));
  }

  /** A connect has ended: whoever waits is served, as far as there is room, or told. */
  #settled(error: Error | null): void {
    this.#isConnecting = false;
    for (const waiting of this.#waiting.splice(0)) {
      // Whoever resets what has not left yet costs the app nothing.
      if (!waiting.isWanted()) continue;
      const session = error === null ? this.take() : null;
      if (session !== null) waiting.ready(session);
      else if (error === null) this.wait(waiting);
      else waiting.failed(error);
    }
  }

  close(): void {
    for (const session of [...this.#sessions, ...this.#connecting]) session.destroy();
  }
}
