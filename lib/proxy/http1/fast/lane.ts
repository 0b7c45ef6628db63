import { Roster } from '../../../roster.ts';
import { Sweeper } from '../../fairness/sweeper.ts';
import { eachGuarded } from '../../guard.ts';
import type { HttpConnection, RequestPipeline } from '../../http/request-pipeline.ts';
import type { Incoming } from '../../incoming.ts';
import { ByEndpoint } from '../../upstream/endpoint.ts';
import type { Upstreams } from '../../upstream/upstreams.ts';
import { AppPool } from '../app-pool.ts';
import type { Http1Engine } from '../engine.ts';
import { FastConnection } from './client-connection.ts';
import type { FastLaneServices } from './lane-services.ts';

export interface FastLaneOptions {
  readonly pipeline: RequestPipeline;
  readonly upstreams: Upstreams;
  /** Takes, for good, every connection on which something comes that is not plain. */
  readonly library: Http1Engine;
}

/**
 * The fast lane for HTTP/1: plain requests go from socket to socket, their heads read once and their bodies relayed.
 * It serves only what it can recognize beyond doubt, and refuses nothing as malformed; that is the library lane's to do.
 */
export class FastLane implements Http1Engine, FastLaneServices<FastConnection> {
  readonly pipeline: RequestPipeline;
  draining = false;
  readonly #library: Http1Engine;
  readonly #open = new Roster<FastConnection>();
  readonly #pools: ByEndpoint<AppPool>;
  readonly #sweeper: Sweeper;

  constructor(options: FastLaneOptions) {
    this.pipeline = options.pipeline;
    this.#pools = new ByEndpoint(
      (endpoint) => new AppPool(endpoint, options.upstreams),
      (pool) => pool.letGo(),
    );
    this.#library = options.library;
    this.#sweeper = new Sweeper('HTTP/1 deadlines', () => this.#pools.values(), this.#open);
  }

  serve(connection: HttpConnection, stream: Incoming, bytes: Buffer): void {
    // Only an app has connections to pool; the admin application is the library lane's.
    if (connection.destination.kind !== 'app') {
      this.#library.serve(connection, stream, bytes);
      return;
    }
    const pool = this.#pools.at(connection.destination.endpoint);
    const served = new FastConnection(this, connection, stream, pool);
    this.#open.add(served);
    pool.users++;
    served.start(bytes);
  }

  forget(connection: FastConnection): void {
    if (this.#open.delete(connection)) connection.pool.users--;
  }

  handOver(connection: HttpConnection, stream: Incoming, unread: Buffer): void {
    this.#library.serve(connection, stream, unread);
  }

  drain(): void {
    this.draining = true;
    this.#library.drain();
  }

  closeIdle(): void {
    eachGuarded('closing idle connections', [...this.#open], (connection) => connection.closeIfIdle());
    this.#library.closeIdle();
  }

  close(): Promise<void> {
    this.#sweeper.close();
    for (const pool of this.#pools.values()) pool.close();
    return this.#library.close();
  }
}
