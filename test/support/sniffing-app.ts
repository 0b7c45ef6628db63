import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createHttp2Server, type Http2ServerRequest, type Http2ServerResponse } from 'node:http2';
import type { Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import type { Teardown } from './children.ts';
import { startSocketApp } from './socket-app.ts';

export interface SniffingApp {
  readonly port: number;
  /** Accepted connections and, of HTTP of either version, requests. */
  readonly counts: { readonly connections: number; readonly requests: number };
}

/** What the app answers a request with, as JSON: what it saw. */
export interface SeenRequest {
  readonly method: string;
  readonly url: string;
  readonly httpVersion: string;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly bodyBytes: number;
}

export interface SniffingAppOptions {
  readonly host?: string;
  readonly port?: number;
  /** PEM of the app's own TLS: connections that begin with a ClientHello are terminated with it and then echoed. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** In its own TLS, requests of HTTP/1 are answered as outside of it. */
  readonly servesInTls?: boolean;
}

/**
 * An app that answers whatever protocol arrives: HTTP/1 and HTTP/2 with a JSON description of the request, gRPC with an
 * empty message and status 0, TLS and any other bytes with their echo. `hold` delays the response to an HTTP request.
 */
export async function startSniffingApp(
  t: Teardown,
  options: SniffingAppOptions = {},
  hold: (url: string) => Promise<void> = () => Promise.resolve(),
): Promise<SniffingApp> {
  const counts = { connections: 0, requests: 0 };
  const http1 = createHttpServer((request, response) => {
    counts.requests += 1;
    describe(request, (seen) => void hold(seen.url).then(() => respond(response, seen)));
  });
  const http2 = createHttp2Server((request, response) => {
    counts.requests += 1;
    if (String(request.headers['content-type'] ?? '').startsWith('application/grpc')) answerGrpc(request, response);
    else describe(request, (seen) => void hold(seen.url).then(() => respond(response, seen)));
  });
  const inTls = (socket: Socket): void => {
    socket.once('data', (first: Buffer) => {
      socket.pause();
      socket.unshift(first);
      if (/^[A-Z]+ \S+ HTTP\/1\./.test(first.toString('latin1'))) http1.emit('connection', socket);
      else echo(socket);
      socket.resume();
    });
  };
  const secured = options.servesInTls === true ? inTls : echo;
  const tls = options.tls === undefined ? null : createTlsServer({ ...options.tls, allowHalfOpen: true }, secured);
  const serve = (socket: Socket): void => {
    counts.connections += 1;
    // Who says nothing gets no answer.
    const ended = (): void => void socket.end();
    socket.once('end', ended);
    socket.once('data', (first: Buffer) => {
      socket.off('end', ended);
      socket.pause();
      socket.unshift(first);
      const text = first.toString('latin1');
      // TLS and HTTP/2 take the paused socket's buffer themselves; resuming it would spill what they are about to read.
      if (tls !== null && first[0] === 0x16) tls.emit('connection', socket);
      else if (text.startsWith('PRI ')) {
        // A client that can send no more frames cannot go on; node:http2 leaves that to a socket that is not half open.
        socket.once('end', () => socket.end());
        http2.emit('connection', socket);
      } else {
        if (/^[A-Z]+ \S+ HTTP\/1\./.test(text)) http1.emit('connection', socket);
        else echo(socket);
        socket.resume();
      }
    });
  };
  for (const emitter of [http1, http2, tls]) emitter?.on('clientError', (_: Error, socket: Socket) => socket.destroy());
  tls?.on('tlsClientError', () => {});
  const { host, port } = options;
  const app = await startSocketApp(t, serve, { host, port, allowHalfOpen: true });
  return { port: app.port, counts };
}

function echo(socket: Socket): void {
  socket.on('error', () => {});
  socket.pipe(socket);
}

function describe(request: IncomingMessage | Http2ServerRequest, done: (seen: SeenRequest) => void): void {
  let bodyBytes = 0;
  request.on('data', (chunk: Buffer) => {
    bodyBytes += chunk.length;
  });
  request.on('end', () => {
    const { method = '', url = '', httpVersion, headers } = request;
    done({ method, url, httpVersion, headers, bodyBytes });
  });
  request.on('error', () => {});
}

function respond(response: ServerResponse | Http2ServerResponse, seen: SeenRequest): void {
  response.setHeader('content-type', 'application/json');
  (response as ServerResponse).end(JSON.stringify(seen));
}

function answerGrpc(request: Http2ServerRequest, response: Http2ServerResponse): void {
  request.resume();
  request.on('end', () => {
    response.setHeader('content-type', 'application/grpc');
    response.addTrailers({ 'grpc-status': '0' });
    // An empty message: no compression, length 0.
    response.end(Buffer.alloc(5));
  });
  request.on('error', () => {});
}
