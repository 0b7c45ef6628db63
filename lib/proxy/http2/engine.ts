import type { Socket } from 'node:net';
import type { HttpConnection } from '../http/request-pipeline.ts';

/** One served connection. */
export interface Http2Session {
  /** A first GOAWAY that refuses nothing yet, so that streams on their way to us are not lost (RFC 9113 6.8). */
  announce(): void;
  /** The last GOAWAY; streams that are open finish. */
  drain(): void;
}

/** Serves HTTP/2, with prior knowledge or inside TLS. */
export interface Http2Engine {
  /** Takes over a connection; `bytes` have been read from it already. */
  serve(connection: HttpConnection, socket: Socket, bytes: Buffer): Http2Session;
  close(): void;
}
