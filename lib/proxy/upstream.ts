import http from 'node:http';
import net from 'node:net';
import { CodedError } from '../errors/coded-error.ts';
import { hostPort } from '../ip.ts';
import { ByEndpoint, type Endpoint } from './endpoint.ts';
import type { Asker } from './fair-queue.ts';
import { guarded, internalFault } from './guard.ts';
import { LibraryPool } from './http1/library-pool.ts';
import { withoutContinue } from './http1/unasked-continue.ts';
import type { Limits } from './limits.ts';
import type { Recorder } from './recorder.ts';
import { errorCode } from './refuse.ts';
import { starts } from './starts.ts';

export interface UpstreamOptions {
  /** Milliseconds until a connect counts as failed (504). */
  readonly connectTimeoutMs: number;
  readonly limits: Pick<Limits, 'maxPendingConnects' | 'maxConnections'>;
  readonly recorder: Pick<Recorder, 'openDestination' | 'limitReached'>;
  /** True for addresses on which this very proxy listens. */
  readonly isOwn: (endpoint: Endpoint) => boolean;
}

/** A connect that took too long, whatever it was waiting for (504). */
export function connectTimedOut({ host, port }: Endpoint): Error {
  return new CodedError('ERR_SALLYPORT_CONNECT_TIMEOUT', `connecting to ${hostPort(host, port)} timed out`);
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

/** The process, or the machine, has no file descriptor left. */
export function isWantOfDescriptors(error: unknown): boolean {
  const code = errorCode(error);
  return code === 'EMFILE' || code === 'ENFILE';
}

type Done = (error: Error | null, socket: net.Socket) => void;

class OneOffAgent extends http.Agent {
  readonly #connect: (done: Done) => void;
  constructor(connect: (done: Done) => void) {
    super({ keepAlive: false });
    this.#connect = connect;
  }
  override createConnection(
    _options: http.ClientRequestArgs,
    callback?: (error: Error | null, socket: net.Socket) => void,
  ): undefined {
    this.#connect((error, socket) => callback?.(error, socket));
  }
}

/** Idle keep-alive sockets towards the app live this long (Linkerd's figure), below the 5 s after which many apps close. */
const idleSocketMs = 3000;

/** Connections to the app that may all read 64 KB in one turn. */
const crowd = 64;

/** Connections to the app, all counted as `peer="dst"`, and undici's pools of them. */
export class Upstreams {
  readonly #options: UpstreamOptions;
  readonly #http1 = new ByEndpoint((endpoint) => this.#pool(endpoint));

  /** Connects under way, and connections. */
  #pending = 0;
  #open = 0;

  constructor(options: UpstreamOptions) {
    this.#options = options;
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
   * @param asker for whom: each of them has its turn.
   * @param isExtra the client's connection has one to the app already. Of these there are no more than there may be
   * clients, so that the many requests of one HTTP/2 connection leave the others their descriptors.
   */
  connect(endpoint: Endpoint, asker: Asker, done: Done, onread?: OnRead, isExtra = false): PendingConnect {
    const socket = new net.Socket({ allowHalfOpen: true, ...(onread === undefined ? {} : { onread }) });
    const { limits, recorder } = this.#options;
    let settled = false;
    let timer: NodeJS.Timeout | undefined;
    const settle = (): void => {
      settled = true;
      clearTimeout(timer);
      this.#pending--;
    };
    const fail = (error: Error): void => {
      if (settled) return;
      settle();
      socket.destroy();
      if (isWantOfDescriptors(error)) recorder.limitReached('descriptors', null);
      try {
        done(error, socket);
      } catch (thrown) {
        internalFault('a failed connect', socket, thrown);
      }
    };
    const cancel = (): void => {
      if (settled) return;
      settle();
      socket.destroy();
    };
    this.#pending++;
    const overshoots = isExtra && this.#pending + this.#open > limits.maxConnections;
    if (overshoots || this.#pending > limits.maxPendingConnects) {
      recorder.limitReached(overshoots ? 'max_connections' : 'max_pending_connects', null);
      const error = new CodedError('ERR_SALLYPORT_CONNECTS', 'too many connects to the application under way');
      setImmediate(() => fail(error));
      return { cancel };
    }
    if (this.#options.isOwn(endpoint)) {
      setImmediate(() => fail(new CodedError('ERR_SALLYPORT_LOOP', 'the application address is the proxy itself')));
      return { cancel };
    }
    socket.once('error', fail);
    socket.setNoDelay(true);
    const { host, port } = endpoint;
    const lookup = host === 'localhost' ? { autoSelectFamily: true, lookup: eitherLoopback } : {};
    const connected = (): void => {
      if (settled) return;
      settle();
      this.#open++;
      socket.removeListener('error', fail);
      let errno = '';
      socket.on('error', (error: NodeJS.ErrnoException) => {
        errno = error.code ?? '';
      });
      const transport = this.#options.recorder.openDestination(socket);
      socket.once(
        'close',
        guarded('a connection to the app, closed', null, () => {
          this.#open--;
          transport.closed(errno);
        }),
      );
      done(null, socket);
    };
    const onConnect = guarded('a connection to the app', socket, connected);
    const begin = (): void => {
      if (settled) return;
      timer = setTimeout(() => fail(connectTimedOut(endpoint)), this.#options.connectTimeoutMs);
      socket.connect({ host, port, ...lookup }, onConnect);
    };
    const ends = { destroy: () => fail(new CodedError('ERR_SALLYPORT_UNEXPECTED', 'the connect could not begin')) };
    starts.begin(asker, guarded('a connect to the app', ends, begin));
    return { cancel };
  }

  http1(endpoint: Endpoint): LibraryPool {
    return this.#http1.at(endpoint);
  }

  #pool(endpoint: Endpoint): LibraryPool {
    const origin = `http://${hostPort(endpoint.host, endpoint.port)}`;
    return new LibraryPool(
      (Pool) =>
        new Pool(origin, {
          // The pool's own limits would turn a burst into a queue; requests in flight are capped before they get here.
          connections: null,
          pipelining: 1,
          keepAliveTimeout: idleSocketMs,
          keepAliveMaxTimeout: idleSocketMs,
          // Apps may take as long as they like; the client decides how long it waits (Linkerd has no timeout either).
          headersTimeout: 0,
          bodyTimeout: 0,
          maxHeaderSize: 256 * 1024,
          connect: (_options, callback) => {
            this.connect(endpoint, 'the library lane', (error, socket) => {
              if (error !== null) callback(error, null);
              else callback(null, withoutContinue(socket));
            });
          },
        }),
    );
  }

  /** For one-off connections made by node:http (http-proxy): the same connect, with its deadline, guard and counters. */
  agent(endpoint: Endpoint): http.Agent {
    return new OneOffAgent((done) => this.connect(endpoint, 'upgrades', done));
  }

  async close(): Promise<void> {
    await Promise.allSettled([...this.#http1.values()].map((pool) => pool.destroy()));
  }
}
