import type { HeaderList, OriginalProtocol } from '../../../request-fields.ts';
import { sourceOf } from '../../fairness/sources.ts';
import { guarded } from '../../guard.ts';
import type { AdmittedNow } from '../../http/admitted.ts';
import { fieldPairs } from '../../http/field-lines.ts';
import { appHop, isLastRequest } from '../../http/last-request.ts';
import { sendingLost } from '../../http/retry.ts';
import type { AppConnection, ResponseSink } from '../../http1/app-connection.ts';
import type { AppPool } from '../../http1/app-pool.ts';
import { type ChunkReceiver, ChunkScanner } from '../../http1/chunk-scanner.ts';
import { writeText } from '../../http1/joined-write.ts';
import type { ResponseHead } from '../../http1/plain-response.ts';
import type { PendingConnect } from '../../upstream/upstreams.ts';
import type { AppExchange } from '../app/app-exchange.ts';
import { lowerCase } from '../message/head.ts';
import { Http2ResponseHead } from '../message/response-head.ts';
import { noTrailers, Trailers } from '../message/trailers.ts';
import { HeldBytes } from '../session/held-bytes.ts';
import type { AppSide, Relay } from './relay.ts';

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

/** Requests that go to an HTTP/1.1 app. The head of one is a text with its empty line, one character per byte. */
export class Http1Side implements AppSide<string> {
  readonly #pool: AppPool;
  readonly #protocol: OriginalProtocol;
  #connecting: PendingConnect | null = null;

  /** For one request. */
  constructor(pool: AppPool, protocol: OriginalProtocol) {
    this.#pool = pool;
    this.#protocol = protocol;
  }

  open(relay: Relay<string>, admitted: AdmittedNow, isAgain: boolean): Http1AppExchange | null {
    const app = isAgain ? null : this.#pool.take(admitted, relay.repeatable);
    if (app !== null) return new Http1AppExchange(app, admitted, relay, this.#protocol);
    const connected = (error: Error | null, connection: AppConnection | null): void => {
      this.#connecting = null;
      if (connection !== null) this.#connected(connection, relay);
      else relay.lost({ kind: 'connection', by: 'other', error: error ?? new Error('not connected') });
    };
    const guardedConnected = guarded('a connection to the app', relay, connected);
    const asker = sourceOf(relay.clientIp);
    this.#connecting = this.#pool.connect(admitted, asker, guardedConnected, !relay.isAlone);
    return null;
  }

  #connected(connection: AppConnection, relay: Relay<string>): void {
    const admitted = relay.admitLate();
    if (admitted === null) this.#pool.putBack(connection);
    else relay.begun(new Http1AppExchange(connection, admitted, relay, this.#protocol));
  }

  cancel(): void {
    this.#connecting?.cancel();
    this.#connecting = null;
  }
}

/** One request on a connection to the app. Its trailers end here: apps get only what they were promised (RFC 9110 6.5.1). */
class Http1AppExchange implements AppExchange, ResponseSink, ChunkReceiver {
  readonly #app: AppConnection;
  readonly #relay: Relay<string>;
  readonly #protocol: OriginalProtocol;
  readonly #chunked: boolean;
  /** Content that waits for what was written before it. */
  #held = new HeldBytes();
  /** Bytes of content of the write that is under way; the client may send as many again when it is done. */
  #writing = 0;
  /** Whether all of the request has come from the client, and been written to the app. */
  #request: 'coming' | 'come' | 'written' = 'coming';
  /** The connection is another's, or nobody's. */
  #isOver = false;
  #chunks: ChunkScanner | null = null;
  /** Of the response. */
  #trailers: HeaderList | null = null;

  /** Sends its head. */
  constructor(app: AppConnection, admitted: AdmittedNow, relay: Relay<string>, protocol: OriginalProtocol) {
    this.#app = app;
    this.#relay = relay;
    this.#protocol = protocol;
    this.#chunked = relay.hasContent && relay.contentLength === -1;
    const { reuse } = appHop(
      this.#chunked ? 'HTTP/1.1' : protocol,
      false,
      isLastRequest(relay.method, relay.hasContent),
    );
    app.begin(admitted, relay.method, reuse, this);
    const { socket } = app;
    if (relay.isComplete && !this.#chunked) {
      this.#request = 'written';
      writeText(socket, relay.requestHead);
      return;
    }
    // What there is of the content leaves together with the head.
    socket.cork();
    process.nextTick(() => socket.uncork());
    socket.write(relay.requestHead, 'latin1');
    if (relay.isComplete) this.contentEnded();
  }

  takeOver(early: HeldBytes | null, end: Trailers | null): void {
    if (early !== null) this.#held = early;
    if (end !== null) this.#request = 'come';
    this.#advance();
  }

  content(bytes: Buffer, from: number, to: number, isLast: boolean): void {
    this.#held.push(bytes, from, to);
    if (isLast) this.#request = 'come';
    this.#advance();
    if (this.#held.bytes > 0) this.#relay.holds(this.#held.memory + this.#writing);
  }

  contentEnded(): void {
    // Its last content may have said so.
    if (this.#request === 'coming') this.#request = 'come';
    this.#advance();
  }

  /** Writes what is held, all at once: the connection gets no more before it has taken that. */
  #advance(): void {
    if (this.#writing > 0 || this.#request === 'written') return;
    const { socket } = this.#app;
    const end = this.#request === 'come';
    if (end) this.#request = 'written';
    const { bytes } = this.#held;
    if (bytes === 0) {
      if (end && this.#chunked) socket.write(lastChunk, 'latin1');
      return;
    }
    this.#writing = bytes;
    const blocks = this.#held.takeAll();
    const done = (error?: Error | null): void => {
      if (error === undefined || error === null) this.#written();
    };
    socket.cork();
    if (this.#chunked) socket.write(`${bytes.toString(16)}\r\n`, 'latin1');
    for (const block of blocks) socket.write(block);
    socket.write(this.#chunked ? `\r\n${end ? lastChunk : ''}` : '', 'latin1', done);
    socket.uncork();
  }

  #written(): void {
    if (this.#isOver) return;
    const bytes = this.#writing;
    this.#writing = 0;
    this.#relay.taken(bytes);
    this.#advance();
    this.#relay.holds(this.#held.memory + this.#writing);
  }

  consume(): void {
    if (!this.#isOver) this.#app.socket.resume();
  }

  abandon(): void {
    this.#isOver = true;
    this.#app.abandon();
  }

  get requestComplete(): boolean {
    return this.#request === 'written';
  }

  onHead(head: ResponseHead, body: Buffer): void {
    const response = responseHeadOf(head, this.#protocol);
    if (head.status < 200) {
      this.#relay.interim(response);
      return;
    }
    const { framing } = head;
    if (framing.kind === 'chunked') this.#chunks = new ChunkScanner(this);
    this.#relay.head(response, framing.kind === 'none' || (framing.kind === 'length' && framing.bytes === 0));
    if (body.length > 0) this.onBody(body);
  }

  onBody(body: Buffer): void {
    if (this.#chunks !== null) this.#chunks.scan(body, 0, body.length);
    else this.chunkData(body, 0, body.length);
  }

  chunkData(bytes: Buffer, from: number, to: number): void {
    if (!this.#relay.data(bytes, from, to) && !this.#isOver) this.#app.socket.pause();
  }

  chunkTrailer(name: string, value: string): void {
    this.#trailers ??= [];
    this.#trailers.push(name, value);
  }

  onEnd(awaiting: AppConnection | null): void {
    this.#isOver = true;
    awaiting?.abandon();
    this.#relay.ended(this.#trailers === null ? noTrailers : new Trailers(lowerCase(this.#trailers)));
  }

  onFailed(error: Error): void {
    const by = sendingLost(this.#app);
    this.#isOver = true;
    this.#relay.lost({ kind: 'connection', by, error });
  }

  /** After a fault of ours. */
  destroy(): void {
    this.#isOver = true;
    this.#relay.lost({ kind: 'fault' });
  }
}
