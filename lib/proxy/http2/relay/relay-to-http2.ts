import { CodedError } from '../../../errors/coded-error.ts';
import type { Admitted } from '../../http/admitted.ts';
import { type HeaderList, headerValue, withoutIdentity } from '../../http/headers.ts';
import { type LostBy, maySendAgain, type Repeatable, repeatable } from '../../http/retry.ts';
import type { RequestScope } from '../../recorder.ts';
import type { AppSession } from '../app/app-session.ts';
import type { AppSessionPool } from '../app/app-session-pool.ts';
import type { AppStream, Http2ResponseSink } from '../app/app-stream.ts';
import { appLimits } from '../app/limits.ts';
import type { Waiting } from '../app/waiting-requests.ts';
import type { ClientStream, RequestRelay } from '../client/client-stream.ts';
import { encodeFields } from '../hpack/encoder.ts';
import type { Http2ResponseHead } from '../message/response-head.ts';
import { HeldBytes } from '../session/held-bytes.ts';
import { errorCode, reasonName } from '../session/protocol.ts';

/** What an app has said of its stream is true of the client's, and says more than any response of ours. */
export class ToldByReset extends CodedError {
  readonly reset: number;
  /**
   * @param reset REFUSED_STREAM: the app has done nothing with the request (RFC 9113 8.7), and it cannot be sent again from
   * here. CANCEL: a gRPC server ends a call so, at its deadline for one; UNAVAILABLE would ask for another one.
   */
  constructor(reset: typeof errorCode.refusedStream | typeof errorCode.cancel) {
    const code = reset === errorCode.cancel ? 'ERR_SALLYPORT_CANCELLED' : 'ERR_SALLYPORT_NOT_PROCESSED';
    super(code, `the application ended the stream: ${reasonName(reset)}`);
    this.reset = reset;
  }
}

/**
 * The app has said that it takes no header list of this size. It may end the session for one that comes all the same
 * (Netty does), and with it the requests of others.
 */
function headTooLarge(): Error {
  return new CodedError('ERR_SALLYPORT_HEAD_TOO_LARGE', 'the request head is larger than the application takes');
}

/** As over HTTP/1: 504. */
function contentUnread(): Error {
  return new CodedError('ERR_SALLYPORT_REQUEST_TIMEOUT', 'the application has read no content for too long');
}

/** One permitted request on its way to an HTTP/2 app (prior knowledge), and the response on its way back. */
export class Http2Relay implements RequestRelay, Http2ResponseSink, Waiting {
  readonly admitted: Admitted;
  readonly #client: ClientStream;
  readonly #scope: RequestScope;
  readonly #sessions: AppSessionPool;
  readonly #block: Buffer;
  readonly #onFailed: (error: unknown) => void;
  #app: AppStream | null = null;
  /** Content that came before a session was there. */
  readonly #early = new HeldBytes();
  /** Bytes that the client may send again once the app has taken what waits; and the same the other way. */
  #owedToClient = 0;
  #owedToApp = 0;
  #repeatable: Repeatable;
  /** Some of a response has come. */
  #begun = false;
  #grpcStatus: string | null = null;
  #wantsRoom: number | null = null;
  waitsSince = 0;

  /**
   * @param block the request's header block for the app.
   * @param onFailed called instead of a response, at most once.
   */
  constructor(
    admitted: Admitted,
    client: ClientStream,
    sessions: AppSessionPool,
    block: Buffer,
    onFailed: (error: unknown) => void,
  ) {
    this.admitted = admitted;
    this.#client = client;
    this.#scope = admitted.scope;
    this.#sessions = sessions;
    this.#block = block;
    this.#onFailed = onFailed;
    this.#repeatable = repeatable(client.method, !client.remoteEnded);
  }

  start(): void {
    const client = this.#client;
    client.relay = this;
    if (client.remoteEnded) {
      this.#scope.requestFrame(0);
      this.#scope.requestEnded();
    }
    this.#send();
  }

  /** The client is gone. */
  clientGone(): void {
    const app = this.#app;
    this.#app = null;
    if (app === null) this.#sessions.cancel(this);
    else app.reset(errorCode.cancel);
    this.#scope.responseEnded(null, '');
  }

  #send(): void {
    const session = this.#sessions.take(this);
    if (session === null) this.#sessions.wait(this);
    else this.ready(session);
  }

  get owner(): object {
    return this.#client.connection;
  }

  get isAlone(): boolean {
    return this.#client.isAlone;
  }

  get room(): number {
    const { remoteEnded, requestHead } = this.#client;
    if (this.#wantsRoom === null) {
      const { contentLength } = requestHead;
      const known = contentLength === -1 ? appLimits.uploadRoom : Math.min(contentLength, appLimits.uploadRoom);
      this.#wantsRoom = remoteEnded ? 0 : Math.max(1, known);
    }
    return this.#wantsRoom;
  }

  /** By a fault of ours. */
  destroy(): void {
    this.#client.destroy();
  }

  ready(session: AppSession): void {
    const client = this.#client;
    if (client.requestHead.listBytes > session.maxListBytes) {
      this.failed(headTooLarge());
      return;
    }
    const complete = client.remoteEnded && this.#early.isEmpty && client.trailers.length === 0;
    const app = session.request(this.admitted, this.#block, client.method === 'HEAD', complete, this);
    this.#app = app;
    if (complete) return;
    client.holdContent(0);
    for (const bytes of this.#early.takeAll()) this.#forward(app, bytes, 0, bytes.length);
    if (client.remoteEnded) this.#finish(app);
  }

  failed(error: Error): void {
    this.#client.relay = null;
    this.#onFailed(error);
    this.#scope.responseEnded(null, 'unclassified');
  }

  content(bytes: Buffer, from: number, to: number): void {
    this.#scope.requestFrame(to - from);
    if (this.#app !== null) this.#forward(this.#app, bytes, from, to);
    else {
      this.#early.push(bytes, from, to);
      this.#client.holdContent(this.#early.bytes);
    }
  }

  #forward(app: AppStream, bytes: Buffer, from: number, to: number): void {
    if (app.write(bytes, from, to)) {
      this.#client.consume(to - from);
      return;
    }
    this.#owedToClient += to - from;
    app.onDrain(() => {
      this.#client.consume(this.#owedToClient);
      this.#owedToClient = 0;
    });
  }

  contentEnded(): void {
    this.#scope.requestEnded();
    if (this.#app !== null) this.#finish(this.#app);
  }

  #finish(app: AppStream): void {
    const kept = withoutIdentity(this.#client.trailers);
    app.finish(kept.length === 0 ? null : encodeFields(kept));
  }

  interim(head: Http2ResponseHead): void {
    this.#repeatable = 'never';
    this.#begun = true;
    this.#client.inform(head);
  }

  head(head: Http2ResponseHead, endStream: boolean): void {
    this.#repeatable = 'never';
    if (this.#client.grpc) this.#grpcStatus = headerValue(head.fields, 'grpc-status');
    this.#scope.responseHead(head.status);
    this.#client.respondWith(head, !endStream);
  }

  data(bytes: Buffer, from: number, to: number): void {
    this.#scope.responseFrame(to - from);
    const app = this.#app;
    if (this.#client.write(bytes, from, to)) {
      app?.consume(to - from);
      return;
    }
    this.#owedToApp += to - from;
    this.#client.onDrain(() => {
      app?.consume(this.#owedToApp);
      this.#owedToApp = 0;
    });
  }

  ended(trailers: HeaderList): void {
    const app = this.#app;
    this.#app = null;
    this.#client.relay = null;
    if (this.#client.grpc) this.#grpcStatus = headerValue(trailers, 'grpc-status') ?? this.#grpcStatus;
    this.#client.end(trailers);
    this.#scope.responseEnded(this.#grpcStatus, '');
    // A response that did not wait for the whole request: the app has no use for the rest.
    if (app !== null && !app.localEnded) app.reset(errorCode.cancel);
  }

  unread(): void {
    const client = this.#client;
    this.#app = null;
    client.relay = null;
    if (client.responded) client.abort(errorCode.internalError);
    else this.#onFailed(contentUnread());
    this.#scope.responseEnded(this.#grpcStatus, 'unclassified');
  }

  broken(code: number): void {
    this.#app = null;
    const loss: LostBy = code === errorCode.refusedStream ? 'unprocessed' : 'other';
    if (maySendAgain(this.#repeatable, loss)) {
      this.#repeatable = 'never';
      this.#send();
      return;
    }
    const client = this.#client;
    client.relay = null;
    // What the app says of its stream, or we of its connection, is not said of the client's, except that it was cancelled.
    if (client.responded) client.abort(code === errorCode.cancel ? errorCode.cancel : errorCode.internalError);
    else if (code === errorCode.refusedStream && !this.#begun) this.#onFailed(new ToldByReset(code));
    else if (code === errorCode.cancel && client.grpc) this.#onFailed(new ToldByReset(code));
    else this.#onFailed(new Error('the application closed the stream'));
    this.#scope.responseEnded(this.#grpcStatus, `h2(${reasonName(code)})`);
  }
}
