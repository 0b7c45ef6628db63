import { now } from '../../moment.ts';
import { Roster } from '../../roster.ts';
import type { Asker } from '../fairness/fair-queue.ts';
import { eachGuarded, guarded } from '../guard.ts';
import type { Admitted } from '../http/admitted.ts';
import { maySendAgain, type Repeatable } from '../http/retry.ts';
import { isQuiet } from '../socket-calls.ts';
import type { Endpoint } from '../upstream/endpoint.ts';
import type { PendingConnect, Upstreams } from '../upstream/upstreams.ts';
import { AppConnection } from './app-connection.ts';
import { maxIdleMs } from './limits.ts';

/** One for all: a read is handed on, or copied, before the next one can happen. */
const readBuffer = Buffer.allocUnsafeSlow(64 * 1024);
/** What was read last: most reads are as long as the one before, and to look at the same bytes needs no new view. */
let view = readBuffer.subarray(0, 0);

/**
 * Where there are many connections, all may have something to say in one turn, and each reads at least once before it can
 * be stopped: so much, until there proves to be more.
 */
const firstReads = readBuffer.subarray(0, 8 * 1024);

/**
 * Milliseconds after which the end of an idle connection may have come without our having read it: a turn of the event
 * loop is seldom longer. Under load they rest for less.
 */
const restMs = 1;

type Connected = (error: Error | null, connection: AppConnection | null) => void;

function isStale({ idleSince, idleMs }: AppConnection, nowMs: number): boolean {
  return nowMs - idleSince > Math.min(idleMs, maxIdleMs);
}

/** Idle keep-alive connections to one app address; the one used last is taken first, so the rest can age. */
export class AppPool {
  /** Connections of clients that come back to it with each request. */
  users = 0;
  readonly #endpoint: Endpoint;
  readonly #upstreams: Upstreams;
  readonly #idle: AppConnection[] = [];
  /** Those that wait for the rest of their request. */
  readonly #awaiting = new Roster<AppConnection>();
  #isClosed = false;

  constructor(endpoint: Endpoint, upstreams: Upstreams) {
    this.#endpoint = endpoint;
    this.#upstreams = upstreams;
  }

  /** For whom connections to the same address are not to be shared with others. */
  apart(): AppPool {
    return new AppPool(this.#endpoint, this.#upstreams);
  }

  /**
   * An idle connection, or null.
   *
   * @param request one that would be lost if the app has ended the connection and we have not seen it yet gets none here
   * that has rested for a while, unless the system says that there is nothing to be seen; see `connect`.
   */
  take(_admitted: Admitted, request: Repeatable): AppConnection | null {
    const nowMs = now();
    const connection = this.#youngest(nowMs);
    if (connection === null) return null;
    const hasRested = nowMs - connection.idleSince > restMs;
    if (hasRested && !maySendAgain(request, 'idle') && !isQuiet(connection.socket)) return null;
    this.#idle.pop();
    return connection;
  }

  /** The idle connection that was used last. */
  #youngest(nowMs: number): AppConnection | null {
    for (;;) {
      const connection = this.#idle.at(-1);
      if (connection === undefined) return null;
      const { socket } = connection;
      // Sweeps come late, and an app that closes as promised would take a request with it that must not be repeated.
      if (!socket.destroyed && socket.writable && !isStale(connection, nowMs)) return connection;
      this.#idle.pop();
      socket.destroy();
    }
  }

  /**
   * Calls back once with a connection: one that has rested, if its end is not among what is still to be read; or a new one.
   *
   * @param asker and `isExtra`: see `Upstreams.connect`.
   */
  connect(admitted: Admitted, asker: Asker, done: Connected, isExtra = false): PendingConnect {
    const rested = this.#youngest(now());
    if (rested === null) return this.#connectAnew(admitted, asker, done, isExtra);
    this.#idle.pop();
    let pending: PendingConnect | null = null;
    let cancelled = false;
    this.#prove(rested, (lives) => {
      if (cancelled) {
        if (lives) this.release(rested);
      } else if (lives) {
        done(null, rested);
      } else {
        pending = this.#connectAnew(admitted, asker, done, isExtra);
      }
    });
    return {
      cancel: () => {
        cancelled = true;
        pending?.cancel();
      },
    };
  }

  /** Tells whether the app has ended it, by all that has come until now. */
  #prove({ socket }: AppConnection, then: (lives: boolean) => void): void {
    const proven = guarded('an idle connection to the app', socket, () =>
      then(!socket.destroyed && socket.writable && !socket.readableEnded),
    );
    // What had come when this turn began is read in it; what has come since, before the second of these.
    setImmediate(() => setImmediate(proven));
  }

  #connectAnew(admitted: Admitted, asker: Asker, done: Connected, isExtra: boolean): PendingConnect {
    let connection: AppConnection | null = null;
    // A function is asked for the buffer after every read, which costs as much as a small response: only where there are many.
    const isCrowded = this.#upstreams.isCrowded;
    let into = isCrowded ? firstReads : readBuffer;
    const onread = {
      buffer: isCrowded ? (): Buffer => into : readBuffer,
      callback: (length: number): boolean => {
        const isFull = length === into.length;
        if (isCrowded) into = isFull || !this.#upstreams.isCrowded ? readBuffer : firstReads;
        if (view.length !== length) view = readBuffer.subarray(0, length);
        return connection?.receive(view, isFull) ?? false;
      },
    };
    return this.#upstreams.connect(
      admitted,
      this.#endpoint,
      asker,
      (error, socket) => {
        if (error === null) connection = new AppConnection(socket, this, this.#upstreams.lateHeads);
        done(error, connection);
      },
      onread,
      isExtra,
    );
  }

  /** Of the request for which it was taken, or opened, nothing is sent: it is another's. */
  putBack(connection: AppConnection): void {
    if (connection.uses === 0) {
      // From here on it rests, and the app may end it as any that has served others.
      connection.uses = 1;
      connection.idleMs = Number.POSITIVE_INFINITY;
      connection.idleSince = now();
    }
    this.release(connection);
  }

  release(connection: AppConnection): void {
    if (this.#isClosed) connection.socket.destroy();
    else this.#idle.push(connection);
  }

  awaitsRest(connection: AppConnection): void {
    this.#awaiting.add(connection);
  }

  /** An app that answers before the end of a request may close its connection behind that, without saying so. */
  releaseWhenProven(connection: AppConnection): void {
    this.#awaiting.delete(connection);
    this.#prove(connection, (lives) => {
      if (lives) this.release(connection);
    });
  }

  forget(connection: AppConnection): void {
    this.#awaiting.delete(connection);
    const at = this.#idle.lastIndexOf(connection);
    if (at !== -1) this.#idle.splice(at, 1);
  }

  /** Closes what has been idle too long, or awaits the rest of its request for as long: its client may never send it. */
  sweep(nowMs: number): void {
    const stale = [...this.#idle, ...this.#awaiting].filter((connection) => isStale(connection, nowMs));
    eachGuarded('idle connections to the app', stale, (connection) => connection.destroy());
  }

  /** Ends it where nobody comes back to it, and nothing rests here; what is under way is closed behind its response. */
  letGo(): boolean {
    if (this.users > 0 || this.#idle.length > 0 || this.#awaiting.size > 0) return false;
    this.#isClosed = true;
    return true;
  }

  close(): void {
    this.#isClosed = true;
    for (const { socket } of [...this.#idle, ...this.#awaiting]) socket.destroy();
  }
}
