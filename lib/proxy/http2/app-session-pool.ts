import type { Socket } from 'node:net';
import type { BufferBudget } from '../fairness/buffer-budget.ts';
import { turn } from '../fairness/turn.ts';
import { type Ending, guarded, internalFault } from '../guard.ts';
import type { Admitted } from '../http/admitted.ts';
import type { Endpoint } from '../upstream/endpoint.ts';
import { connectTimedOut, type PendingConnect, type Upstreams } from '../upstream/upstreams.ts';
import { AppSession, type AppSessionHome } from './app-session.ts';
import { appLimits } from './limits.ts';

/** One for all: what is read is dealt with, or copied, before the next read can happen. */
const readBuffer = Buffer.allocUnsafeSlow(64 * 1024);

/** Each writes a line of the log. */
const failuresPerTurn = 64;

/** A request that is waiting for a session. */
export interface Waiting extends Ending {
  /** What it may dial by. */
  readonly admitted: Admitted;
  /** The client's connection: what one client leaves unread must not be another's wait. */
  readonly owner: object;
  /** Of that connection's requests, the only one in flight. */
  readonly isAlone: boolean;
  /** Bytes of content that want room on the session at once; 0 for a request that has none. */
  readonly room: number;
  /** When it began to wait, on the clock of `performance.now()`. Set by `wait`. */
  waitsSince: number;
  readonly ready: (session: AppSession) => void;
  readonly failed: (error: Error) => void;
}

/**
 * Whom a session is for: whoever comes, or one client, whose content then has the window for itself. And the first of
 * those who want it, by whose permission it is dialled.
 */
type Audience = ({ readonly kind: 'everybody' } | { readonly kind: 'client'; readonly owner: object }) & {
  readonly admitted: Admitted;
};

/** A connect, and the wait for the app's SETTINGS behind it. */
interface Attempt {
  readonly audience: Audience;
  /** See `Upstreams.connect`. */
  readonly isExtra: boolean;
  pending: PendingConnect | null;
  session: AppSession | null;
  timer: NodeJS.Timeout | null;
}

function isLow({ sendRoom }: AppSession): boolean {
  return sendRoom < appLimits.uploadRoom;
}

/**
 * Warm HTTP/2 sessions (prior knowledge, RFC 9113 3.3) to one app address: as few as its stream limit allows, and one
 * more for each client that finds their windows full of what the app leaves unread of others. So whoever waits for room
 * waits for the app to read content of its own, and no client has more of these sessions than connections.
 */
export class AppSessionPool implements AppSessionHome {
  readonly #endpoint: Endpoint;
  readonly #upstreams: Upstreams;
  readonly #budget: BufferBudget;
  /** Those for everybody, and each client's own. */
  readonly #sessions: AppSession[] = [];
  readonly #own = new Map<object, AppSession>();
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
  take({ owner, room }: Pick<Waiting, 'admitted' | 'owner' | 'room'>): AppSession | null {
    return room > 0 && this.#uploads.has(owner) ? null : this.#find(owner, room);
  }

  #find(owner: object, room: number): AppSession | null {
    let found: AppSession | null = null;
    for (const session of this.#sessions) {
      if (room > 0 && isLow(session) && session.isHeldUpBy(owner)) return null;
      if (found === null && session.hasRoom && session.sendRoom >= room) {
        found = session;
        if (room === 0) break;
      }
    }
    if (found !== null || this.#own.size === 0) return found;
    const own = this.#own.get(owner);
    return own?.hasRoom === true && own.sendRoom >= room ? own : null;
  }

  /** Waits for one. */
  wait(waiting: Waiting): void {
    waiting.waitsSince = performance.now();
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

  /** Everyone who waits, those for a stream first. */
  get #queues(): readonly ReadonlySet<Waiting>[] {
    return [this.#waiting, ...this.#uploads.values()];
  }

  get #all(): readonly AppSession[] {
    return [...this.#sessions, ...this.#own.values()];
  }

  /** The app takes no streams for now; it would take none on another session either. */
  get #isShut(): boolean {
    if (this.#sessions.some(({ maxStreams }) => maxStreams === 0)) return true;
    for (const { maxStreams } of this.#own.values()) if (maxStreams === 0) return true;
    return false;
  }

  /** Whom another session would help of those who wait; null: nobody. */
  get #wanted(): Audience | null {
    if (this.#waiting.size === 0 && this.#uploads.size === 0) return null;
    if (this.#isShut) return null;
    for (const { admitted } of this.#waiting) return { kind: 'everybody', admitted };
    const low = this.#sessions.filter(isLow);
    const isFull = !this.#sessions.some(({ hasRoom }) => hasRoom);
    for (const [owner, [first]] of this.#uploads) {
      if (first === undefined || low.some((session) => session.isHeldUpBy(owner))) continue;
      const { admitted } = first;
      if (isFull) return { kind: 'everybody', admitted };
      const own = this.#own.get(owner);
      // Room that nobody holds is lost: some apps do not give back what came on streams that were reset.
      if (own === undefined || (isLow(own) && !own.isHeldUpBy(owner))) return { kind: 'client', owner, admitted };
    }
    return null;
  }

  #connect(): void {
    if (this.#attempt !== null) return;
    let audience = this.#wanted;
    while (audience?.kind === 'client' && this.#inherit(audience.owner)) audience = this.#wanted;
    if (audience === null || this.#attempt !== null) return;
    const isExtra =
      audience.kind === 'everybody' &&
      this.#upstreams.isFull &&
      !this.#queues.some((queue) => [...queue].some(({ isAlone }) => isAlone));
    const attempt: Attempt = { audience, isExtra, pending: null, session: null, timer: null };
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
      attempt.session = new AppSession(socket, this, this.#budget);
      attempt.timer = setTimeout(late, Math.max(0, connectTimeoutMs - (performance.now() - startedAt)));
    };
    attempt.pending = this.#upstreams.connect(
      audience.admitted,
      this.#endpoint,
      'sessions',
      connected,
      onread,
      isExtra,
    );
  }

  /** Gives a client a session that another one has no use for; false when there is none. */
  #inherit(owner: object): boolean {
    const [first] = this.#uploads.get(owner) ?? [];
    for (const [before, session] of this.#own) {
      if (first === undefined || !session.isUnused || !session.hasRoom || isLow(session)) continue;
      this.#own.delete(before);
      this.#assign(owner, session);
      this.#removeUpload(first);
      this.#give(first, session);
      this.#serveUploadsSoon();
      return true;
    }
    return false;
  }

  #assign(owner: object, session: AppSession): void {
    const before = this.#own.get(owner);
    this.#own.set(owner, session);
    before?.retire();
  }

  ready(session: AppSession): void {
    const attempt = this.#attempt;
    if (attempt !== null && attempt.session === session) {
      if (attempt.audience.kind === 'everybody') this.#sessions.push(session);
      else this.#assign(attempt.audience.owner, session);
      this.#settled(null);
      return;
    }
    this.#serveWaiting();
    if (this.#waiting.size > 0) this.#connect();
    this.#serveUploadsSoon();
  }

  /** Sessions ask for it with every stream that ends and every bit of room: once a turn is often enough. */
  #serveUploadsSoon(): void {
    if (this.#uploads.size === 0 || this.#servesUploads) return;
    this.#servesUploads = true;
    setImmediate(this.#nextUploads);
  }

  retired(session: AppSession): void {
    const at = this.#sessions.indexOf(session);
    if (at !== -1) this.#sessions.splice(at, 1);
    for (const [owner, own] of this.#own) if (own === session) this.#own.delete(owner);
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

  #give(waiting: Waiting, session: AppSession): void {
    try {
      waiting.ready(session);
    } catch (error) {
      internalFault('a request that has waited for a session', waiting, error);
    }
  }

  /** A connect has ended, or a session for whose room somebody waited. */
  #settled(error: Error | null): void {
    const attempt = this.#attempt;
    clearTimeout(attempt?.timer ?? undefined);
    this.#attempt = null;
    this.#serveWaiting();
    this.#serveUploads();
    if (error !== null) this.#giveUp((waiting) => attempt?.isExtra !== true || !waiting.isAlone, error);
    this.#connect();
  }

  #giveUp(isMeant: (waiting: Waiting) => boolean, error: Error): void {
    const isFailing = this.#failing.size > 0;
    for (const waiting of this.#queues.flatMap((queue) => [...queue]).filter(isMeant)) {
      this.cancel(waiting);
      this.#failing.set(waiting, error);
    }
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

  /** Deadlines: of requests for which the app has taken no stream, and of sessions that nobody uses. */
  sweep(now: number): void {
    if (this.#isShut) {
      const { connectTimeoutMs } = this.#upstreams;
      this.#giveUp(({ waitsSince }) => now - waitsSince >= connectTimeoutMs, connectTimedOut(this.#endpoint));
    }
    for (const session of this.#all) {
      const isLast = session === this.#sessions[0] && !isLow(session);
      if (session.idleMs(now) > appLimits.spareMs && !isLast) session.retire();
    }
  }

  close(): void {
    this.#attempt?.pending?.cancel();
    for (const session of [...this.#all, this.#attempt?.session]) session?.destroy();
  }
}
