import type { Socket } from 'node:net';
import { hostPort } from '../../ip.ts';
import { Roster } from '../../roster.ts';
import type { HttpConnection, RequestPipeline } from '../request-pipeline.ts';
import type { Endpoint, Upstreams } from '../upstream.ts';
import { AppPool } from './app-pool.ts';
import type { Http1Engine } from './engine.ts';
import { FastConnection, type Lane } from './fast-connection.ts';

export interface FastLaneOptions {
  readonly pipeline: RequestPipeline;
  readonly upstreams: Upstreams;
  /** Takes, for good, every connection on which something comes that is not plain. */
  readonly library: Http1Engine;
  readonly onBadRequest: (connection: HttpConnection, reason: string) => void;
}

/** Milliseconds between looks at deadlines; they are late by up to this much. */
const sweepMs = 1000;

/**
 * The fast lane for HTTP/1.1: plain requests go from socket to socket, their heads read once and their bodies relayed.
 * It serves only what it can recognize beyond doubt, and refuses nothing as malformed; that is the library lane's to do.
 */
export class FastLane implements Http1Engine, Lane {
  readonly pipeline: RequestPipeline;
  readonly onBadRequest: FastLaneOptions['onBadRequest'];
  draining = false;
  readonly #upstreams: Upstreams;
  readonly #library: Http1Engine;
  readonly #open = new Roster<FastConnection>();
  readonly #pools = new Map<string, AppPool>();
  readonly #sweeper: NodeJS.Timeout;

  constructor(options: FastLaneOptions) {
    this.pipeline = options.pipeline;
    this.onBadRequest = options.onBadRequest;
    this.#upstreams = options.upstreams;
    this.#library = options.library;
    this.#sweeper = setInterval(() => this.#sweep(), sweepMs).unref();
  }

  serve(connection: HttpConnection, socket: Socket, bytes: Buffer): void {
    // Only an app has connections to pool; the admin application is the library lane's.
    if (connection.destination.kind !== 'app') {
      this.#library.serve(connection, socket, bytes);
      return;
    }
    const pool = this.#pool(connection.destination.endpoint);
    const served = new FastConnection(this, connection, socket, pool);
    this.#open.add(served);
    served.start(bytes);
  }

  forget(connection: FastConnection): void {
    this.#open.delete(connection);
  }

  handOver(connection: HttpConnection, socket: Socket, unread: Buffer): void {
    this.#library.serve(connection, socket, unread);
  }

  drain(): void {
    this.draining = true;
    this.#library.drain();
  }

  closeIdle(): void {
    for (const connection of [...this.#open]) connection.closeIfIdle();
    this.#library.closeIdle();
  }

  close(): void {
    clearInterval(this.#sweeper);
    for (const pool of this.#pools.values()) pool.close();
    this.#library.close();
  }

  #pool(endpoint: Endpoint): AppPool {
    const key = hostPort(endpoint.host, endpoint.port);
    let pool = this.#pools.get(key);
    if (pool === undefined) {
      pool = new AppPool(endpoint, this.#upstreams);
      this.#pools.set(key, pool);
    }
    return pool;
  }

  #sweep(): void {
    const now = performance.now();
    for (const pool of this.#pools.values()) pool.sweep(now);
    for (const connection of [...this.#open]) connection.sweep(now);
  }
}
