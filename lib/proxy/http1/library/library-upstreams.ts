import http from 'node:http';
import type net from 'node:net';
import { hostPort } from '../../../ip.ts';
import { Sweeper } from '../../fairness/sweeper.ts';
import { type Admitted, type AdmittedNow, mustBeCurrent } from '../../http/admitted.ts';
import { ByEndpoint, type Endpoint } from '../../upstream/endpoint.ts';
import type { Done, PendingConnect, Upstreams } from '../../upstream/upstreams.ts';
import { AppPool } from '../app-pool.ts';
import { maxIdleMs, maxResponseHead } from '../limits.ts';
import { withResets } from './broken-off.ts';
import { withEarlyAnswers } from './early-answers.ts';
import { withoutContinue } from './unasked-continue.ts';
import { LibraryPool, type Sender } from './undici-pool.ts';

class OneOffAgent extends http.Agent {
  readonly #socket: net.Socket;
  constructor(socket: net.Socket) {
    super({ keepAlive: false });
    this.#socket = socket;
  }
  override createConnection(): net.Socket {
    return this.#socket;
  }
}

/** The ways to the app that the library lane takes. All of them connect as everything else does. */
export class LibraryUpstreams {
  readonly #upstreams: Upstreams;
  readonly #appPools: ByEndpoint<AppPool>;
  readonly #sweeper: Sweeper;
  readonly #pools = new ByEndpoint(
    (endpoint) => this.#make(endpoint),
    (pool) => pool.letGo(),
  );

  constructor(upstreams: Upstreams) {
    this.#upstreams = upstreams;
    this.#appPools = new ByEndpoint(
      (endpoint) => new AppPool(endpoint, upstreams),
      (pool) => pool.letGo(),
    );
    this.#sweeper = new Sweeper('HTTP/1, the library lane', () => this.#appPools.values(), []);
  }

  /** For requests that ask for nothing but a response. */
  appPool(endpoint: Endpoint): AppPool {
    return this.#appPools.at(endpoint);
  }

  /** undici's pool of connections that are kept. */
  pool(admitted: Admitted, endpoint: Endpoint): Sender {
    return this.#pools.at(endpoint).sender(admitted);
  }

  #make(endpoint: Endpoint): LibraryPool {
    const origin = `http://${hostPort(endpoint.host, endpoint.port)}`;
    return new LibraryPool(
      (Pool, asking) =>
        new Pool(origin, {
          // The pool's own limits would turn a burst into a queue; requests in flight are capped before they get here.
          connections: null,
          pipelining: 1,
          keepAliveTimeout: maxIdleMs,
          keepAliveMaxTimeout: maxIdleMs,
          // Apps may take as long as they like; the client decides how long it waits (Linkerd has no timeout either).
          headersTimeout: 0,
          bodyTimeout: 0,
          maxHeaderSize: maxResponseHead,
          connect: (_options, callback) => {
            this.#upstreams.connect(asking.admitted, endpoint, 'the library lane', (error, socket) => {
              if (error !== null) callback(error, null);
              else callback(null, withResets(withoutContinue(withEarlyAnswers(socket))));
            });
          },
        }),
    );
  }

  /** A connection for what node:http sends (http-proxy): the same connect, with its deadline, guard and counters. */
  connect(admitted: Admitted, endpoint: Endpoint, done: Done): PendingConnect {
    return this.#upstreams.connect(admitted, endpoint, 'upgrades', done);
  }

  /** For the one request that leaves on such a connection, in this turn. */
  agent(admitted: AdmittedNow, socket: net.Socket): http.Agent {
    mustBeCurrent(admitted);
    return new OneOffAgent(socket);
  }

  async close(): Promise<void> {
    this.#sweeper.close();
    for (const pool of this.#appPools.values()) pool.close();
    await Promise.allSettled([...this.#pools.values()].map((pool) => pool.destroy()));
  }
}
