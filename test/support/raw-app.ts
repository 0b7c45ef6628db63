import type { Socket } from 'node:net';
import type { Teardown } from './children.ts';
import { type RecordedRequest, type RequestParser, strictParser } from './request-parsers.ts';
import { startSocketApp } from './socket-app.ts';

/** One connection of the proxy to the app, as bytes. */
export interface AppSocket {
  readonly socket: Socket;
  /** Counted from 0 over the whole app. */
  readonly number: number;
  /** Everything received that no complete request has taken. */
  pending: Buffer;
  /** Requests completed on it. */
  requests: number;
  ended: boolean;
  closed: boolean;
}

export interface RawApp {
  readonly port: number;
  readonly sockets: readonly AppSocket[];
  /** Completed requests, over all connections, in the order in which they were completed. */
  readonly requests: RecordedRequest[];
  /** What strict reading refused; a proxy must never send such bytes. */
  readonly malformed: string[];
}

export interface RawAppOptions {
  /** Called for each complete request. */
  readonly answer?: (request: RecordedRequest, connection: AppSocket) => void;
  /** Called whenever bytes have come and no request is complete. */
  readonly partial?: (connection: AppSocket) => void;
  /** Takes every byte itself; nothing is parsed. */
  readonly raw?: (connection: AppSocket, chunk: Buffer) => void;
  readonly parser?: RequestParser;
  readonly host?: string;
}

export const ok = Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');

/** An app over bare sockets: it reads requests by one of the two parsers and answers with any bytes at any time. */
export async function startRawApp(t: Teardown, options: RawAppOptions = {}): Promise<RawApp> {
  const parser = options.parser ?? strictParser;
  const answer = options.answer ?? ((_request, { socket }) => socket.write(ok));
  const sockets: AppSocket[] = [];
  const requests: RecordedRequest[] = [];
  const malformed: string[] = [];
  const serve = (socket: Socket): void => {
    const connection: AppSocket = {
      socket,
      number: sockets.length,
      pending: Buffer.alloc(0),
      requests: 0,
      ended: false,
      closed: false,
    };
    sockets.push(connection);
    socket.on('data', (chunk: Buffer) => {
      if (options.raw !== undefined) {
        options.raw(connection, chunk);
        return;
      }
      connection.pending = connection.pending.length === 0 ? chunk : Buffer.concat([connection.pending, chunk]);
      while (connection.pending.length > 0) {
        const progress = parser(connection.pending);
        if (progress.kind === 'complete') {
          connection.pending = connection.pending.subarray(progress.end);
          connection.requests++;
          requests.push(progress.request);
          answer(progress.request, connection);
          continue;
        }
        if (progress.kind === 'malformed') {
          malformed.push(progress.why);
          connection.pending = Buffer.alloc(0);
          socket.destroy();
        } else if (progress.kind === 'begun') {
          options.partial?.(connection);
        }
        break;
      }
    });
    socket.on('end', () => {
      connection.ended = true;
      socket.end();
    });
    socket.on('close', () => {
      connection.closed = true;
    });
  };
  const { port } = await startSocketApp(t, serve, { allowHalfOpen: true, noDelay: true, host: options.host });
  return { port, sockets, requests, malformed };
}
