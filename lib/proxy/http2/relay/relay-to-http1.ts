import { sourceOf } from '../../fairness/sources.ts';
import { guarded } from '../../guard.ts';
import type { Admitted } from '../../http/admitted.ts';
import { fieldPairs } from '../../http/field-lines.ts';
import type { HeaderList } from '../../http/headers.ts';
import { isLastRequest } from '../../http/last-request.ts';
import { type Failure, upstreamFailure } from '../../http/refuse.ts';
import { maySendAgain, type Repeatable, repeatable, sendingLost } from '../../http/retry.ts';
import type { AppConnection, ResponseSink } from '../../http1/app-connection.ts';
import type { AppPool } from '../../http1/app-pool.ts';
import { type ChunkReceiver, ChunkScanner } from '../../http1/chunk-scanner.ts';
import type { ResponseHead } from '../../http1/plain-response.ts';
import type { RequestScope } from '../../recorder.ts';
import type { PendingConnect } from '../../upstream/upstreams.ts';
import type { ClientStream, RequestRelay } from '../client/client-stream.ts';
import { lowerCase, type OriginalProtocol } from '../message/head.ts';
import { Http2ResponseHead } from '../message/response-head.ts';
import { HeldBytes } from '../session/held-bytes.ts';
import { errorCode } from '../session/protocol.ts';

/** Apps repeat their heads; a head that is known is the same object each time. */
const responseHeads: Readonly<Record<OriginalProtocol, WeakMap<ResponseHead, Http2ResponseHead>>> = {
  'HTTP/1.1': new WeakMap(),
  'HTTP/1.0': new WeakMap(),
};

function responseHeadOf(head: ResponseHead, protocol: OriginalProtocol): Http2ResponseHead {
  let response = responseHeads[protocol].get(head);
  if (response === undefined) {
    const lines = head.forward.slice(head.forward.indexOf('\r\n') + 2);
    response = new Http2ResponseHead(head.status, lowerCase(fieldPairs(lines)), -1).as(protocol);
    responseHeads[protocol].set(head, response);
  }
  return response;
}

const lastChunk = '0\r\n\r\n';

/** One permitted request on its way to an HTTP/1.1 app, and the response on its way back. */
export class Http1Relay implements RequestRelay, ResponseSink, ChunkReceiver {
  readonly #admitted: Admitted;
  readonly #client: ClientStream;
  readonly #scope: RequestScope;
  readonly #pool: AppPool;
  readonly #head: string;
  readonly #protocol: OriginalProtocol;
  readonly #onFailed: (failure: Failure) => void;
  readonly #chunked: boolean;
  readonly #isLast: boolean;
  #app: AppConnection | null = null;
  #connecting: PendingConnect | null = null;
  /** Content that waits for a connection, or for what was written before it. */
  readonly #held = new HeldBytes();
  #heldBytes = 0;
  /** Bytes of content of the write that is under way; the client may send as many again when it is done. */
  #writing = 0;
  /** The whole request has been written. */
  #sent = false;
  #repeatable: Repeatable;
  #chunks: ChunkScanner | null = null;
  #trailers: HeaderList = [];

  /**
   * @param head the request's head with its empty line, one character per byte.
   * @param onFailed called instead of a response, at most once.
   */
  constructor(
    admitted: Admitted,
    client: ClientStream,
    pool: AppPool,
    head: string,
    protocol: OriginalProtocol,
    onFailed: (failure: Failure) => void,
  ) {
    this.#admitted = admitted;
    this.#client = client;
    this.#scope = admitted.scope;
    this.#pool = pool;
    this.#head = head;
    this.#protocol = protocol;
    this.#onFailed = onFailed;
    this.#chunked = !client.remoteEnded && client.requestHead.contentLength === -1;
    this.#repeatable = repeatable(client.method, !client.remoteEnded);
    this.#isLast = isLastRequest(client.method, !client.remoteEnded);
  }

  start(): void {
    const client = this.#client;
    client.relay = this;
    if (client.remoteEnded) {
      this.#scope.requestFrame(0);
      this.#scope.requestEnded();
    }
    const app = this.#pool.take(this.#admitted, this.#repeatable);
    if (app === null) this.#connect();
    else this.#send(app);
  }

  /** The client is gone. */
  clientGone(): void {
    this.#connecting?.cancel();
    this.#connecting = null;
    this.#app?.abandon();
    this.#app = null;
    this.#scope.responseEnded(null, '');
  }

  #connect(): void {
    const connected = (error: Error | null, app: AppConnection | null): void => {
      this.#connecting = null;
      if (app === null) this.onFailed(error ?? new Error('not connected'));
      else this.#send(app);
    };
    const guardedConnected = guarded('a connection to the app', this.#client, connected);
    this.#connecting = this.#pool.connect(
      this.#admitted,
      sourceOf(this.#client.connection.client.ip),
      guardedConnected,
      !this.#client.isAlone,
    );
  }

  #send(app: AppConnection): void {
    this.#app = app;
    app.begin(this.#admitted, this.#client.method, this.#isLast, this);
    const { socket } = app;
    if (this.#client.remoteEnded && this.#held.isEmpty && !this.#chunked) {
      this.#sent = true;
      socket.write(this.#head, 'latin1');
      return;
    }
    // What there is of the content leaves together with the head.
    socket.cork();
    process.nextTick(() => socket.uncork());
    socket.write(this.#head, 'latin1');
    this.#advance(app);
  }

  content(bytes: Buffer, from: number, to: number): void {
    this.#scope.requestFrame(to - from);
    this.#held.push(bytes, from, to);
    this.#heldBytes += to - from;
    if (this.#app !== null) this.#advance(this.#app);
    if (this.#heldBytes > 0) this.#client.holdContent(this.#heldBytes + this.#writing);
  }

  contentEnded(): void {
    this.#scope.requestEnded();
    if (this.#app !== null) this.#advance(this.#app);
  }

  /** Writes what is held, all at once: the app's connection gets no more before it has taken that. */
  #advance(app: AppConnection): void {
    if (this.#writing > 0 || this.#sent) return;
    const { socket } = app;
    // Trailers of the request end here: HTTP/1 apps get only what they were promised (RFC 9110 6.5.1).
    const end = this.#client.remoteEnded;
    this.#sent = end;
    const bytes = this.#heldBytes;
    if (bytes === 0) {
      if (end && this.#chunked) socket.write(lastChunk, 'latin1');
      return;
    }
    this.#writing = bytes;
    this.#heldBytes = 0;
    const blocks = this.#held.takeAll();
    const done = (error?: Error | null): void => {
      if (error === undefined || error === null) this.#written(app);
    };
    socket.cork();
    if (this.#chunked) socket.write(`${bytes.toString(16)}\r\n`, 'latin1');
    for (const block of blocks) socket.write(block);
    socket.write(this.#chunked ? `\r\n${end ? lastChunk : ''}` : '', 'latin1', done);
    socket.uncork();
  }

  #written(app: AppConnection): void {
    if (this.#app !== app) return;
    const bytes = this.#writing;
    this.#writing = 0;
    this.#client.consume(bytes);
    this.#advance(app);
    this.#client.holdContent(this.#heldBytes);
  }

  get requestComplete(): boolean {
    return this.#sent;
  }

  onHead(head: ResponseHead, body: Buffer): void {
    const client = this.#client;
    this.#repeatable = 'never';
    const response = responseHeadOf(head, this.#protocol);
    if (head.status < 200) {
      client.inform(response);
      return;
    }
    this.#scope.responseHead(head.status);
    const { framing } = head;
    if (framing.kind === 'chunked') this.#chunks = new ChunkScanner(this);
    client.respondWith(response, framing.kind !== 'none' && !(framing.kind === 'length' && framing.bytes === 0));
    if (body.length > 0) this.onBody(body);
  }

  onBody(body: Buffer): void {
    if (this.#chunks !== null) this.#chunks.scan(body, 0, body.length);
    else this.chunkData(body, 0, body.length);
  }

  chunkData(bytes: Buffer, from: number, to: number): void {
    this.#scope.responseFrame(to - from);
    if (this.#client.write(bytes, from, to)) return;
    const app = this.#app;
    app?.socket.pause();
    this.#client.onDrain(() => {
      // It may be another's by now.
      if (app !== null && this.#app === app) app.socket.resume();
    });
  }

  chunkTrailer(name: string, value: string): void {
    this.#trailers.push(name, value);
  }

  onEnd(): void {
    this.#app = null;
    this.#client.relay = null;
    this.#client.end(this.#trailers);
    this.#scope.responseEnded(null, '');
  }

  /** After a fault of ours. */
  destroy(): void {
    this.#app = null;
    this.#client.relay = null;
    this.#client.abort(errorCode.internalError);
    this.#scope.responseEnded(null, 'unclassified');
  }

  onFailed(error: Error): void {
    const loss = sendingLost(this.#app);
    this.#app = null;
    if (maySendAgain(this.#repeatable, loss)) {
      // An idle connection that the app closed just as we took it: once more, on a new one.
      this.#repeatable = 'never';
      this.#connect();
      return;
    }
    const client = this.#client;
    client.relay = null;
    if (client.responded) client.abort(errorCode.internalError);
    else this.#onFailed(upstreamFailure(error));
    this.#scope.responseEnded(null, 'unclassified');
  }
}
