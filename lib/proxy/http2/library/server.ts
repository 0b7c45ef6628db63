import http2 from 'node:http2';
import type { Socket } from 'node:net';
import { putBack } from '../../detect/peek.ts';
import type { HttpConnection, RequestPipeline } from '../../request-pipeline.ts';
import type { Http2Engine, Http2Session } from '../engine.ts';
import { readHttp2Head } from '../head.ts';
import { clientLimits, resetBurst, resetsPerSecond } from '../limits.ts';
import { errorCode, maxStreamId } from '../protocol.ts';
import { Http2Exchange } from './exchange.ts';

export interface Http2LibraryLaneOptions {
  readonly pipeline: RequestPipeline;
  readonly onBadRequest: (connection: HttpConnection, reason: string) => void;
}

const sessionOptions: http2.ServerSessionOptions & { streamResetBurst?: number; streamResetRate?: number } = {
  settings: {
    maxConcurrentStreams: clientLimits.streams,
    initialWindowSize: clientLimits.streamWindow,
    maxHeaderListSize: clientLimits.headerListBytes,
    enablePush: false,
    enableConnectProtocol: false,
  },
  maxHeaderListPairs: clientLimits.headerFields,
  maxSessionMemory: 16,
  streamResetBurst: resetBurst,
  streamResetRate: resetsPerSecond,
};

/** HTTP/2 by node:http2. */
export class Http2LibraryLane implements Http2Engine {
  readonly #options: Http2LibraryLaneOptions;

  constructor(options: Http2LibraryLaneOptions) {
    this.#options = options;
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
    // Sessions end with their connections.
  }

  #stream(connection: HttpConnection, stream: http2.ServerHttp2Stream, flags: number, raw: string[]): void {
    const head = readHttp2Head(raw);
    if (head === null || head.method === 'CONNECT') {
      stream.on('error', () => {});
      this.#options.onBadRequest(connection, head === null ? 'malformed header block' : 'CONNECT over HTTP/2');
      if (head === null) stream.close(errorCode.protocolError);
      else stream.respond({ ':status': 405 }, { endStream: true });
      return;
    }
    const { pipeline } = this.#options;
    const endStream = (flags & http2.constants.NGHTTP2_FLAG_END_STREAM) !== 0;
    const exchange = new Http2Exchange(connection.scope.facts, pipeline, stream, head, endStream);
    if (exchange.downgraded) exchange.forwardHeaders.unshift('host', exchange.host);
    pipeline.handle(connection, exchange, exchange.downgraded ? 'http1' : 'http2');
  }
}
