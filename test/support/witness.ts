import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createHttp2Server, type Http2ServerRequest, type Http2ServerResponse } from 'node:http2';
import type { Socket } from 'node:net';
import type { Teardown } from './children.ts';
import { startSocketApp } from './socket-app.ts';

/** A request as it reached the app. */
export interface Witnessed {
  readonly version: string;
  readonly method: string;
  readonly target: string;
  /** As received: repeated, and in HTTP/1 with the case that they came in. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** Null until the body has ended. */
  readonly trailers: readonly (readonly [name: string, value: string])[] | null;
}

export interface Witness {
  readonly port: number;
  /** The test's to clear. */
  readonly requests: Witnessed[];
  /** Messages that its own parser refused. */
  readonly malformed: readonly string[];
  /** First bytes of every connection that carried no HTTP, which are echoed. */
  readonly raw: readonly string[];
  /** The values of a header in the request for that target, whatever their case; undefined where it never came. */
  seen(target: string, name: string): readonly string[] | undefined;
}

function pairs(raw: readonly string[]): (readonly [string, string])[] {
  return raw.flatMap((name, i) => (i % 2 === 0 ? [[name, raw[i + 1] as string] as const] : []));
}

type AnyRequest = IncomingMessage | Http2ServerRequest;
type AnyResponse = ServerResponse | Http2ServerResponse;

/**
 * An app that remembers whatever gets through to it: HTTP/1 and HTTP/2 requests, and connections that are neither. It
 * answers 200 without a body unless `answer` does otherwise.
 */
export async function startWitness(
  t: Teardown,
  answer: (request: AnyRequest, response: AnyResponse) => void = (_request, response) => {
    response.statusCode = 200;
    (response as ServerResponse).end();
  },
): Promise<Witness> {
  const requests: Witnessed[] = [];
  const malformed: string[] = [];
  const raw: string[] = [];
  const take = (request: AnyRequest, response: AnyResponse): void => {
    const { httpVersion, method = '', url = '', rawHeaders } = request;
    const witnessed = { version: httpVersion, method, target: url, headers: pairs(rawHeaders), trailers: null };
    requests.push(witnessed);
    request.resume();
    request.on('end', () => Object.assign(witnessed, { trailers: pairs(request.rawTrailers) }));
    request.on('error', () => {});
    response.on('error', () => {});
    answer(request, response);
  };
  // The app's own limits shall not hide what the proxy lets through.
  const http1 = createHttpServer({ maxHeaderSize: 2 ** 18 }, take);
  http1.maxHeadersCount = 0;
  http1.on('clientError', (error: Error & { code?: string }, socket) => {
    malformed.push(error.code ?? error.message);
    socket.destroy();
  });
  const http2 = createHttp2Server({ maxSessionMemory: 1_000 }, take);
  http2.on('sessionError', (error: Error) => malformed.push(error.message));
  const serve = (socket: Socket): void => {
    socket.once('data', (first: Buffer) => {
      socket.pause();
      socket.unshift(first);
      const text = first.toString('latin1');
      if (text.startsWith('PRI ')) {
        http2.emit('connection', socket);
        return;
      }
      // Also with a method that its parser refuses, as it would on a connection that has had a request before.
      if (/^\S+ \S+ HTTP\/1\./.test(text)) {
        http1.emit('connection', socket);
      } else {
        raw.push(text);
        socket.pipe(socket);
      }
      socket.resume();
    });
  };
  const { port } = await startSocketApp(t, serve, { allowHalfOpen: true });
  return {
    port,
    requests,
    malformed,
    raw,
    seen: (target, name) =>
      requests
        .find((request) => request.target === target)
        ?.headers.filter(([key]) => key.toLowerCase() === name)
        .map(([, value]) => value),
  };
}
