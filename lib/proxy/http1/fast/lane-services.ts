import type { HttpConnection, RequestPipeline } from '../../http/request-pipeline.ts';
import type { Incoming } from '../../incoming.ts';

/** What a connection needs of the lane that it is on. */
export interface FastLaneServices<Connection> {
  readonly pipeline: RequestPipeline;
  /** A stop has begun: every response is the last of its connection. */
  readonly draining: boolean;
  /** The connection is closed, or has gone over to the library lane. */
  forget(connection: Connection): void;
  /** Takes it over for good; `unread` comes first. */
  handOver(connection: HttpConnection, stream: Incoming, unread: Buffer): void;
}
