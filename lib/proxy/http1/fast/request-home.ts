import type { Socket } from 'node:net';
import type { HttpConnection, RequestPipeline } from '../../http/request-pipeline.ts';
import type { TunnelRequest } from '../../http/tunnel-request.ts';
import type { AppConnection } from '../app-connection.ts';
import type { AppPool } from '../app-pool.ts';
import type { AppTunnel } from '../leaving-http.ts';

/** A request that is over, as far as its connection must know. */
export interface OverRequest {
  /** No other follows its response. */
  readonly isLast: boolean;
  readonly requestComplete: boolean;
  /** The client has said so, and sends nothing more. */
  readonly endsByClient: boolean;
}

/** The client connection that a request came on. */
export interface RequestHome {
  readonly pipeline: RequestPipeline;
  readonly connection: HttpConnection;
  readonly socket: Socket;
  readonly pool: AppPool;
  /** Of connections to the app that answer no other client. */
  readonly ownPool: AppPool;
  /** Bytes of further requests wait: nothing more is read from the client before this one is over. */
  readonly hasNext: boolean;
  /** The next response that begins is the last, and says so. */
  readonly isEnding: boolean;
  /**
   * Sends the last bytes of the connection without a stream, where it has none yet; false: it is for `socket` to do.
   *
   * @param head one character per byte.
   */
  sendLast(head: string, content: Buffer): boolean;
  /** The app has agreed to leave HTTP, as the request asked: both connections do. */
  switched(app: AppConnection, request: TunnelRequest): AppTunnel;
  /** The response, and all of the request that anybody wants, are over. */
  finished(request: OverRequest): void;
}
