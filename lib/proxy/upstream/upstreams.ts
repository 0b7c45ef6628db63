import net from 'node:net';
import { CodedError, isWantOfDescriptors } from '../../errors/coded-error.ts';
import { hostPort, isLocalhost, leadsToLoopback } from '../../ip.ts';
import { now } from '../../moment.ts';
import { Deadlines, type Expirable } from '../fairness/deadlines.ts';
import type { Asker } from '../fairness/fair-queue.ts';
import type { Line } from '../fairness/line.ts';
import { starts } from '../fairness/starts.ts';
import { guarded, internalFault } from '../guard.ts';
import type { Limits } from '../limits.ts';
import { readDirectly } from '../node-streams.ts';
import type { Recorder } from '../recorder.ts';
import type { Endpoint } from './endpoint.ts';
import type { Permission } from './permission.ts';

export interface UpstreamOptions {
  /** Milliseconds until a connect counts as failed (504). */
  readonly connectTimeoutMs: number;
  readonly limits: Pick<Limits, 'maxPendingConnects' | 'maxConnections' | 'headerTimeoutMs'>;
  readonly recorder: Pick<Recorder, 'openDestination' | 'limitReached'>;
  /** True for addresses on which this very proxy listens; of a name that is known once it is `connected`. */
  readonly isOwn: (endpoint: Endpoint, connected?: net.Socket) => boolean;
}

/** A connect that took too long, whatever it was waiting for (504). */
export function connectTimedOut({ host, port }: Endpoint): Error {
  return new CodedError('ERR_SALLYPORT_CONNECT_TIMEOUT', `connecting to ${hostPort(host, port)} timed out`);
}

function leadsHere(): Error {
  return new CodedError('ERR_SALLYPORT_LOOP', 'the application address is the proxy itself');
}

export interface PendingConnect {
  cancel(): void;
}

/** Reads into one buffer instead of a new one each time (see `net.Socket`); the buffer is only lent to `callback`. */
export interface OnRead {
  /** A function is asked again after every read. */
  readonly buffer: Buffer | (() => Buffer);
  /** False stops reading. */
  callback(length: number): boolean;
}

/**
 * `localhost` needs no resolver (RFC 6761 section 6.3): the app is on one of the two loopback addresses, or on both. The
 * second is tried when the first refuses. A container's /etc/hosts may know only one of them.
 */
const eitherLoopback: net.LookupFunction = (_host, _options, found) =>
  found(null, [
    { address: '::1', family: 6 },
    { address: '127.0.0.1', family: 4 },
  ]);

export type Done = (error: Error | null, socket: net.Socket) => void;

/** Connections to the app that may all read 64 KB in one turn. */
const crowd = 64;

/** Connections to the app, all counted as `peer="dst"`. */
export class Upstreams {
  readonly #options: UpstreamOptions;
  /** Connects under way, and connections. */
  #pending = 0;
  #open = 0;

  readonly #home: ConnectHome;
  /** For heads of responses that have begun. */
  readonly lateHeads: { readonly seconds: number; readonly deadlines: Deadlines };

  constructor(options: UpstreamOptions) {
    this.#options = options;
    const { recorder, isOwn, limits } = options;
    const { headerTimeoutMs } = limits;
    this.lateHeads = { seconds: headerTimeoutMs / 1000, deadlines: new Deadlines(headerTimeoutMs) };
    this.#home = {
      isOwn,
      deadlines: new Deadlines(options.connectTimeoutMs),
      settled: () => this.#pending--,
      opened: (socket) => this.#opened(socket),
      failed: (error) => {
        if (isWantOfDescriptors(error)) recorder.limitReached('descriptors', null);
      },
    };
  }

  /** There are so many connections that one read of each is more than one turn of the event loop can bear. */
  get isCrowded(): boolean {
    return this.#open > crowd;
  }

  get connectTimeoutMs(): number {
    return this.#options.connectTimeoutMs;
  }

  /** There are as many connections as clients may have: there will be no extra one, see `connect`. */
  get isFull(): boolean {
    return this.#pending + this.#open >= this.#options.limits.maxConnections;
  }

  /**
   * Calls back once: with a connected socket that allows half-open, or with the error. Never after `cancel`.
   * What `done` throws ends the socket; it should guard what it does to the client by itself. Of many that are asked for
   * at once a few begin in each turn.
   *
   * @param _permission what it is dialled for; of a connection that several requests share, the one that asked first.
   * @param asker for whom: each of them has its turn.
   * @param isExtra the client's connection has one to the app already. Of these there are no more than there may be
   * clients, so that the many requests of one HTTP/2 connection leave the others their descriptors.
   */
  connect(
    _permission: Permission,
    endpoint: Endpoint,
    asker: Asker,
    done: Done,
    onread?: OnRead,
    isExtra = false,
  ): PendingConnect {
    const { limits, recorder } = this.#options;
    this.#pending++;
    const connecting = new Connecting(this.#home, endpoint, done, onread);
    const overshoots = isExtra && this.#pending + this.#open > limits.maxConnections;
    if (overshoots || this.#pending > limits.maxPendingConnects) {
      recorder.limitReached(overshoots ? 'max_connections' : 'max_pending_connects', null);
      const error = new CodedError('ERR_SALLYPORT_CONNECTS', 'too many connects to the application under way');
      setImmediate(connecting.fail, error);
    } else if (this.#options.isOwn(endpoint)) {
      setImmediate(connecting.fail, leadsHere());
    } else {
      starts.begin(asker, connecting.begin);
    }
    return connecting;
  }

  #opened(socket: net.Socket): void {
    this.#open++;
    let errno = '';
    socket.on('error', (error: NodeJS.ErrnoException) => {
      errno = error.code ?? '';
    });
    const transport = this.#options.recorder.openDestination(socket);
    const closed = (): void => {
      this.#open--;
      transport.closed(errno);
    };
    socket.once('close', guarded('a connection to the app, closed', null, closed));
  }
}

/** What all connects share, and whom each tells how it has ended. */
interface ConnectHome {
  readonly isOwn: UpstreamOptions['isOwn'];
  /** They may all take equally long. */
  readonly deadlines: Deadlines;
  /** One has been connected, has failed or was cancelled. */
  settled(): void;
  opened(socket: net.Socket): void;
  failed(error: Error): void;
}

/** A connect, from being asked for until it has settled, once: connected, failed or cancelled. */
class Connecting implements PendingConnect, Expirable {
  line: Line<Expirable> | null = null;
  earlier: Expirable | null = null;
  later: Expirable | null = null;
  since = 0;
  readonly #home: ConnectHome;
  readonly #endpoint: Endpoint;
  readonly #done: Done;
  readonly #socket: net.Socket;
  readonly #onread: OnRead | undefined;
  #settled = false;

  constructor(home: ConnectHome, endpoint: Endpoint, done: Done, onread: OnRead | undefined) {
    this.#home = home;
    this.#endpoint = endpoint;
    this.#done = done;
    this.#onread = onread;
    this.#socket = new net.Socket(onread === undefined ? { allowHalfOpen: true } : { allowHalfOpen: true, onread });
    this.#socket.once('error', this.fail);
  }

  readonly begin = (): void => {
    if (this.#settled) return;
    try {
      this.since = now();
      this.#home.deadlines.add(this);
      const { host, port } = this.#endpoint;
      this.#socket.setNoDelay(true);
      const either = isLocalhost(host) ? { autoSelectFamily: true, lookup: eitherLoopback } : null;
      this.#socket.connect(either === null ? { host, port } : { host, port, ...either }, this.#connected);
    } catch (error) {
      internalFault('a connect to the app', this, error);
    }
  };

  readonly #connected = (): void => {
    if (this.#settled) return;
    const socket = this.#socket;
    try {
      if (this.#home.isOwn(this.#endpoint, socket)) {
        this.fail(leadsHere());
        return;
      }
      // Where it cannot be told, it has been reset already.
      if (this.#endpoint.notLoopback === true && leadsToLoopback(socket.remoteAddress ?? 'localhost')) {
        this.fail(new CodedError('ERR_SALLYPORT_LOOPBACK', 'nothing declares this port of loopback'));
        return;
      }
      this.#settle();
      socket.removeListener('error', this.fail);
      if (this.#onread !== undefined) readDirectly(socket, this.#onread);
      this.#home.opened(socket);
      this.#done(null, socket);
    } catch (error) {
      internalFault('a connection to the app', socket, error);
    }
  };

  readonly fail = (error: Error): void => {
    if (!this.#settle()) return;
    const socket = this.#socket;
    socket.destroy();
    try {
      this.#home.failed(error);
      this.#done(error, socket);
    } catch (thrown) {
      internalFault('a failed connect', socket, thrown);
    }
  };

  expire(): void {
    this.fail(connectTimedOut(this.#endpoint));
  }

  /** After a fault of ours. */
  destroy(): void {
    this.fail(new CodedError('ERR_SALLYPORT_UNEXPECTED', 'the connect could not begin'));
  }

  cancel(): void {
    if (this.#settle()) this.#socket.destroy();
  }

  /** Whether it had not settled before. */
  #settle(): boolean {
    if (this.#settled) return false;
    this.#settled = true;
    this.#home.deadlines.delete(this);
    this.#home.settled();
    return true;
  }
}
