import http2 from 'node:http2';
import type { Socket } from 'node:net';
import { isSoundMethod } from '../../../lib/http-message.ts';
import { hostPort } from '../../../lib/ip.ts';
import { putBack } from '../../../lib/proxy/detect/peek.ts';
import { outgoingFields } from '../../../lib/proxy/http/outgoing-fields.ts';
import { upstreamFailure } from '../../../lib/proxy/http/refuse.ts';
import type { HttpConnection, RequestPipeline } from '../../../lib/proxy/http/request-pipeline.ts';
import { LibraryUpstreams } from '../../../lib/proxy/http1/library/library-upstreams.ts';
import { serveExchange } from '../../../lib/proxy/http1/library/serve.ts';
import { misspelt } from '../../../lib/proxy/http2/client/client-session.ts';
import { clientLimits } from '../../../lib/proxy/http2/client/limits.ts';
import type { Http2Engine, Http2Session } from '../../../lib/proxy/http2/engine.ts';
import { readHttp2Head } from '../../../lib/proxy/http2/message/head.ts';
import { ToldByReset } from '../../../lib/proxy/http2/relay/loss.ts';
import { errorCode, maxStreamId } from '../../../lib/proxy/http2/session/protocol.ts';
import { ByEndpoint, type Endpoint } from '../../../lib/proxy/upstream/endpoint.ts';
import type { Upstreams } from '../../../lib/proxy/upstream/upstreams.ts';
import { defaultLimits } from '../limits.ts';
import { Http2Exchange } from './exchange.ts';
import { forwardHttp2 } from './forward.ts';
import { Http2Pool } from './pool.ts';

export interface NodeHttp2LaneOptions {
  readonly pipeline: RequestPipeline;
  readonly upstreams: Upstreams;
}

const sessionOptions: http2.ServerSessionOptions & { streamResetBurst?: number; streamResetRate?: number } = {
  settings: {
    maxConcurrentStreams: defaultLimits.maxStreams,
    initialWindowSize: clientLimits.streamWindow,
    maxHeaderListSize: defaultLimits.maxHeaderBytes,
    enablePush: false,
    enableConnectProtocol: false,
  },
  maxHeaderListPairs: defaultLimits.maxHeaderFields,
  maxSessionMemory: 16,
  streamResetBurst: defaultLimits.maxResets,
  streamResetRate: defaultLimits.maxResets / 10,
};

/**
 * HTTP/2 by node:http2, on both sides: what the engine of our own is measured by. It shares the pipeline with it, and how
 * heads are read, so that only the framing and what depends on it can differ.
 */
export class NodeHttp2Lane implements Http2Engine {
  readonly #options: NodeHttp2LaneOptions;
  readonly #apps: ByEndpoint<Http2Pool>;
  readonly #library: LibraryUpstreams;

  constructor(options: NodeHttp2LaneOptions) {
    this.#options = options;
    this.#library = new LibraryUpstreams(options.upstreams);
    this.#apps = new ByEndpoint(
      (endpoint) =>
        new Http2Pool(`http://${hostPort(endpoint.host, endpoint.port)}`, (admitted, done) =>
          options.upstreams.connect(admitted, endpoint, 'sessions', done),
        ),
    );
  }

  serve(connection: HttpConnection, socket: Socket, bytes: Buffer): Http2Session {
    putBack(socket, bytes);
    const session = http2.performServerHandshake(socket, sessionOptions);
    session.setLocalWindowSize(clientLimits.connectionWindow);
    // Protocol violations and resets end this session only.
    // The session reads from the handle itself; of the stream it needs to hear only that the client has ended it, and
    // a client that can send no more frames cannot go on. Not before the next turn: bytes put back are the session's.
    socket.once('end', () => session.destroy());
    setImmediate(() => socket.resume());
    session.on('error', () => session.destroy());
    session.on('frameError', () => session.destroy());
    session.on('stream', (stream, _headers, flags, raw) => {
      this.#stream(connection, stream, flags, raw as unknown as string[]);
    });
    return {
      announce: () => {
        // Its close may still be on its way to us.
        if (!session.destroyed) session.goaway(errorCode.noError, maxStreamId);
      },
      drain: () => {
        if (!session.destroyed) session.close();
      },
    };
  }

  close(): void {
    // Sessions of clients end with their connections.
    for (const pool of this.#apps.values()) pool.close();
    void this.#library.close();
  }

  #stream(connection: HttpConnection, stream: http2.ServerHttp2Stream, flags: number, raw: string[]): void {
    const head = readHttp2Head(raw);
    if (head === null || head.method === 'CONNECT') {
      stream.on('error', () => {});
      this.#options.pipeline.badRequest(connection, head === null ? 'malformed header block' : 'CONNECT over HTTP/2');
      if (head === null) stream.close(errorCode.protocolError);
      else stream.respond({ ':status': 405 }, { endStream: true });
      return;
    }
    if (!isSoundMethod(head.method)) {
      stream.on('error', () => {});
      this.#options.pipeline.badRequest(connection, misspelt);
      stream.respond({ ':status': 400, 'content-length': '0' }, { endStream: true });
      return;
    }
    const { pipeline } = this.#options;
    const endStream = (flags & http2.constants.NGHTTP2_FLAG_END_STREAM) !== 0;
    const exchange = new Http2Exchange(connection.facts, pipeline, stream, head, endStream);
    if (exchange.downgraded) exchange.forwardHeaders.unshift('host', exchange.host);
    const { destination } = connection;
    if (exchange.downgraded || destination.kind !== 'app') serveExchange(pipeline, this.#library, connection, exchange);
    else this.#forward(connection, exchange, destination.endpoint);
  }

  #forward(connection: HttpConnection, exchange: Http2Exchange, endpoint: Endpoint): void {
    const { pipeline } = this.#options;
    const admitted = pipeline.admit(connection, exchange);
    if (admitted.kind === 'refused') {
      exchange.refuse(admitted.refusal);
      return;
    }
    const fields = outgoingFields(connection.facts.client, admitted, exchange.forwardHeaders);
    forwardHttp2(admitted, exchange, fields, this.#apps.at(endpoint), (error) => {
      const failure = upstreamFailure(error);
      if (error instanceof ToldByReset) {
        pipeline.failed(connection, admitted, exchange, failure);
        exchange.abort(error.reset);
      } else {
        pipeline.fail(connection, admitted, exchange, failure);
      }
    });
  }
}
