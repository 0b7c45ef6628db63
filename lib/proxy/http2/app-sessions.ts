import type { Socket } from 'node:net';
import type { BufferBudget } from '../buffer-budget.ts';
import type { Endpoint } from '../endpoint.ts';
import { type Ending, guarded, internalFault } from '../guard.ts';
import { connectTimedOut, type PendingConnect, type Upstreams } from '../upstream.ts';
import { type ClientHome, ClientSession } from './client-session.ts';
import { appLimits } from './limits.ts';

/** One for all: what is read is dealt with, or copied, before the next read can happen. */
const readBuffer = Buffer.allocUnsafeSlow(64 * 1024);

/** A request that is waiting for a session. */
export interface Waiting extends Ending {
  /** The client's connection: what one client leaves unread must not be another's wait. */
  readonly owner: object;
  /** Bytes of content that want room on the session at once; 0 for a request that has none. */
  readonly room: number;
  readonly ready: (session: ClientSession) => void;
  readonly failed: (error: Error) => void;
}

/** A connect, and the wait for the app's SETTINGS behind it. */
interface Attempt {
  pending: PendingConnect | null;
  session: ClientSession | null;
  timer: NodeJS.Timeout | null;
}

/**
 * Warm HTTP/2 sessions (prior knowledge, RFC 9113 3.3) to one app address: as few as its stream limit allows, and one
 * more for each client whose content the app leaves unread, so that it has that session's window for itself.
 */
export class AppSessions implements ClientHome {
  readonly #endpoint: Endpoint;
  readonly #upstreams: Upstreams;
  readonly #budget: BufferBudget;
  readonly #sessions: ClientSession[] = [];
  /** In two queues, so that none of them is searched for the one that can be served. */
  readonly #waiting = new Set<Waiting>();
  readonly #uploads = new Set<Waiting>();
  #attempt: Attempt | null = null;

  constructor(endpoint: Endpoint, upstreams: Upstreams, budget: BufferBudget) {
    this.#endpoint = endpoint;
    this.#budget = budget;
    this.#upstreams = upstreams;
  }

  /** A session with room, or null. */
  take({ owner, room }: Pick<Waiting, 'owner' | 'room'>): ClientSession | null {
    let found: ClientSession | null = null;
    for (const session of this.#sessions) {
      if (room > 0 && session.sendRoom < appLimits.uploadRoom && session.isHeldUpBy(owner)) return null;
      if (found === null && session.hasRoom && session.sendRoom >= room) {
        found = session;
        if (room === 0) break;
      }
    }
    return found;
  }

  /** Waits for one. */
  wait(waiting: Waiting): void {
    this.#queueOf(waiting).add(waiting);
    this.#connect();
  }

  /** Whoever gives up what has not left yet costs the app nothing. */
  cancel(waiting: Waiting): void {
    this.#queueOf(waiting).delete(waiting);
  }

  #queueOf({ room }: Waiting): Set<Waiting> {
    return room === 0 ? this.#waiting : this.#uploads;
  }

  /** Whether another session would help anybody who waits. */
  get #wantsAnother(): boolean {
    // An app that takes no streams for now would take none on another session either.
    if (this.#sessions.some(({ maxStreams }) => maxStreams === 0)) return false;
    if (this.#waiting.size > 0) return true;
    if (this.#uploads.size === 0 || this.#sessions.length >= appLimits.sessionsForRoom) return false;
    const low = this.#sessions.filter(({ sendRoom }) => sendRoom < appLimits.uploadRoom);
    for (const { owner } of this.#uploads) if (!low.some((session) => session.isHeldUpBy(owner))) return true;
    return false;
  }

  #connect(): void {
    if (this.#attempt !== null || !this.#wantsAnother) return;
    const attempt: Attempt = { pending: null, session: null, timer: null };
    this.#attempt = attempt;
    const { connectTimeoutMs } = this.#upstreams;
    // An app that speaks no HTTP/2, or has stopped to work, never sends SETTINGS: they belong to connecting.
    const late = guarded('a wait for SETTINGS of the app', null, () => {
      const error = connectTimedOut(this.#endpoint);
      this.#settled(error);
      attempt.session?.destroy();
    });
    const onread = {
      buffer: readBuffer,
      callback: (length: number): boolean => {
        const { session } = attempt;
        try {
          session?.receive(readBuffer.subarray(0, length));
        } catch (error) {
          internalFault('a read of an HTTP/2 app', session, error);
        }
        return session !== null;
      },
    };
    const startedAt = performance.now();
    const connected = (error: Error | null, socket: Socket): void => {
      attempt.pending = null;
      if (error !== null) {
        this.#settled(error);
        return;
      }
      attempt.session = new ClientSession(socket, this, this.#budget);
      attempt.timer = setTimeout(late, Math.max(0, connectTimeoutMs - (performance.now() - startedAt)));
    };
    attempt.pending = this.#upstreams.connect(this.#endpoint, connected, onread);
  }

  ready(session: ClientSession): void {
    if (this.#attempt?.session === session) {
      this.#sessions.push(session);
      this.#settled(null);
    } else if (this.#waiting.size > 0 || this.#uploads.size > 0) {
      this.#serve();
      this.#connect();
    }
  }

  retired(session: ClientSession): void {
    const at = this.#sessions.indexOf(session);
    if (at !== -1) this.#sessions.splice(at, 1);
    // Whoever waited for its SETTINGS, or for it to take streams at all, has waited in vain.
    if (this.#attempt?.session === session || (this.#attempt === null && session.maxStreams === 0)) {
      this.#settled(new Error('the application closed the session'));
    } else {
      this.#connect();
    }
  }

  /** Whoever waits is served, as far as there is room. */
  #serve(): void {
    for (const waiting of this.#waiting) {
      const session = this.take(waiting);
      if (session === null) break;
      this.#waiting.delete(waiting);
      this.#give(waiting, session);
    }
    if (this.#uploads.size === 0 || this.take({ owner: this, room: 1 }) === null) return;
    for (const waiting of this.#uploads) {
      const session = this.take(waiting);
      if (session === null) continue;
      this.#uploads.delete(waiting);
      this.#give(waiting, session);
    }
  }

  #give(waiting: Waiting, session: ClientSession): void {
    try {
      waiting.ready(session);
    } catch (error) {
      internalFault('a request that has waited for a session', waiting, error);
    }
  }

  /** A connect has ended, or a session for whose room somebody waited. */
  #settled(error: Error | null): void {
    if (this.#attempt !== null) clearTimeout(this.#attempt.timer ?? undefined);
    this.#attempt = null;
    this.#serve();
    if (error === null) {
      this.#connect();
      return;
    }
    for (const queue of [this.#waiting, this.#uploads]) {
      const failed = [...queue];
      queue.clear();
      for (const waiting of failed) {
        try {
          waiting.failed(error);
        } catch (thrown) {
          internalFault('a request without a session', waiting, thrown);
        }
      }
    }
  }

  close(): void {
    this.#attempt?.pending?.cancel();
    for (const session of [...this.#sessions, this.#attempt?.session]) session?.destroy();
  }
}
