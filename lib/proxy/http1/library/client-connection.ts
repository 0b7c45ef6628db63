import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Expirable } from '../../fairness/deadlines.ts';
import type { Rechecked } from '../../fairness/rechecks.ts';
import { fieldLines } from '../../http/field-lines.ts';
import { endAfterLastBytes, endWithStatus } from '../../http/last-bytes.ts';
import { failures, type MessageFault } from '../../http/refuse.ts';
import type { HttpConnection, Occupant, RequestPipeline } from '../../http/request-pipeline.ts';
import { TunnelRequest } from '../../http/tunnel-request.ts';
import { Kept } from '../../kept.ts';
import { resetOrDestroy } from '../../resets.ts';
import type { Http1Exchange } from './exchange.ts';
import type { FedConnection, SlicedFeed } from './sliced-feed.ts';

/** A head that Node has found late while we did not read it. Node does not look at one twice, so that we do. */
export type OverdueHead =
  | { readonly kind: 'none' }
  /** It has its time again once it is read, unless a request has come by then; `handedOver` counts those before it. */
  | { readonly kind: 'excused'; readonly handedOver: number }
  | { readonly kind: 'read again'; readonly deadline: Expirable };

export const noneOverdue: OverdueHead = { kind: 'none' };

/** Bytes of memory for each of a head in Node's parser: it keeps texts of their own for names and values, however short. */
const costOfHeadByte = 3;

/** And of a request that waits, besides its head: its objects. */
const costOfWaiting = 6 * 1024;

/** One client connection on the library lane. Requests are taken one after the other, however fast they are pipelined. */
export class LibraryConnection implements FedConnection, Occupant {
  readonly connection: HttpConnection;
  readonly socket: Socket;
  /**
   * `responding`: a request is being responded to, or is about to be; one to switch protocols is until the app has agreed.
   * `tunnel`: it has left HTTP.
   */
  state: 'between' | 'responding' | 'tunnel' = 'between';
  exchange: Http1Exchange | null = null;
  /** The last one, where its response came before all of its content. */
  answered: Http1Exchange | null = null;
  readonly waiting: (() => void)[] = [];
  /** It ends as soon as nothing is in flight. */
  isRetiring = false;
  /** Refuses what cannot be read any further, when what came before it has been answered. */
  refuse: (() => void) | null = null;
  handedOver = 0;
  overdueHead: OverdueHead = noneOverdue;
  /** Null before it begins, and for good once a request to switch protocols has come. */
  feed: SlicedFeed | null = null;
  /** What waits for the start. */
  bytesToCome = 0;
  /** What has come behind a request to switch protocols. */
  #earlyBytes = 0;
  /** Of a head that is not complete: Node's parser has it. */
  #headBytes = 0;
  #headsBefore = 0;
  /** In Node's parser, and of requests that wait. */
  readonly #kept: Kept;
  /** Of a tunnel. */
  #app: Duplex | null = null;
  #began: TunnelRequest | null = null;
  readonly pipeline: RequestPipeline;
  readonly #overflow: (connection: LibraryConnection) => void;

  constructor(
    connection: HttpConnection,
    socket: Socket,
    pipeline: RequestPipeline,
    overflow: (connection: LibraryConnection) => void,
  ) {
    this.connection = connection;
    this.socket = socket;
    this.pipeline = pipeline;
    this.#overflow = overflow;
    this.#kept = new Kept(connection.keeper);
  }

  get isWaiting(): boolean {
    return this.waiting.length > 0;
  }

  get isBlocked(): boolean {
    return this.exchange?.incomplete === true && this.exchange.isBehind;
  }

  fed(bytes: number): boolean {
    const isHead = this.handedOver === this.#headsBefore && this.exchange?.incomplete !== true;
    this.#headBytes = isHead ? this.#headBytes + bytes : 0;
    this.#headsBefore = this.handedOver;
    this.settle();
    if (this.isBlocked) this.connection.keeper.look();
    if (this.exchange?.incomplete !== true || this.exchange.fed(bytes)) return true;
    this.#overflow(this);
    return false;
  }

  get betweenRequests(): boolean {
    return this.isIdle;
  }

  get awaitsContent(): boolean {
    // Of a request that has been answered, too: what is left of it is read away before the next.
    return !this.isTunnel && (this.exchange ?? this.answered)?.incomplete === true;
  }

  /** Charges what is kept for it before the start, and by Node: a head that is not complete, and requests that wait. */
  settle(): void {
    const waiting = this.bytesToCome + this.#earlyBytes;
    this.#kept.set(waiting + this.#headBytes * costOfHeadByte + this.waiting.length * costOfWaiting);
  }

  /** What has come and has not been given to Node's parser. */
  get #unfedBytes(): number {
    return this.feed?.heldBytes ?? this.bytesToCome;
  }

  readonly lookAgain = (): void => this.connection.keeper.look();

  get heldForApp(): number {
    return this.#app?.writableLength ?? (this.exchange?.incomplete === true ? this.exchange.unreadBytes : 0);
  }

  /** So many bytes wait until the app has agreed. */
  keepEarly(bytes: number): void {
    this.#earlyBytes = bytes;
    this.#headBytes = 0;
    this.settle();
  }

  /** The app has agreed: from here on both connections are a tunnel. */
  leaveHttp(app: Duplex): void {
    this.keepEarly(0);
    const { exchange } = this;
    const admitted = exchange?.admitted ?? null;
    if (exchange !== null && admitted !== null) {
      this.#began = new TunnelRequest(this, exchange, fieldLines(exchange.forwardHeaders), admitted);
    }
    this.exchange = null;
    this.state = 'tunnel';
    this.#app = app;
  }

  get isTunnel(): boolean {
    return this.state === 'tunnel';
  }

  /** What has come and waits for its turn, or for the start, may be requests, whose response is to say that it is the last. */
  get isIdle(): boolean {
    return this.state === 'between' && this.#unfedBytes === 0 && this.socket.readableLength === 0;
  }

  /** The response that is awaited says that it is the last, unless one behind it will. */
  announceEnd(): void {
    if (!this.isWaiting && this.#unfedBytes === 0) this.exchange?.endConnection();
  }

  retire(): void {
    this.isRetiring = true;
    this.announceEnd();
    this.fedAll();
  }

  fedAll(): void {
    if (this.isRetiring && this.isIdle) this.socket.destroySoon();
  }

  giveUp(): void {
    const { exchange, socket } = this;
    // It is ending already.
    if (exchange?.aborted === true) return;
    // Paused: it is the app that does not read.
    if (exchange?.responded === false && socket.isPaused()) this.#failLate(exchange);
    else this.endWith('late', 'unclassified');
  }

  /**
   * The request that is being served will never be whole: its connection ends with it.
   *
   * @param fault what a request is answered that has no response yet.
   * @param error as `RequestScope.responseEnded` takes it.
   */
  endWith(fault: MessageFault, error: '' | 'unclassified'): void {
    const { connection, exchange, socket } = this;
    let line: string | null = null;
    if (exchange?.responded === false) {
      line = this.pipeline.cutShort(connection, exchange.admitted, exchange, fault, exchange.startedAt);
    }
    exchange?.admitted?.scope.responseEnded(null, error);
    exchange?.breakOff();
    if (exchange?.isAnswered === true) endAfterLastBytes(socket, 'impatient');
    else if (line !== null) endWithStatus(socket, line);
    else socket.destroy();
  }

  endOverdue(since: number): void {
    const { connection, exchange, isTunnel } = this;
    if (exchange === null || exchange.aborted || isTunnel || exchange.startedAt > since) return;
    this.pipeline.limitReached('request_timeout', connection);
    this.#failLate(exchange);
  }

  recheck(): Rechecked {
    const { exchange } = this;
    if (this.isTunnel) this.#recheckTunnel();
    else if (exchange !== null && !exchange.aborted && !exchange.isAnswered) this.#recheckRequest(exchange);
    return 'done';
  }

  #recheckTunnel(): void {
    if (this.#began?.mayGoOn() === true) return;
    for (const stream of [this.socket, this.#app]) if (stream !== null) resetOrDestroy(stream);
  }

  #recheckRequest(exchange: Http1Exchange): void {
    const { admitted } = exchange;
    if (admitted === null) return;
    const again = this.pipeline.recheck(this.connection, exchange, admitted);
    if (again.kind === 'admitted') {
      exchange.admitted = again;
      return;
    }
    exchange.admitted = null;
    const { status, grpc } = again.refusal;
    if (!exchange.responded) admitted.scope.refused(status, grpc);
    exchange.refuse(again.refusal);
    admitted.scope.responseEnded(null, 'unclassified');
    // What the app would still say is not wanted.
    exchange.cancel();
  }

  #failLate(exchange: Http1Exchange): void {
    const { responded, admitted } = exchange;
    if (!exchange.isAnswered && admitted !== null) {
      this.pipeline.fail(this.connection, admitted, exchange, failures.requestTimeout);
    }
    admitted?.scope.responseEnded(null, 'unclassified');
    // What the app would still say is not wanted.
    exchange.cancel();
    if (responded) exchange.abort();
  }
}
