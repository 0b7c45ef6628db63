import type { Socket } from 'node:net';
import type { Endpoint } from '../endpoint.ts';
import type { PendingConnect, Upstreams } from '../upstream.ts';
import { type ClientHome, ClientSession } from './client-session.ts';

/** One for all: what is read is dealt with, or copied, before the next read can happen. */
const readBuffer = Buffer.allocUnsafeSlow(64 * 1024);

/** A request that is waiting for a session. */
export interface Waiting {
  readonly ready: (session: ClientSession) => void;
  readonly failed: (error: Error) => void;
}

/** Warm HTTP/2 sessions (prior knowledge, RFC 9113 3.3) to one app address: as few as its stream limit allows. */
export class AppSessions implements ClientHome {
  readonly #endpoint: Endpoint;
  readonly #upstreams: Upstreams;
  readonly #sessions: ClientSession[] = [];
  readonly #connecting = new Set<ClientSession>();
  readonly #waiting = new Set<Waiting>();
  /** A connect, or the wait for the app's SETTINGS behind it, is under way. */
  #isConnecting = false;
  #pending: PendingConnect | null = null;

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
    this.#waiting.add(waiting);
    this.#connect();
  }

  /** Whoever gives up what has not left yet costs the app nothing. */
  cancel(waiting: Waiting): void {
    this.#waiting.delete(waiting);
  }

  #connect(): void {
    // An app that takes no streams for now would take none on another session either.
    if (this.#isConnecting || this.#sessions.some(({ maxStreams }) => maxStreams === 0)) return;
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
      this.#pending = null;
      if (error !== null) {
        this.#settled(error);
        return;
      }
      session = new ClientSession(socket, this);
      // An app that speaks no HTTP/2 never sends SETTINGS: wait for them, so that it is a connect failure.
      this.#connecting.add(session);
    };
    this.#pending = this.#upstreams.connect(this.#endpoint, connected, onread);
  }

  ready(session: ClientSession): void {
    if (this.#connecting.size > 0 && this.#connecting.delete(session)) {
      this.#sessions.push(session);
      this.#settled(null);
    } else if (this.#waiting.size > 0) {
      this.#serve();
    }
  }

  retired(session: ClientSession): void {
    const at = this.#sessions.indexOf(session);
    if (at !== -1) this.#sessions.splice(at, 1);
    const wasAwaited = this.#connecting.delete(session) || !this.#isConnecting;
    if (wasAwaited) this.#settled(new Error('the application closed the session'));
  }

  /** Whoever waits is served, as far as there is room. */
  #serve(): void {
    for (const waiting of this.#waiting) {
      const session = this.take();
      if (session === null) return;
      this.#waiting.delete(waiting);
      waiting.ready(session);
    }
  }

  /** A connect has ended, or a session for whose room somebody waited. */
  #settled(error: Error | null): void {
    this.#isConnecting = false;
    this.#serve();
    if (this.#waiting.size === 0) return;
    if (error === null) {
      this.#connect();
      return;
    }
    const failed = [...this.#waiting];
    this.#waiting.clear();
    for (const waiting of failed) waiting.failed(error);
  }

  close(): void {
    this.#pending?.cancel();
    for (const session of [...this.#sessions, ...this.#connecting]) session.destroy();
  }
}
