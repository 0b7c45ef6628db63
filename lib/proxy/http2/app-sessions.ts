import type { Socket } from 'node:net';
import type { BufferBudget } from '../buffer-budget.ts';
import type { Endpoint } from '../endpoint.ts';
import { type Ending, guarded, internalFault } from '../guard.ts';
import { turn } from '../turn.ts';
import { connectTimedOut, type PendingConnect, type Upstreams } from '../upstream.ts';
import { type ClientHome, ClientSession } from './client-session.ts';
import { appLimits } from './limits.ts';

/** One for all: what is read is dealt with, or copied, before the next read can happen. */
const readBuffer = Buffer.allocUnsafeSlow(64 * 1024);

/** Each writes a line of the log. */
const failuresPerTurn = 64;

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
  readonly #waiting = new Set<Waiting>();
  /**
   * Those that want room, each client's in their order: what holds up the first of them holds up all, however many a
   * client has waiting.
   */
  readonly #uploads = new Map<object, Set<Waiting>>();
  #servesUploads = false;
  readonly #nextUploads = guarded('uploads that wait for room', null, () => {
    this.#servesUploads = false;
    this.#serveUploads();
    this.#connect();
  });
  #attempt: Attempt | null = null;
  /** Waited in vain, and are told so a few at a time. */
  readonly #failing = new Map<Waiting, Error>();
  readonly #failSome = guarded('requests without a session', null, () => this.#fail());

  constructor(endpoint: Endpoint, upstreams: Upstreams, budget: BufferBudget) {
    this.#endpoint = endpoint;
    this.#budget = budget;
    this.#upstreams = upstreams;
  }

  /** A session with room, or null. */
  take({ owner, room }: Pick<Waiting, 'owner' | 'room'>): ClientSession | null {
    return room > 0 && this.#uploads.has(owner) ? null : this.#find(owner, room);
  }

  #find(owner: object, room: number): ClientSession | null {
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
    if (waiting.room === 0) {
      this.#waiting.add(waiting);
    } else {
      const others = this.#uploads.get(waiting.owner);
      others?.add(waiting);
      if (others !== undefined) return;
      this.#uploads.set(waiting.owner, new Set([waiting]));
    }
    this.#connect();
  }

  /** Whoever gives up what has not left yet costs the app nothing. */
  cancel(waiting: Waiting): void {
    if (waiting.room === 0) this.#waiting.delete(waiting);
    else this.#removeUpload(waiting);
    this.#failing.delete(waiting);
  }

  #removeUpload(waiting: Waiting): void {
    const others = this.#uploads.get(waiting.owner);
    others?.delete(waiting);
    if (others?.size === 0) this.#uploads.delete(waiting.owner);
  }

  /** Whether another session would help anybody who waits. */
  get #wantsAnother(): boolean {
    // An app that takes no streams for now would take none on another session either.
    if (this.#sessions.some(({ maxStreams }) => maxStreams === 0)) return false;
    if (this.#waiting.size > 0) return true;
    if (this.#uploads.size === 0 || this.#sessions.length >= appLimits.sessionsForRoom) return false;
    const low = this.#sessions.filter(({ sendRoom }) => sendRoom < appLimits.uploadRoom);
    for (const owner of this.#uploads.keys()) if (!low.some((session) => session.isHeldUpBy(owner))) return true;
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
    attempt.pending = this.#upstreams.connect(this.#endpoint, 'sessions', connected, onread);
  }

  ready(session: ClientSession): void {
    if (this.#attempt?.session === session) {
      this.#sessions.push(session);
      this.#settled(null);
      return;
    }
    this.#serveWaiting();
    if (this.#waiting.size > 0) this.#connect();
    // Sessions say so with every stream that ends and every bit of room: once a turn is often enough.
    if (this.#uploads.size === 0 || this.#servesUploads) return;
    this.#servesUploads = true;
    setImmediate(this.#nextUploads);
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
  #serveWaiting(): void {
    for (const waiting of this.#waiting) {
      const session = this.#find(waiting.owner, 0);
      if (session === null) break;
      this.#waiting.delete(waiting);
      this.#give(waiting, session);
    }
  }

  /** One of each client's, again and again; a client for which there is no room is not looked at again. */
  #serveUploads(): void {
    const clients = new Set(this.#uploads.keys());
    while (clients.size > 0) {
      for (const owner of clients) {
        const [first] = this.#uploads.get(owner) ?? [];
        const session = first === undefined ? null : this.#find(owner, first.room);
        if (first === undefined || session === null) {
          clients.delete(owner);
          continue;
        }
        this.#removeUpload(first);
        this.#give(first, session);
      }
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
    this.#serveWaiting();
    this.#serveUploads();
    if (error === null) {
      this.#connect();
      return;
    }
    const isFailing = this.#failing.size > 0;
    for (const queue of [this.#waiting, ...this.#uploads.values()]) {
      for (const waiting of queue) this.#failing.set(waiting, error);
    }
    this.#waiting.clear();
    this.#uploads.clear();
    if (!isFailing) this.#fail();
  }

  /** As many as one turn of the event loop can bear. */
  #fail(): void {
    let left = failuresPerTurn;
    for (const [waiting, error] of this.#failing) {
      if (left-- === 0) {
        turn.later(this.#failSome);
        return;
      }
      this.#failing.delete(waiting);
      try {
        waiting.failed(error);
      } catch (thrown) {
        internalFault('a request without a session', waiting, thrown);
      }
    }
  }

  close(): void {
    this.#attempt?.pending?.cancel();
    for (const session of [...this.#sessions, this.#attempt?.session]) session?.destroy();
  }
}
