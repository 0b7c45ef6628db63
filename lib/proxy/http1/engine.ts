import type { Socket } from 'node:net';
import type { HttpConnection } from '../request-pipeline.ts';

/** Serves HTTP/1 on connections that detection hands over. Two stand side by side: the fast lane and the library lane. */
export interface Http1Engine {
  /** Takes over a connection whose first bytes have been put back. */
  serve(connection: HttpConnection, socket: Socket): void;
  /** From now on every answer is the last of its connection. */
  drain(): void;
  /** Ends connections that are between requests. */
  closeIdle(): void;
  close(): void;
}
