import type { IpAddress } from '../ip.ts';
import { now } from '../moment.ts';
import { type BufferBudget, progressOf, type Slow, Stall, type StallLimit, takenOf } from './fairness/buffer-budget.ts';
import type { Spareable } from './fairness/live-connections.ts';
import type { Ending } from './guard.ts';
import type { HttpConnection, Occupant } from './http/request-pipeline.ts';
import type { Incoming } from './incoming.ts';
import type { Keeper } from './kept.ts';
import type { LimitName, Limits } from './limits.ts';
import { queuedBytes } from './node-handles.ts';
import { resetOrDestroy } from './resets.ts';
import type { PeerSession, TrustAnchors } from './tls/peer-session.ts';

export interface WatchServices {
  readonly budget: BufferBudget;
  readonly limits: Limits;
  readonly limitReached: (limit: LimitName, client: IpAddress) => void;
  /** The ones in force; null when this proxy has no identity. */
  readonly anchors: () => TrustAnchors | null;
}

/** What a connection carries. */
export interface Carrying extends Ending {
  /** Null where it is bytes without requests. */
  readonly http: HttpConnection | null;
  /** Of such bytes those that the app has not taken. */
  readonly heldForApp: number;
}

/** A tunnel on which nothing has moved for so many milliseconds can be done without when there is no room. */
const quietTunnelMs = 60_000;

/** Milliseconds for what is in flight when its client is trusted no more. */
const graceMs = 10_000;

/** A client that stands still for less than this may only be slow. */
const stalledMs = 1000;

/**
 * What a connection holds, and for how long it has done nothing. What is kept for it is told when it is kept; what waits in its
 * sockets is told where a peer is found to be slow, and looked at a few times a second besides, so that no byte and no request
 * that goes on at once pays for it.
 */
export class ConnectionWatch implements Slow, Keeper {
  readonly client: IpAddress;
  readonly #services: WatchServices;
  readonly #stream: Incoming;
  readonly #carrying: Carrying;
  readonly #hasIdentity: boolean;
  /** What the client's identity rests on; null where it has none, or once nobody vouches for it any more. */
  #session: PeerSession | null;
  /** It has been asked to come back with a certificate that has not expired. */
  #isAskedBack = false;
  #cutAt = Number.POSITIVE_INFINITY;
  #stall: Stall | null = null;
  /** Bytes that are kept, apart from what waits in sockets. */
  #kept = 0;
  #isClosed = false;
  /** Its client is waited for: to take what there is, or to send what it has announced. */
  #awaitsClient = false;
  #moved = -1;
  #movedAt: number;
  /** When it is to end for its age, on the clock of `performance.now()`. */
  #retiresAt = Number.POSITIVE_INFINITY;

  constructor(
    services: WatchServices,
    stream: Incoming,
    client: IpAddress,
    hasIdentity: boolean,
    session: PeerSession | null,
    carrying: Carrying,
  ) {
    this.#services = services;
    this.#stream = stream;
    this.client = client;
    this.#hasIdentity = hasIdentity;
    this.#session = session;
    this.#carrying = carrying;
    this.#movedAt = now();
    const { maxConnectionAgeMs } = services.limits;
    // Not all at once: connections that were opened together would come back together.
    if (maxConnectionAgeMs !== Number.POSITIVE_INFINITY) {
      this.#retiresAt = this.#movedAt + maxConnectionAgeMs * (1 - Math.random() / 10);
    }
  }

  /** Who serves its requests now; null for a tunnel from the start. */
  get #occupant(): Occupant | null {
    return this.#carrying.http?.occupant ?? null;
  }

  /** Ends both sides of it. */
  #end(): void {
    if (this.#carrying.http !== null) this.#stream.destroy();
    this.#carrying.destroy();
  }

  sweep(nowMs: number): void {
    const { socket: stream } = this.#stream;
    const occupant = this.#occupant;
    const moved = stream.bytesRead + stream.bytesWritten;
    if (moved !== this.#moved) {
      this.#moved = moved;
      this.#movedAt = nowMs;
    }
    this.look();
    const isTunnel = occupant === null || occupant.isTunnel;
    if (this.#session !== null) this.#checkSession(this.#session, isTunnel ? null : occupant, nowMs);
    if (nowMs > this.#cutAt) {
      this.#end();
      return;
    }
    const { limits } = this.#services;
    if (isTunnel) {
      if (nowMs - this.#movedAt > limits.tunnelIdleTimeoutMs) {
        this.#services.limitReached('tunnel_idle_timeout', this.client);
        this.#end();
      }
      return;
    }
    if (limits.requestTimeoutMs !== Number.POSITIVE_INFINITY) occupant.endOverdue(nowMs - limits.requestTimeoutMs);
    if (nowMs < this.#retiresAt) return;
    this.#retiresAt = Number.POSITIVE_INFINITY;
    this.#services.limitReached('max_connection_age', this.client);
    occupant.retire();
  }

  charge(more: number): void {
    this.#kept += more;
    this.look();
  }

  hasRoom(bytes: number): boolean {
    return this.#services.budget.hasRoom(bytes);
  }

  look(): void {
    if (this.#isClosed) return;
    const { socket: stream } = this.#stream;
    const occupant = this.#occupant;
    // TLS answers by itself, of which the stream knows nothing, a client that wants new keys again and again.
    const queued = Math.max(stream.writableLength, queuedBytes(stream));
    const read = stream.readableLength;
    const held = queued + read + this.#kept + (occupant === null ? this.#carrying.heldForApp : occupant.heldForApp);
    const isTunnel = occupant === null || occupant.isTunnel;
    const awaits = !isTunnel && occupant.awaitsContent;
    this.#awaitsClient = awaits || queued > 0;
    if (held > 0 || awaits) {
      this.#stall ??= new Stall(this.#services.budget, this);
      this.#stall.hold(held, !isTunnel && this.#awaitsClient);
    } else {
      this.#stall?.release();
    }
  }

  /**
   * A client whose trust anchor has gone is somebody whom nobody vouches for: its requests in flight, and its tunnel, have
   * a little time to end. One whose certificate has expired while its connection lived was who it said it was: it is asked
   * to come back with a new one, and a tunnel, which could not, goes on (as Linkerd's do). What is left of either is looked at
   * all the same: its anchor may go later.
   *
   * @param occupant null for a tunnel.
   */
  #checkSession(session: PeerSession, occupant: Occupant | null, nowMs: number): void {
    const standing = session.standing(nowMs, this.#services.anchors());
    if (standing === 'sound') return;
    if (standing === 'untrusted') {
      this.#cutAt = nowMs + graceMs;
      this.#session = null;
    } else {
      if (occupant === null || this.#isAskedBack) return;
      this.#isAskedBack = true;
    }
    this.#services.limitReached('client_certificate', this.client);
    occupant?.retire();
  }

  spareable(): Spareable {
    const occupant = this.#occupant;
    const nowMs = performance.now();
    if (occupant?.betweenRequests === true) {
      return { kind: this.#hasIdentity ? 'idle, of an identity' : 'idle', sinceMs: this.#movedAt };
    }
    // Most clients that have ended their side are gone.
    if (this.#stream.socket.readableEnded) return { kind: 'stalled', sinceMs: this.#movedAt };
    const stall = this.#stall;
    const isTunnel = occupant === null || occupant.isTunnel;
    // For an app that is slow its client can do nothing.
    const isWaitedFor =
      this.#awaitsClient && stall?.waits === true && !(isTunnel && this.#stream.socket.writableLength === 0);
    if (isWaitedFor && nowMs - stall.since > stalledMs) return { kind: 'stalled', sinceMs: stall.since };
    if (isTunnel && nowMs - this.#movedAt > quietTunnelMs) return { kind: 'stalled', sinceMs: this.#movedAt };
    return { kind: 'busy' };
  }

  progress(): number {
    // A peer that takes nothing of what is sent is not moving, even if it sends.
    const { socket: stream } = this.#stream;
    return stream.writableLength > 0 ? takenOf(stream) : progressOf(stream);
  }

  cut(limit: StallLimit): void {
    const occupant = this.#occupant;
    const { socket: stream } = this.#stream;
    if (limit === 'stall_timeout' && stream.writableLength === 0 && occupant?.awaitsContent === true) {
      occupant.giveUp();
      return;
    }
    resetOrDestroy(stream);
    this.#end();
  }

  destroy(): void {
    this.#end();
  }

  /** It is closed. */
  close(): void {
    this.#isClosed = true;
    this.#stall?.release();
  }
}
