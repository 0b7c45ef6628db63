import http from 'node:http';
import type net from 'node:net';
import { hostPort } from '../../../ip.ts';
import { type Admitted, type AdmittedNow, mustBeCurrent } from '../../http/admitted.ts';
import { ByEndpoint, type Endpoint } from '../../upstream/endpoint.ts';
import type { Done, PendingConnect, Upstreams } from '../../upstream/upstreams.ts';
import { maxIdleMs, maxResponseHead } from '../limits.ts';
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

/** The ways to the app that undici and node:http take. All of them connect as everything else does. */
export class LibraryUpstreams {
  readonly #upstreams: Upstreams;
  readonly #pools = new ByEndpoint(
    (endpoint) => this.#make(endpoint),
    (pool) => pool.letGo(),
  );

  constructor(upstreams: Upstreams) {
    this.#upstreams = upstreams;
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
              else callback(null, withoutContinue(withEarlyAnswers(socket)));
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
    await Promise.allSettled([...this.#pools.values()].map((pool) => pool.destroy()));
  }
}
