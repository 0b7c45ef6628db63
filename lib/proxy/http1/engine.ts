import type { HttpConnection } from '../http/request-pipeline.ts';
import type { Incoming } from '../incoming.ts';

/** Serves HTTP/1 on connections that detection hands over. Two stand side by side: the fast lane and the library lane. */
export interface Http1Engine {
  /** Takes over a connection; `bytes` have been read from it already. */
  serve(connection: HttpConnection, stream: Incoming, bytes: Buffer): void;
  /** From now on every response is the last of its connection. */
  drain(): void;
  /** Ends connections that are between requests. */
  closeIdle(): void;
  close(): Promise<void>;
}
