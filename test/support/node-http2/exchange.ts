import type { OutgoingHttpHeaders, ServerHttp2Stream, ServerStreamResponseOptions } from 'node:http2';
import { PassThrough, type Readable } from 'node:stream';
import { oddNamesOf, type RequestFacts } from '../../../lib/policy/decision.ts';
import type { ConnectionFacts } from '../../../lib/proxy/connection-facts.ts';
import type { Admitted } from '../../../lib/proxy/http/admitted.ts';
import { headerValues, withoutIdentity } from '../../../lib/proxy/http/headers.ts';
import { type Refusal, refusalHeaders } from '../../../lib/proxy/http/refuse.ts';
import type { RequestPipeline } from '../../../lib/proxy/http/request-pipeline.ts';
import type { LibraryExchange } from '../../../lib/proxy/http1/library/library-exchange.ts';
import { drainMs } from '../../../lib/proxy/http2/client/limits.ts';
import { type Http2Head, lowerCase, mayEndInTrailers } from '../../../lib/proxy/http2/message/head.ts';
import { errorCode } from '../../../lib/proxy/http2/session/protocol.ts';
import { maxDrainBytes } from '../../../lib/proxy/limits.ts';
import { type HeaderList, type OriginalProtocol, originalProtocolHeader } from '../../../lib/request-fields.ts';
import { asObject, sendTrailers } from './forward.ts';

/** Resets arrive as errors; `close` deals with them. */
const ignore = (): void => {};

type ResponseOptions = ServerStreamResponseOptions & { readonly sendDate: boolean };

/** One HTTP/2 stream. */
export class Http2Exchange implements LibraryExchange {
  readonly connection: ConnectionFacts;
  readonly method: string;
  readonly target: string;
  readonly path: string;
  readonly query: string;
  readonly host: string;
  readonly version = 'HTTP/2.0';
  readonly headBytes = 0;
  readonly grpc: boolean;
  readonly forwardHeaders: HeaderList;
  readonly body: Readable | null;
  readonly carries: RequestFacts['carries'];
  readonly saysConnection = false;
  readonly onPermitted = null;
  admitted: Admitted | null = null;
  onAborted: (() => void) | null = null;
  responded = false;
  aborted = false;
  readonly #stream: ServerHttp2Stream;
  readonly #pipeline: RequestPipeline;
  readonly #originalProtocol: OriginalProtocol | null;
  readonly #startedAt = performance.now();
  #trailers: HeaderList = [];
  #finished = false;
  #endsInTrailers = false;
  #bodyEnded: boolean;

  constructor(
    connection: ConnectionFacts,
    pipeline: RequestPipeline,
    stream: ServerHttp2Stream,
    head: Http2Head,
    endStream: boolean,
  ) {
    this.connection = connection;
    this.#pipeline = pipeline;
    this.#stream = stream;
    this.method = head.method;
    this.target = head.target;
    this.path = head.path;
    this.query = head.query;
    this.host = head.host;
    this.grpc = head.grpc;
    this.forwardHeaders = head.forward;
    this.#originalProtocol = head.originalProtocol;
    this.#bodyEnded = endStream;
    this.carries = endStream ? 'nothing' : 'body';
    if (endStream) {
      this.body = null;
    } else {
      stream.once('trailers', (_headers, _flags, raw) => {
        this.#trailers = (raw as unknown as HeaderList | undefined) ?? [];
      });
      this.body = this.#readBody(stream);
    }
    stream.once('close', () => {
      if (this.#finished && this.#bodyEnded) return;
      this.aborted = true;
      this.onAborted?.();
      this.onAborted = null;
    });
    stream.on('error', ignore);
  }

  /**
   * The request's content, apart from the stream: its sender may destroy it, and a reset, which ends the
   * stream's readable side like END_STREAM, must not look like the end of the content.
   */
  #readBody(stream: ServerHttp2Stream): Readable {
    const body = new PassThrough();
    stream.pipe(body, { end: false });
    stream.once('end', () => {
      if (stream.closed && !this.#finished) {
        body.destroy();
        return;
      }
      this.#bodyEnded = true;
      body.end();
    });
    stream.once('close', () => {
      if (!this.#bodyEnded) body.destroy();
    });
    return body;
  }

  /** Whether the app must be asked in HTTP/1. */
  get downgraded(): boolean {
    return this.#originalProtocol !== null;
  }

  header(name: string): readonly string[] {
    return headerValues(this.forwardHeaders, name);
  }

  get oddNames(): readonly string[] {
    return oddNamesOf(this.forwardHeaders);
  }

  requestTrailers(): HeaderList {
    return withoutIdentity(this.#trailers);
  }

  informational(status: number, headers: HeaderList): void {
    if (this.aborted || this.responded || status === 101) return;
    try {
      this.#stream.additionalHeaders({ ':status': status, ...asObject(lowerCase(headers)) });
    } catch {
      this.#stream.close(errorCode.internalError);
    }
  }

  respond(status: number, _statusText: string, headers: HeaderList, hasBody: boolean): void {
    if (this.aborted || this.#stream.destroyed || this.#stream.closed) return;
    this.responded = true;
    this.#endsInTrailers = this.grpc && mayEndInTrailers(lowerCase(headers));
    const list = [':status', String(status), ...lowerCase(headers)];
    if (this.#originalProtocol !== null) list.push(originalProtocolHeader, this.#originalProtocol);
    if (!hasBody) this.#finished = true;
    // A date is the app's to give (node:http2 takes this option, its types do not know it).
    // Also for what has no trailers: without it, a reset of an unfinished response would be preceded by END_STREAM, and
    // the client would take half an answer for the whole.
    const options: ResponseOptions = { endStream: !hasBody, waitForTrailers: hasBody, sendDate: false };
    try {
      this.#stream.respond(list as unknown as OutgoingHttpHeaders, options);
    } catch {
      // Node refuses some fields that an app may send.
      this.#stream.close(errorCode.internalError);
      return;
    }
    this.#pipeline.responded(this, status, headers, this.#startedAt);
  }

  write(chunk: Buffer): boolean {
    return this.#stream.write(chunk);
  }

  onDrain(resume: () => void): void {
    this.#stream.once('drain', resume);
  }

  end(trailers: HeaderList): void {
    if (!this.#finished) {
      this.#finished = true;
      if (trailers.length > 0) {
        this.#stream.once('wantTrailers', () => sendTrailers(this.#stream, lowerCase(trailers)));
      }
      this.#stream.end();
    }
    this.#stopBody();
  }

  abort(h2Code: number = errorCode.internalError): void {
    if (this.#finished) return;
    this.#finished = true;
    if (this.#endsInTrailers && h2Code !== errorCode.cancel && !this.#stream.destroyed) {
      // The status of a gRPC call lives in its trailers; without them the client would only see a broken stream.
      this.#stream.once('wantTrailers', () => this.#stream.sendTrailers({ 'grpc-status': '14' }));
      this.#stream.end();
      return;
    }
    this.#stream.close(h2Code);
  }

  refuse(refusal: Refusal): void {
    if (this.aborted) return;
    if (this.responded) {
      this.abort();
      return;
    }
    const headers = refusalHeaders(refusal, this.connection, this.grpc);
    this.respond(this.grpc ? 200 : refusal.status, '', headers, false);
    if (refusal.close) this.#stream.session?.close();
    this.#stopBody();
  }

  /**
   * The answer is complete and the client may stop sending (RFC 9113 8.1). It is told so a little later, or once it has
   * sent too much: a client library that gets RST_STREAM together with the answer may drop the answer.
   */
  #stopBody(): void {
    const stream = this.#stream;
    if (this.#bodyEnded || stream.destroyed) return;
    let left = maxDrainBytes;
    stream.unpipe();
    stream.on('data', (chunk: Buffer) => {
      left -= chunk.length;
      if (left < 0) stream.close(errorCode.noError);
    });
    stream.resume();
    const timer = setTimeout(() => stream.close(errorCode.noError), drainMs);
    stream.once('close', () => clearTimeout(timer));
  }
}
