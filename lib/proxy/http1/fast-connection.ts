import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Rostered } from '../../roster.ts';
import type { Admitted } from '../admitted.ts';
import { guarded, internalFault } from '../guard.ts';
import { outgoingLines } from '../outgoing-fields.ts';
import type { RequestScope } from '../recorder.ts';
import { type Failure, failures, type Refusal, refusalHeaders, upstreamFailure } from '../refuse.ts';
import type { HttpConnection, Occupant, RequestPipeline } from '../request-pipeline.ts';
import { sourceOf } from '../sources.ts';
import { resetOrDestroy } from '../tcp/forward.ts';
import { bulkRead, longRead, type PutOff, type TurnTaker, turn } from '../turn.ts';
import type { PendingConnect } from '../upstream.ts';
import type { AppConnection, ResponseSink } from './app-connection.ts';
import type { AppPool } from './app-pool.ts';
import { fieldLines, fieldValues } from './field-lines.ts';
import { idempotent } from './idempotent.ts';
import { endWith } from './last-answer.ts';
import { halfOpenMs, maxDrainBytes, sliceMs, sliceRequests } from './limits.ts';
import { maxPlainHead, PlainRequest, readPlainHead } from './plain-request.ts';
import type { ResponseHead } from './plain-response.ts';
import { Unread } from './unread.ts';

const nothing = Buffer.alloc(0);

/** Bodies up to this size travel as one string with their head: one write, and the lent buffer is free again. */
const oneWrite = 8 * 1024;

/** Where a fault of ours was met. */
const entry = 'HTTP/1, the fast lane';

/** Milliseconds for which a connection without requests remembers the head of its last one. */
const rememberMs = 1000;

/** What a connection needs of the lane that it is on. */
export interface Lane {
  readonly pipeline: RequestPipeline;
  /** A stop has begun: every answer is the last of its connection. */
  readonly draining: boolean;
  readonly onBadRequest: (connection: HttpConnection, reason: string) => void;
  /** The connection is closed, or has gone over to the library lane. */
  forget(connection: FastConnection): void;
  /** Takes it over for good; `unread` comes first. */
  handOver(connection: HttpConnection, socket: Socket, unread: Buffer): void;
}

/** Where a connection is between two requests. */
type Stage =
  /** Waiting for a request head; some of it may be here. */
  | 'head'
  /** A request is being answered; its body, if any, has come. */
  | 'answer'
  /** A request is being answered, or has been, and more of its body is to come. */
  | 'body'
  /** No request will be read any more. */
  | 'over';

/** One client connection on the fast lane. */
export class FastConnection implements ResponseSink, Rostered, Occupant, TurnTaker {
  rosterPlace = -1;
  readonly #lane: Lane;
  readonly #connection: HttpConnection;
  readonly #socket: Socket;
  readonly #pool: AppPool;
  readonly #maxHead: number;
  #stage: Stage = 'head';
  readonly #unread = new Unread();
  #idleSince = performance.now();
  /** When the first byte of a head came that is not complete yet. */
  #headSince: number | null = null;
  #advancing = false;
  #resting: PutOff | null = null;
  /** Clients repeat themselves; this spares reading the same again. */
  #last: PlainRequest | null = null;
  #bodyLeft = 0;
  #drainLeft = 0;
  /** The answer that is being given is the last one. */
  #closing = false;
  /** This connection is to end as soon as nothing is in flight. */
  #retiring = false;
  /** The client sends nothing more; what it has sent is still answered. */
  #clientEnded = false;

  // The request being answered.
  #request: PlainRequest | null = null;
  #admitted: Admitted | null = null;
  #scope: RequestScope | null = null;
  #app: AppConnection | null = null;
  #connecting: PendingConnect | null = null;
  #startedAt = 0;
  #responded = false;
  #answered = false;
  /** The answer has no length of its own: its end is the connection's. */
  #untilClose = false;
  /** What to send again if an idle app connection proves to be closed; null when it must not be. */
  #repeat: string | null = null;

  constructor(lane: Lane, connection: HttpConnection, socket: Socket, pool: AppPool) {
    this.#lane = lane;
    this.#connection = connection;
    this.#socket = socket;
    this.#pool = pool;
    this.#maxHead = Math.min(maxPlainHead, lane.pipeline.limits.maxHeaderBytes - 4);
    connection.occupant = this;
    socket.on('data', this.#onData);
    socket.on('end', this.#onEnd);
    socket.on('close', this.#onClose);
    socket.on('drain', this.#onDrain);
  }

  /** Begins with bytes that were read before, and have had their turn; the stream flows. */
  start(bytes: Buffer): void {
    // Detection may have left it paused. Nothing more is read before this turn ends, and the request below may pause it.
    if (this.#socket.isPaused()) this.#socket.resume();
    if (bytes.length === 0) return;
    this.#unread.append(bytes);
    this.#rested();
  }

  // Not `guarded`, for the sake of connections that do nothing: it would keep a second function for each of these.
  readonly #onData = (chunk: Buffer): void => {
    try {
      this.#data(chunk);
    } catch (error) {
      internalFault(entry, this, error);
    }
  };
  readonly #onEnd = (): void => {
    try {
      this.#end();
    } catch (error) {
      internalFault(entry, this, error);
    }
  };
  readonly #onDrain = (): void => {
    try {
      this.#drain();
    } catch (error) {
      internalFault(entry, this, error);
    }
  };
  readonly #onClose = (): void => {
    try {
      this.#closed();
    } catch (error) {
      internalFault(entry, this, error);
    }
  };
  readonly #rested = (): void => {
    try {
      this.#goOn();
    } catch (error) {
      internalFault(entry, this, error);
    }
  };

  /** Ends it at once, for whatever reason. */
  destroy(): void {
    this.#socket.destroy();
  }

  #data(chunk: Buffer): void {
    if (this.#stage === 'body') {
      if (chunk.length >= bulkRead && !turn.take(chunk.length, this)) this.#socket.pause();
      this.#receiveBody(chunk);
    } else if (this.#stage === 'head') {
      this.#unread.append(chunk);
      if (this.#resting !== null) return;
      if (chunk.length >= longRead && !turn.mayWork()) this.#rest();
      else this.#advance();
    } else if (this.#stage === 'answer') {
      // Pipelined: its turn comes when this answer is complete.
      this.#unread.append(chunk);
      this.#socket.pause();
    }
  }

  #end(): void {
    this.#clientEnded = true;
    this.#socket.setTimeout(halfOpenMs, () => this.#socket.destroy());
    if (this.#stage === 'answer') this.#closing ||= this.#unread.length === 0;
    else if (this.#stage === 'body') this.#socket.destroy();
    else if (this.#stage === 'head') this.#advance();
    else this.#socket.end();
  }

  #drain(): void {
    this.#app?.socket.resume();
    if (this.#stage === 'head' && this.#unread.length > 0) this.#advance();
  }

  #closed(): void {
    this.#stage = 'over';
    if (this.#resting !== null) this.#resting.run = null;
    this.#lane.forget(this);
    this.#connecting?.cancel();
    this.#connecting = null;
    this.#app?.abandon();
    this.#app = null;
    this.#scope?.responseEnded(null, '');
    this.#scope = null;
  }

  #goOn(): void {
    this.#resting = null;
    if (this.#stage === 'head') this.#advance();
  }

  /** Takes requests from what is unread for as long as none is being answered, then waits for the client. */
  #advance(): void {
    if (this.#resting !== null) return;
    this.#advancing = true;
    this.#takeNext();
    this.#advancing = false;
    if (this.#stage !== 'head' || this.#resting !== null) return;
    if (this.#socket.writableNeedDrain) {
      if (this.#unread.length > 0) this.#socket.pause();
    } else if (this.#clientEnded) {
      this.#socket.end();
    } else if (this.#socket.isPaused()) {
      this.#socket.resume();
    }
  }

  #takeNext(): void {
    let taken = 0;
    let startedAt = 0;
    // A client that does not take its answers gets no more of them: they would all wait in our memory.
    while (this.#stage === 'head' && this.#unread.length > 0 && !this.#socket.writableNeedDrain) {
      if (taken === 1) startedAt = performance.now();
      else if (taken >= sliceRequests || (taken > 1 && performance.now() - startedAt > sliceMs)) {
        this.#rest();
        return;
      }
      taken++;
      const chunk = this.#unread.bytes;
      const last = this.#last;
      if (last !== null && last.text.length === chunk.length && last.text === chunk.toString('latin1')) {
        this.#take(last, chunk.length);
        continue;
      }
      const at = this.#unread.look();
      if (typeof at === 'string') {
        if (this.#clientEnded) return;
        if (at === 'not-plain' || chunk.length > this.#maxHead) this.#handOver();
        else this.#headSince ??= performance.now();
        return;
      }
      const head = at > this.#maxHead ? null : readPlainHead(chunk.toString('latin1', 0, at + 4), last?.fields ?? null);
      if (head === null) {
        this.#handOver();
        return;
      }
      const request = new PlainRequest(head);
      this.#last = request;
      this.#take(request, at + 4);
    }
  }

  /** The others have their turn before the next of these pipelined requests. */
  #rest(): void {
    this.#socket.pause();
    this.#resting = turn.later(this.#rested);
  }

  /** Not plain: everything from this request on is the library lane's. */
  #handOver(): void {
    const socket = this.#socket;
    if (this.#clientEnded) {
      // Nothing can be put back on a stream that is over.
      this.#stage = 'over';
      socket.destroySoon();
      return;
    }
    socket.removeListener('data', this.#onData);
    socket.removeListener('end', this.#onEnd);
    socket.removeListener('close', this.#onClose);
    socket.removeListener('drain', this.#onDrain);
    this.#stage = 'over';
    this.#lane.forget(this);
    this.#lane.handOver(this.#connection, socket, this.#unread.bytes);
    this.#unread.keep(this.#unread.length);
  }

  /** @param from where what follows the head begins among what is unread. */
  #take(request: PlainRequest, from: number): void {
    const { pipeline } = this.#lane;
    const { fields } = request;
    const { bytes } = this.#unread;
    if (this.#clientEnded && bytes.length - from < fields.contentLength) {
      // The rest of its content will never come.
      this.#stage = 'over';
      this.#socket.destroySoon();
      return;
    }
    const took = Math.min(bytes.length - from, fields.contentLength);
    const body = took === 0 ? nothing : bytes.subarray(from, from + took);
    this.#unread.keep(from + took);
    this.#bodyLeft = fields.contentLength - took;
    this.#stage = this.#bodyLeft > 0 ? 'body' : 'answer';
    this.#closing =
      !fields.keepAlive || this.#lane.draining || this.#retiring || (this.#clientEnded && this.#unread.length === 0);
    // While requests wait, the stream does too, so that its end is seen in its turn.
    if (this.#unread.length > 0) this.#socket.pause();
    else if (this.#socket.isPaused()) this.#socket.resume();
    this.#request = request;
    this.#headSince = null;
    this.#startedAt = pipeline.needsStart ? performance.now() : 0;
    this.#responded = false;
    this.#answered = false;

    const admitted = pipeline.admit(this.#connection, request);
    if (admitted.kind === 'refused') {
      this.#refuse(admitted.refusal);
      return;
    }
    this.#admitted = admitted;
    const { scope } = admitted;
    this.#scope = scope;
    if (took > 0) scope.requestFrame(took);
    if (this.#bodyLeft === 0) scope.requestEnded();
    const lines = outgoingLines(this.#connection.facts.client, admitted, fields.forward);
    const head = `${request.line}${lines}${request.isLast ? 'connection: close\r\n' : ''}\r\n`;
    const mayRepeat = fields.contentLength === 0 && idempotent.has(request.method);
    const app = this.#pool.take(mayRepeat);
    this.#repeat = mayRepeat && app !== null ? head : null;
    if (app !== null) this.#send(app, head, body);
    else this.#connect(head, body);
  }

  #connect(head: string, body: Buffer): void {
    // What follows must wait for the app.
    if (this.#stage === 'body') this.#socket.pause();
    const connected = (error: Error | null, app: AppConnection | null): void => {
      this.#connecting = null;
      if (app === null) this.onFailed(error ?? new Error('not connected'));
      else {
        this.#send(app, head, body);
        if (this.#stage === 'body' && !app.socket.writableNeedDrain) this.#socket.resume();
      }
    };
    this.#connecting = this.#pool.connect(sourceOf(this.#connection.facts.client.ip), guarded(entry, this, connected));
  }

  #send(app: AppConnection, head: string, body: Buffer): void {
    this.#app = app;
    const { method, isLast } = this.#request as PlainRequest;
    app.begin(this.#admitted as Admitted, method, isLast, this);
    if (body.length === 0) {
      app.socket.write(head, 'latin1');
    } else if (body.length <= oneWrite) {
      app.socket.write(head + body.toString('latin1'), 'latin1');
    } else {
      app.socket.write(head, 'latin1');
      this.#relay(app, body);
    }
  }

  #receiveBody(chunk: Buffer): void {
    const took = Math.min(chunk.length, this.#bodyLeft);
    const body = took === chunk.length ? chunk : chunk.subarray(0, took);
    this.#bodyLeft -= took;
    if (took < chunk.length) this.#unread.append(chunk.subarray(took));
    if (this.#app !== null) {
      this.#scope?.requestFrame(took);
      this.#relay(this.#app, body);
    } else if (this.#answered) {
      // Nobody wants it: the answer came first. A little is read away to keep the connection.
      this.#drainLeft -= took;
      if (this.#drainLeft < 0) this.#closing = true;
    }
    if (this.#bodyLeft > 0) {
      if (this.#answered && this.#closing) this.#finish();
      return;
    }
    this.#scope?.requestEnded();
    this.#stage = 'answer';
    if (this.#unread.length > 0) this.#socket.pause();
    if (this.#answered) this.#finish();
  }

  #relay(app: AppConnection, body: Buffer): void {
    if (app.socket.write(body)) return;
    const socket = this.#socket;
    socket.pause();
    app.socket.once('drain', () => {
      if (this.#stage !== 'answer' || this.#unread.length === 0) socket.resume();
    });
  }

  get requestComplete(): boolean {
    return this.#stage !== 'body';
  }

  onHead(head: ResponseHead, body: Buffer): void {
    if (head.status < 200) {
      // 100 was never asked for here; 103 is the client's to use.
      if (head.status === 103) this.#write(`${head.forward}\r\n`);
      return;
    }
    this.#responded = true;
    this.#repeat = null;
    this.#scope?.responseHead(head.status);
    this.#untilClose = head.framing.kind === 'until-close';
    if (this.#untilClose) this.#closing = true;
    const lines = this.#closing ? `${head.forward}connection: close\r\n\r\n` : `${head.forward}\r\n`;
    if (body.length > 0) this.#scope?.responseFrame(body.length);
    if (body.length <= oneWrite) {
      this.#write(body.length === 0 ? lines : lines + body.toString('latin1'));
    } else {
      this.#write(lines);
      this.#writeBody(body);
    }
    this.#accessed(head.status, head.forward);
  }

  onBody(body: Buffer): void {
    this.#scope?.responseFrame(body.length);
    this.#writeBody(body);
  }

  #write(text: string): void {
    if (!this.#socket.write(text, 'latin1')) this.#app?.socket.pause();
  }

  /** The buffer is lent, and a write may take longer than the loan. */
  #writeBody(body: Buffer): void {
    if (!this.#socket.write(Buffer.from(body))) this.#app?.socket.pause();
  }

  onEnd(): void {
    this.#app = null;
    this.#scope?.responseEnded(null, '');
    this.#scope = null;
    this.#over();
  }

  onFailed(error: Error): void {
    const begun = this.#app?.answering === true;
    this.#app = null;
    const head = this.#repeat;
    this.#repeat = null;
    if (head !== null && !begun) {
      // An idle connection that the app closed just as we took it: once more, on a new one.
      this.#connect(head, nothing);
      return;
    }
    const scope = this.#scope;
    this.#scope = null;
    if (this.#responded) this.#breakOff();
    else this.#fail(upstreamFailure(error));
    scope?.responseEnded(null, 'unclassified');
  }

  /** The answer cannot be completed, and the client must be able to tell (RFC 9112 8). */
  #breakOff(): void {
    // An orderly end is how an answer of unknown length is complete, so only a reset says otherwise. TLS ends without
    // its closing alert, which says the same.
    if (this.#untilClose) resetOrDestroy(this.#socket);
    else this.#socket.destroy();
  }

  #fail(failure: Failure): void {
    const { pipeline } = this.#lane;
    const { policy, scope } = this.#admitted as Admitted;
    pipeline.failed(this.#connection, policy, this.#request as PlainRequest, failure);
    scope.refused(failure.refusal.status, failure.refusal.grpc);
    this.#refuse(failure.refusal);
  }

  #refuse(refusal: Refusal): void {
    if (refusal.close) this.#closing = true;
    const headers = refusalHeaders(refusal, this.#connection.facts, false);
    if (this.#closing) headers.push('connection', 'close');
    const lines = fieldLines(headers);
    this.#responded = true;
    this.#write(`HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status] ?? ''}\r\n${lines}\r\n`);
    this.#accessed(refusal.status, lines);
    this.#over();
  }

  /** The answer is complete. */
  #over(): void {
    this.#answered = true;
    this.#drainLeft = maxDrainBytes;
    if (this.#stage === 'body' && !this.#closing) {
      this.#socket.resume();
      return;
    }
    this.#finish();
  }

  /** Request and answer are complete, or the connection ends with this answer. */
  #finish(): void {
    this.#request = null;
    this.#admitted = null;
    if (this.#closing || this.#lane.draining || this.#retiring) {
      const incomplete = this.#stage === 'body';
      this.#stage = 'over';
      if (incomplete) endWith(this.#socket, null);
      else this.#close();
      return;
    }
    this.#stage = 'head';
    this.#idleSince = performance.now();
    if (!this.#advancing) this.#advance();
  }

  /** Closes after the last answer. What the kernel has taken already still arrives, so its own FIN is enough. */
  #close(): void {
    const plain = !('encrypted' in this.#socket);
    if (plain && this.#unread.length === 0 && this.#socket.writableLength === 0) this.#socket.destroy();
    else this.#socket.destroySoon();
  }

  #accessed(status: number, responseLines: string): void {
    const { pipeline } = this.#lane;
    if (!pipeline.logsAccess) return;
    const bytes = fieldValues(responseLines, 'content-length')[0] ?? '';
    pipeline.accessed(this.#connection.facts, this.#request as PlainRequest, status, bytes, this.#startedAt);
  }

  closeIfIdle(): void {
    // Requests that wait for their turn still get their answers, the next of which is the last.
    if (this.#stage === 'head' && this.#resting === null) this.#socket.destroySoon();
  }

  nextTurn(): void {
    if (this.#stage === 'body') {
      // The app is not there yet, or is slow: it says when this goes on.
      if (this.#connecting !== null || this.#app?.socket.writableNeedDrain === true) return;
    } else if (this.#unread.length > 0) {
      return;
    }
    if (this.#stage !== 'over') this.#socket.resume();
  }

  get betweenRequests(): boolean {
    return this.#stage === 'head' && this.#resting === null;
  }

  get awaitsContent(): boolean {
    return this.#stage === 'body';
  }

  get heldBytes(): number {
    return this.#unread.length;
  }

  readonly isTunnel = false;

  retire(): void {
    this.#retiring = true;
    if (!this.#responded) this.#closing = true;
    if (this.#stage === 'head' && this.#unread.length === 0) this.#socket.destroySoon();
  }

  giveUp(): void {
    const begun = this.#responded;
    const scope = this.#leaveApp();
    this.#stage = 'over';
    if (begun) this.#breakOff();
    else endWith(this.#socket, this.#socket.isPaused() ? '504 Gateway Timeout' : '408 Request Timeout');
    scope?.responseEnded(null, 'unclassified');
  }

  /** Nothing more is expected of the app. The scope is the caller's to end. */
  #leaveApp(): RequestScope | null {
    this.#connecting?.cancel();
    this.#connecting = null;
    this.#app?.abandon();
    this.#app = null;
    this.#repeat = null;
    const scope = this.#scope;
    this.#scope = null;
    return scope;
  }

  endOverdue(since: number): void {
    if (this.#scope === null || this.#startedAt > since) return;
    this.#lane.pipeline.limitReached('request_timeout', this.#connection);
    const scope = this.#leaveApp();
    if (this.#responded) this.#breakOff();
    else this.#fail(failures.requestTimeout);
    scope?.responseEnded(null, 'unclassified');
  }

  /** Deadlines: a head that does not come to an end, and connections that nobody uses. */
  sweep(now: number): void {
    if (this.#stage !== 'head') return;
    const { limits } = this.#lane.pipeline;
    if (this.#headSince !== null && now - this.#headSince > limits.headerTimeoutMs) {
      this.#stage = 'over';
      this.#lane.onBadRequest(this.#connection, 'ERR_HTTP_REQUEST_TIMEOUT');
      endWith(this.#socket, '408 Request Timeout');
    } else if (this.#headSince === null) {
      if (now - this.#idleSince > limits.http1IdleTimeoutMs) {
        this.#lane.pipeline.limitReached('http1_idle_timeout', this.#connection);
        this.#socket.destroySoon();
        // A head may have 16 KiB; those who use their connection seldom can have it read again.
      } else if (now - this.#idleSince > rememberMs) this.#last = null;
    }
  }
}
