import { oddNamesOf } from '../../../policy/decision.ts';
import type { HeaderList, OriginalProtocol } from '../../../request-fields.ts';
import type { ConnectionFacts } from '../../connection-facts.ts';
import { Stall } from '../../fairness/buffer-budget.ts';
import type { Admitted, AdmittedNow, Refused } from '../../http/admitted.ts';
import type { Decided, Exchange } from '../../http/exchange.ts';
import { headerValues } from '../../http/headers.ts';
import { failures, type Refusal, refusalHeaders, upstreamFailure } from '../../http/refuse.ts';
import type { HttpConnection, RequestPipeline } from '../../http/request-pipeline.ts';
import { maxDrainBytes } from '../../limits.ts';
import { encodeFields } from '../hpack/encoder.ts';
import { lowerCase } from '../message/head.ts';
import type { RequestHead } from '../message/request-head.ts';
import { Http2ResponseHead } from '../message/response-head.ts';
import { noTrailers, Trailers } from '../message/trailers.ts';
import { errorCode } from '../session/protocol.ts';
import { Stream, type StreamHome } from '../session/stream.ts';
import { drainMs, maxProbeContent } from './limits.ts';

/** The connection of a client. */
export interface ClientStreamHome {
  readonly session: StreamHome;
  readonly connection: HttpConnection;
  readonly pipeline: RequestPipeline;
  readonly openStreams: number;
  /** The stream is over, and has left the table. */
  streamClosed(stream: ClientStream): void;
  /** Takes no more requests, and ends with the last that is open. */
  drain(): void;
}

/** Who deals with a request. */
export interface RequestRelay {
  /** The bytes are only lent. When they are dealt with, the stream's `consume` must be called. */
  content(bytes: Buffer, from: number, to: number): void;
  contentEnded(): void;
  /** The client is gone, or has given up the request, before it and its response have both ended. */
  clientGone(): void;
}

/** Content that still comes behind the end of the response: so many bytes are read away, until the timer ends the stream. */
interface UnwantedContent {
  left: number;
  timer: NodeJS.Timeout | null;
}

/** The last words of a gRPC call whose app is gone: UNAVAILABLE. */
const unavailable = encodeFields(['grpc-status', '14']);

/** One request of a client, and its response. */
export class ClientStream extends Stream implements Exchange {
  readonly requestHead: RequestHead;
  readonly version = 'HTTP/2.0';
  /** Its session has counted it. */
  readonly headBytes = 0;
  /** What comes with its head, whether or not it has all come since. */
  readonly carries: 'nothing' | 'body';
  #response: 'awaited' | 'begun' | 'ends in trailers' = 'awaited';
  relay: RequestRelay | null = null;
  /** Null until it is permitted. */
  admitted: Admitted | null = null;
  onAborted: (() => void) | null = null;
  readonly #home: ClientStreamHome;
  /** On the clock of `performance.now()`; 0 where nobody asks. */
  readonly startedAt: number;
  #unwanted: UnwantedContent | null = null;
  #contentStall: Stall | null = null;
  #lags = false;
  /** Bytes of content, counted of gRPC probes alone. */
  #probed = 0;
  protected override readonly isTimed = true;

  constructor(
    home: ClientStreamHome,
    id: number,
    head: RequestHead,
    carries: 'nothing' | 'body',
    sendWindow: number,
    receiveWindow: number,
  ) {
    super(home.session, id, sendWindow, receiveWindow);
    this.#home = home;
    this.carries = carries;
    this.requestHead = head;
    this.expected = head.contentLength;
    this.startedAt = home.pipeline.needsStart ? performance.now() : 0;
  }

  /** Content comes as soon as there is the stream. */
  get awaitsHead(): boolean {
    return false;
  }

  get responded(): boolean {
    return this.#response !== 'awaited';
  }

  get connection(): ConnectionFacts {
    return this.#home.connection.facts;
  }
  get method(): string {
    return this.requestHead.head.method;
  }
  get target(): string {
    return this.requestHead.head.target;
  }
  get path(): string {
    return this.requestHead.head.path;
  }
  get query(): string {
    return this.requestHead.head.query;
  }
  get host(): string {
    return this.requestHead.head.host;
  }
  get grpc(): boolean {
    return this.requestHead.head.grpc;
  }
  get originalProtocol(): OriginalProtocol | null {
    return this.requestHead.head.originalProtocol;
  }

  header(name: string): readonly string[] {
    return headerValues(this.requestHead.head.decided, name);
  }
  /** Of its connection's streams, the only one that is open. */
  get isAlone(): boolean {
    return this.#home.openStreams <= 1;
  }

  get decided(): Decided | null {
    return this.carries === 'nothing' ? this.requestHead.decided : this.requestHead.decidedWithContent;
  }
  set decided(decided: Decided | null) {
    if (this.carries === 'nothing') this.requestHead.decided = decided;
    else this.requestHead.decidedWithContent = decided;
  }

  get noted(): object | null {
    return this.carries === 'nothing' ? this.requestHead.noted : this.requestHead.notedWithContent;
  }
  set noted(noted: object | null) {
    if (this.carries === 'nothing') this.requestHead.noted = noted;
    else this.requestHead.notedWithContent = noted;
  }

  get oddNames(): readonly string[] {
    return oddNamesOf(this.requestHead.head.forward);
  }

  /** See `RequestPipeline.admitLate`. */
  admitLate(before: Admitted): AdmittedNow | Refused {
    const { pipeline, connection } = this.#home;
    const late = pipeline.admitLate(connection, this, before);
    if (late.kind === 'admitted') this.admitted = late;
    return late;
  }

  inform(head: Http2ResponseHead): void {
    if (this.closed || this.responded || head.status === 101) return;
    this.#home.session.output.headers(this.id, head.block, false);
  }

  respond(status: number, _statusText: string, headers: HeaderList, hasBody: boolean): void {
    const head = new Http2ResponseHead(status, lowerCase(headers), -1);
    this.respondWith(this.originalProtocol === null ? head : head.as(this.originalProtocol), hasBody);
  }

  respondWith(head: Http2ResponseHead, hasBody: boolean): void {
    if (this.closed || this.responded) return;
    // What the client has of such a response may be ended by a status of ours.
    this.#response = this.grpc && hasBody && head.mayEndInTrailers ? 'ends in trailers' : 'begun';
    this.#home.session.output.headers(this.id, head.block, !hasBody);
    this.#home.pipeline.responded(this, head.status, head.fields, this.startedAt);
    if (hasBody) return;
    this.happened('END_STREAM sent');
    this.halfClosed();
  }

  /** The response is complete. */
  end(trailers: HeaderList): void {
    this.endWith(trailers.length === 0 ? noTrailers : new Trailers(lowerCase(trailers)));
  }

  /** The same, for trailers of an HTTP/2 app. */
  endWith(trailers: Trailers): void {
    this.finish(trailers.block);
    this.#stopBody();
  }

  abort(code: number = errorCode.internalError, lastWords = unavailable): void {
    if (this.localEnded || this.closed) return;
    if (this.#response === 'ends in trailers' && code !== errorCode.cancel) {
      // The status of a gRPC call lives in its trailers; without them the client would only see a broken stream.
      this.finish(lastWords);
      this.#stopBody();
      return;
    }
    this.relay = null;
    this.reset(code);
  }

  refuse(refusal: Refusal): void {
    if (this.closed) return;
    const headers = refusalHeaders(refusal, this.connection, this.grpc);
    if (this.responded) {
      // But for the content type.
      this.abort(errorCode.internalError, encodeFields(headers.slice(2)));
      return;
    }
    this.respond(this.grpc ? 200 : refusal.status, '', headers, false);
    if (refusal.close) this.#home.drain();
    this.#stopBody();
  }

  /**
   * It was permitted, and could not be served, or not to the end.
   *
   * @param reset what the client is to be told: it knows what to do then, and a 502 would say that nobody knows what has become
   * of its request. Null: a response of ours.
   */
  failed(error: unknown, reset: number | null): void {
    const { admitted } = this;
    if (admitted === null) return;
    const { pipeline, connection } = this.#home;
    const failure = upstreamFailure(error);
    if (reset === null) {
      pipeline.fail(connection, admitted, this, failure);
      return;
    }
    if (this.responded) pipeline.brokeOff(connection, admitted, this, failure);
    else pipeline.failed(connection, admitted, this, failure);
    this.abort(reset);
  }

  /**
   * The response takes too long: the relay is told that the client is gone, and the client that it is late.
   *
   * @returns false where all of the response has left.
   */
  giveUp(): boolean {
    if (this.closed || this.localEnded) return false;
    const { relay, admitted } = this;
    const { pipeline, connection } = this.#home;
    this.relay = null;
    if (this.responded && this.waits) {
      // Without a relay the app has done its part.
      if (relay !== null && admitted !== null) pipeline.brokeOff(connection, admitted, this, failures.requestTimeout);
      // Its client does not take what there is; a status behind that would wait as well.
      this.reset(errorCode.internalError);
    } else if (admitted !== null) {
      pipeline.fail(connection, admitted, this, failures.requestTimeout);
    } else {
      this.abort();
    }
    admitted?.scope.responseEnded(null, 'unclassified');
    relay?.clientGone();
    this.onAborted?.();
    this.onAborted = null;
    return true;
  }

  /** Policy has changed: ends the request where that refuses it by now. */
  recheck(): void {
    const { admitted, relay } = this;
    if (admitted === null || this.closed || this.localEnded) return;
    const { pipeline, connection } = this.#home;
    const again = pipeline.recheck(connection, this, admitted);
    if (again.kind === 'admitted') {
      this.admitted = again;
      return;
    }
    this.admitted = null;
    this.relay = null;
    const { refusal } = again;
    if (!this.responded) admitted.scope.refused(refusal.status, refusal.grpc);
    // Its client does not take what there is; a status behind that would wait as well.
    const hasStatus = this.#response === 'ends in trailers' && !this.waits;
    if (this.responded && !hasStatus) this.reset(errorCode.internalError);
    else this.refuse(refusal);
    admitted.scope.responseEnded(hasStatus ? String(refusal.grpc) : null, hasStatus ? '' : 'unclassified');
    relay?.clientGone();
    this.onAborted?.();
    this.onAborted = null;
  }

  /**
   * The response is complete and the client may stop sending (RFC 9113 8.1). The reset comes a little after the response has
   * left, or once it has sent too much: a client library that gets RST_STREAM together with the response may drop the response.
   */
  #stopBody(): void {
    if (this.remoteEnded || this.closed || this.#unwanted !== null) return;
    this.relay = null;
    this.#unwanted = { left: maxDrainBytes, timer: null };
    if (this.localEnded) this.left();
  }

  protected override left(): void {
    const unwanted = this.#unwanted;
    if (unwanted === null || this.closed) return;
    if (unwanted.left < 0) this.reset(errorCode.noError);
    else unwanted.timer = setTimeout(() => this.reset(errorCode.noError), drainMs);
  }

  override received(bytes: Buffer, from: number, to: number): void {
    if (this.relay !== null) {
      if (this.#isProbe) this.#probed += to - from;
      if (this.#probed > maxProbeContent) this.#refuseProbe();
      else this.relay.content(bytes, from, to);
      return;
    }
    const unwanted = this.#unwanted;
    if (unwanted !== null) {
      unwanted.left -= to - from;
      if (unwanted.left < 0) {
        // A reset would take with it what of the response still waits; without room, the client has to wait as well.
        if (this.localEnded) this.reset(errorCode.noError);
        return;
      }
    }
    this.consume(to - from);
  }

  /** Only that makes it permitted: it is one short message, at once. */
  get #isProbe(): boolean {
    return this.admitted?.permit.probe === 'grpc';
  }

  #refuseProbe(): void {
    const { admitted } = this;
    if (admitted !== null) {
      const reason = 'a gRPC probe with more content than a health check has';
      this.#home.connection.scope.badRequest(admitted.policy, reason);
    }
    this.cutOff(errorCode.enhanceYourCalm);
  }

  override ended(): void {
    this.relay?.contentEnded();
  }

  override broken(_code: number): void {
    const { relay } = this;
    this.relay = null;
    relay?.clientGone();
    this.onAborted?.();
    this.onAborted = null;
  }

  /** For content of the request that waits for the app; 0: none does any more. */
  holdContent(bytes: number): void {
    if (bytes === 0) {
      this.#contentStall?.release();
    } else if (!this.closed) {
      const { budget, holding } = this.#home.session;
      this.#contentStall ??= new Stall(budget, this, holding);
      this.#contentStall.hold(bytes, false);
    }
  }

  /**
   * Looks whether the client keeps the app waiting for content. The app may take its time, and so may a client whose
   * response has begun, or whose gRPC call may be silent for as long as it likes. A probe may not.
   */
  lookForContent(): void {
    const { receive, unconsumed } = this.windows;
    const isPatient = this.grpc && !this.#isProbe;
    const lags = !this.remoteEnded && !this.responded && !isPatient && receive > 0 && unconsumed === 0;
    if (lags === this.#lags) return;
    this.#lags = lags;
    if (lags) this.stall.hold(0);
    else if (this.stall.bytes === 0) this.stall.release();
  }

  protected override removed(): void {
    this.#home.streamClosed(this);
  }

  protected override close(): void {
    super.close();
    this.#contentStall?.release();
    clearTimeout(this.#unwanted?.timer ?? undefined);
  }
}
