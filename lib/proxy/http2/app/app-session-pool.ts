import type { Socket } from 'node:net';
import { CodedError } from '../../../errors/coded-error.ts';
import type { BufferBudget } from '../../fairness/buffer-budget.ts';
import { NextTurn } from '../../fairness/next-turn.ts';
import { guarded, internalFault } from '../../guard.ts';
import type { AdmittedNow } from '../../http/admitted.ts';
import type { Endpoint } from '../../upstream/endpoint.ts';
import { connectTimedOut, type Upstreams } from '../../upstream/upstreams.ts';
import { AppSession, type AppSessionHome } from './app-session.ts';
import type { AppStream } from './app-stream.ts';
import { appLimits } from './limits.ts';
import { type Audience, SessionAttempt } from './session-attempt.ts';
import { type Waiting, WaitingRequests } from './waiting-requests.ts';

/** Requests that have waited, and that policy refuses by now: each is decided, and writes a line of the log. */
const refusalsPerTurn = 64;

function isLow({ sendRoom }: AppSession): boolean {
  return sendRoom < appLimits.uploadRoom;
}

/**
 * The app has said that it takes no header list of this size. It may end the session for one that comes all the same
 * (Netty does), and with it the requests of others.
 */
function headTooLarge(): Error {
  return new CodedError('ERR_SALLYPORT_HEAD_TOO_LARGE', 'the request head is larger than the application takes');
}

function begin(waiting: Waiting, admitted: AdmittedNow, session: AppSession): AppStream | null {
  const { bytes, listBytes } = waiting.requestHead;
  if (listBytes <= session.maxListBytes) {
    return session.request(admitted, bytes, waiting.method === 'HEAD', waiting.isComplete, waiting);
  }
  waiting.lost({ kind: 'connection', by: 'other', error: headTooLarge() });
  return null;
}

/**
 * Warm HTTP/2 sessions (prior knowledge, RFC 9113 3.3) to one app address: as few as its stream limit allows, and one
 * more for each client that finds their windows full of what the app leaves unread of others. So a client that waits for room
 * waits for the app to read content of its own, and no client has more of these sessions than connections.
 */
export class AppSessionPool implements AppSessionHome {
  readonly endpoint: Endpoint;
  readonly upstreams: Upstreams;
  readonly #budget: BufferBudget;
  /** Those for everybody, and each client's own. */
  readonly #sessions: AppSession[] = [];
  readonly #own = new Map<object, AppSession>();
  /** Those that take no more streams, and carry the ones that they have. */
  readonly #retired = new Set<AppSession>();
  readonly #waiting = new WaitingRequests();
  readonly #nextUploads = new NextTurn(
    guarded('uploads that wait for room', null, () => {
      this.#serveUploads();
      this.#connect();
    }),
  );
  /** In this turn. */
  #refusals = 0;
  readonly #nextRefusals = new NextTurn(
    guarded('requests that policy refuses by now', null, () => {
      this.#refusals = 0;
      this.#serveWaiting();
      this.#serveUploads();
      this.#connect();
    }),
  );
  #attempt: SessionAttempt | null = null;
  /** Sessions whose connection is open, those that take no more streams included: a request that one loses comes back. */
  #open = 0;

  constructor(endpoint: Endpoint, upstreams: Upstreams, budget: BufferBudget) {
    this.endpoint = endpoint;
    this.#budget = budget;
    this.upstreams = upstreams;
  }

  /** Sends the request's head on a session with room; null where it must wait for one, or cannot be sent. */
  open(waiting: Waiting, admitted: AdmittedNow): AppStream | null {
    const { owner, room } = waiting;
    const session = room > 0 && this.#waiting.wantRoom(owner) ? null : this.#find(owner, room);
    if (session !== null) return begin(waiting, admitted, session);
    if (this.#waiting.add(waiting)) this.#connect();
    return null;
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

  /** A request that is given up before it has left costs the app nothing. */
  cancel(waiting: Waiting): void {
    this.#waiting.remove(waiting);
  }

  /** There is nothing of it, and nobody who would come back to it. */
  get isUnused(): boolean {
    return this.#open === 0 && this.#attempt === null && this.#waiting.isEmpty;
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
    if (this.#waiting.forStreams.size === 0 && !this.#waiting.wantRoom()) return null;
    if (this.#isShut) return null;
    for (const { admitted } of this.#waiting.forStreams) return { kind: 'everybody', admitted };
    const low = this.#sessions.filter(isLow);
    const isFull = !this.#sessions.some(({ hasRoom }) => hasRoom);
    for (const owner of this.#waiting.uploaders) {
      const first = this.#waiting.firstUpload(owner);
      if (first === null || low.some((session) => session.isHeldUpBy(owner))) continue;
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
    const isExtra = audience.kind === 'everybody' && this.upstreams.isFull && !this.#waiting.isAnyAlone;
    this.#attempt = new SessionAttempt(this, audience, isExtra);
    this.#attempt.start();
  }

  sessionOf(socket: Socket): AppSession {
    const session = new AppSession(socket, this, this.#budget);
    this.#open++;
    // Behind the session's own listener, by which its requests have come back by then.
    socket.once('close', () => this.#open--);
    return session;
  }

  attemptFailed(error: Error): void {
    this.#settled(error);
  }

  /** Gives a client a session that another one has no use for; false when there is none. */
  #inherit(owner: object): boolean {
    const first = this.#waiting.firstUpload(owner);
    for (const [before, session] of this.#own) {
      if (first === null || !session.isUnused || !session.hasRoom || isLow(session)) continue;
      this.#own.delete(before);
      this.#assign(owner, session);
      this.#waiting.remove(first);
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
    if (this.#waiting.forStreams.size > 0) this.#connect();
    this.#serveUploadsSoon();
  }

  /** Sessions ask for it with every stream that ends and every bit of room: once a turn is often enough. */
  #serveUploadsSoon(): void {
    if (this.#waiting.wantRoom()) this.#nextUploads.schedule();
  }

  retired(session: AppSession): void {
    const at = this.#sessions.indexOf(session);
    if (at !== -1) this.#sessions.splice(at, 1);
    for (const [owner, own] of this.#own) if (own === session) this.#own.delete(owner);
    if (!session.isOver) this.#retired.add(session);
    // Requests that waited for its SETTINGS, or for it to take streams at all, have waited in vain: unless there are others.
    const wasAll = this.#attempt === null && session.maxStreams === 0 && this.#sessions.length === 0;
    if (this.#attempt?.session === session || wasAll) {
      this.#settled(new Error('the application closed the session', { cause: session.fault ?? undefined }));
    } else {
      this.#connect();
    }
  }

  /** Requests that wait are served, as far as there is room. */
  #serveWaiting(): void {
    for (const waiting of this.#waiting.forStreams) {
      const session = this.#refusals < refusalsPerTurn ? this.#find(waiting.owner, 0) : null;
      if (session === null) break;
      this.#waiting.remove(waiting);
      this.#give(waiting, session);
    }
  }

  /** One of each client's, again and again; a client for which there is no room is not looked at again. */
  #serveUploads(): void {
    const clients = new Set(this.#waiting.uploaders);
    while (clients.size > 0) {
      for (const owner of clients) {
        const first = this.#refusals < refusalsPerTurn ? this.#waiting.firstUpload(owner) : null;
        const session = first === null ? null : this.#find(owner, first.room);
        if (first === null || session === null) {
          clients.delete(owner);
          continue;
        }
        this.#waiting.remove(first);
        this.#give(first, session);
      }
    }
  }

  #give(waiting: Waiting, session: AppSession): void {
    try {
      const admitted = waiting.admitLate();
      if (admitted === null) {
        if (this.#refusals++ === 0) this.#nextRefusals.schedule();
        return;
      }
      const stream = begin(waiting, admitted, session);
      if (stream !== null) waiting.begun(stream);
    } catch (error) {
      internalFault('a request that has waited for a session', waiting, error);
    }
  }

  /** A connect has ended, or a session for whose room somebody waited. */
  #settled(error: Error | null): void {
    const attempt = this.#attempt;
    attempt?.settled();
    this.#attempt = null;
    this.#serveWaiting();
    this.#serveUploads();
    if (error !== null) this.#waiting.giveUp((waiting) => attempt?.isExtra !== true || !waiting.isAlone, error);
    this.#connect();
  }

  /**
   * Deadlines: of requests for which the app has taken no stream, of content that waits on a session that is shared, and of
   * sessions that nobody uses.
   */
  sweep(now: number): void {
    if (this.#isShut) {
      const { connectTimeoutMs } = this.upstreams;
      this.#waiting.giveUp(({ waitsSince }) => now - waitsSince >= connectTimeoutMs, connectTimedOut(this.endpoint));
    }
    for (const session of this.#retired) {
      if (session.isOver) this.#retired.delete(session);
      else session.lookForStalls();
    }
    for (const session of this.#all) {
      session.lookForStalls();
      const isLast = session === this.#sessions[0] && !isLow(session);
      if (session.idleMs(now) > appLimits.spareMs && !isLast) session.retire();
    }
  }

  close(): void {
    this.#attempt?.cancel();
    for (const session of [...this.#all, ...this.#retired, this.#attempt?.session]) session?.destroy();
  }
}
