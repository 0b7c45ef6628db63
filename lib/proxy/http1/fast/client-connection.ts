import type { Socket } from 'node:net';
import { beginMoment, endMoment, now } from '../../../moment.ts';
import type { Rostered } from '../../../roster.ts';
import type { Rechecked } from '../../fairness/rechecks.ts';
import { CountedReads, longRead, type PutOff, type TurnTaker, turn } from '../../fairness/turn.ts';
import { internalFault } from '../../guard.ts';
import { endAfterLastResponse, endWithStatus } from '../../http/last-bytes.ts';
import type { HttpConnection, Occupant, RequestPipeline } from '../../http/request-pipeline.ts';
import type { TunnelRequest } from '../../http/tunnel-request.ts';
import type { Follower, Incoming } from '../../incoming.ts';
import type { AppConnection } from '../app-connection.ts';
import type { AppPool } from '../app-pool.ts';
import { halfOpenMs, rememberMs, sliceMs, sliceRequests } from '../limits.ts';
import { type ClientEvents, hear, hearLent, hearNoMore } from './client-events.ts';
import { type ConnectionState, idle, inHead, over } from './connection-state.ts';
import { noContent, RequestContent } from './content.ts';
import type { FastLaneServices } from './lane-services.ts';
import { PlainHeads } from './plain-heads.ts';
import type { PlainRequest } from './plain-request.ts';
import { FastRequest } from './request.ts';
import type { OverRequest, RequestHome } from './request-home.ts';
import { Tunnel } from './tunnel.ts';

/** Where a fault of ours was met. */
const entry = 'HTTP/1, the fast lane';

/** One client connection on the fast lane: takes its requests one after the other. */
export class FastConnection implements RequestHome, Rostered, Occupant, TurnTaker, Follower, ClientEvents {
  rosterPlace = -1;
  readonly pipeline: RequestPipeline;
  readonly connection: HttpConnection;
  readonly pool: AppPool;
  readonly #stream: Incoming;
  /** Null for as long as it is bare. */
  #socket: Socket | null = null;
  readonly #lane: FastLaneServices<FastConnection>;
  #ownPool: AppPool | null = null;
  readonly #unread: PlainHeads;
  #state: ConnectionState = idle;
  /** When it became idle, or the first byte of the head came. */
  #since = now();
  /** Requests are being taken: the one that is finished leaves the next to that loop. */
  #isAdvancing = false;
  /** The next of many pipelined requests waits for its turn. */
  #resting: PutOff | null = null;
  /** Null before any content has come by itself. */
  #counted: CountedReads | null = null;
  /** The connection is to end as soon as nothing is in flight. */
  #isRetiring = false;
  /** The client sends nothing more; what it has sent is still answered. */
  #clientEnded = false;

  constructor(lane: FastLaneServices<FastConnection>, connection: HttpConnection, stream: Incoming, pool: AppPool) {
    this.#lane = lane;
    this.pipeline = lane.pipeline;
    this.connection = connection;
    this.#stream = stream;
    this.pool = pool;
    this.#unread = new PlainHeads(lane.pipeline.limits.maxHeaderBytes, connection.keeper);
    connection.occupant = this;
    stream.follow(this);
  }

  get socket(): Socket {
    return this.#socket ?? this.#stream.socket;
  }

  streamed(socket: Socket): void {
    this.#socket = socket;
    hear(socket, this);
  }

  ended(): void {
    this.#enter(this.#closed);
  }

  /** Begins with bytes that were read before, and have had their turn; the stream flows. */
  start(bytes: Buffer): void {
    // Detection may have left it paused. Nothing more is read before this turn ends, and the request below may pause it.
    if (!this.#stream.isBare && this.socket.isPaused()) this.socket.resume();
    this.#unread.append(bytes);
    // Detection may have seen its end, of which nobody is told twice.
    if (!this.#stream.isBare && this.socket.readableEnded) this.readEnd();
    else this.#enter(this.#goOn);
    if (this.#state.kind === 'head') hearLent(this.socket);
  }

  read(chunk: Buffer): void {
    this.#received(chunk);
    // This is not the first read of the connection, so there may be many more: those take no buffer each.
    if (this.#state.kind !== 'over') hearLent(this.socket);
  }

  readLent(bytes: Buffer): boolean {
    if (this.#state.kind === 'over') return false;
    this.#received(bytes);
    return true;
  }

  readEnd(): void {
    this.#enter(this.#end);
  }

  mayWrite(): void {
    this.#enter(this.#drain);
  }

  #received(bytes: Buffer): void {
    beginMoment();
    try {
      this.#data(bytes);
    } catch (error) {
      internalFault(entry, this, error);
    } finally {
      this.#unread.settle();
      endMoment();
    }
  }

  #enter(run: () => void): void {
    try {
      run.call(this);
    } catch (error) {
      internalFault(entry, this, error);
    }
  }

  destroy(): void {
    this.socket.destroy();
  }

  #data(chunk: Buffer): void {
    const state = this.#state;
    if (state.kind === 'over') return;
    if (state.kind !== 'request') {
      this.#unread.append(chunk);
      if (this.#resting === null) this.#advance(chunk.length < longRead);
    } else if (!state.requestComplete) {
      const { content } = state;
      const end = content.take(chunk, 0);
      if (content.fault !== null) {
        this.#state = over;
        state.refuseContent(content.fault);
        return;
      }
      this.#counted ??= CountedReads.of(this.socket);
      if (!this.#counted.take(content.work, this)) this.socket.pause();
      if (end < chunk.length) this.#unread.append(chunk.subarray(end));
      state.receive();
    } else {
      // Pipelined: its turn comes when this response is complete.
      this.#unread.append(chunk);
      this.socket.pause();
    }
  }

  #end(): void {
    this.#clientEnded = true;
    this.socket.setTimeout(halfOpenMs, () => this.socket.destroy());
    const state = this.#state;
    if (state.kind === 'over') this.socket.end();
    else if (state.kind !== 'request') this.#advance();
    else if (!state.requestComplete) state.endWithin();
    else if (!this.hasNext) state.isLast = true;
  }

  #drain(): void {
    if (this.#state.kind === 'request') this.#state.drained();
    else if (this.#state.kind !== 'over' && (this.hasNext || this.#clientEnded)) this.#advance();
  }

  #closed(): void {
    const state = this.#state;
    this.#state = over;
    if (this.#resting !== null) this.#resting.run = null;
    this.#forget();
    this.#unread.drop();
    if (state.kind === 'request') state.abandon();
  }

  #goOn(): void {
    this.#resting = null;
    if (this.betweenRequests) this.#advance();
  }

  #forget(): void {
    this.#lane.forget(this);
    this.#ownPool?.close();
  }

  get ownPool(): AppPool {
    this.#ownPool ??= this.pool.apart();
    return this.#ownPool;
  }

  get hasNext(): boolean {
    return this.#unread.length > 0;
  }

  /**
   * Takes requests from what is unread for as long as none is being answered, then waits for the client.
   *
   * @param hasTurn false where that may be long work, which nobody has asked for a turn for.
   */
  #advance(hasTurn = true): void {
    if (this.#resting !== null) return;
    this.#isAdvancing = true;
    this.#takeNext(hasTurn);
    this.#isAdvancing = false;
    if (this.#state.kind !== 'over') this.#unread.settle();
    if (!this.#isWaiting || this.#resting !== null) return;
    if (this.socket.writableNeedDrain) {
      if (this.hasNext) this.socket.pause();
    } else if (this.#clientEnded) {
      this.socket.end();
    } else if (this.socket.isPaused()) {
      this.socket.resume();
    }
  }

  #takeNext(hasTurn: boolean): void {
    let mayWork = hasTurn;
    let taken = 0;
    let startedAt = 0;
    // A client that does not take its responses gets no more of them: they would all wait in our memory.
    while (this.#isWaiting && this.hasNext && !this.#stream.needsDrain) {
      if (taken === 1) startedAt = performance.now();
      else if (taken >= sliceRequests || (taken > 1 && performance.now() - startedAt > sliceMs)) {
        this.#rest();
        return;
      }
      const at = this.#unread.find();
      // One request with all its content is no long work: what counts is its head, and what is pipelined behind it.
      const work = taken === 0 && typeof at === 'number' ? at : this.#unread.length;
      mayWork ||= work < longRead || turn.mayWork();
      if (!mayWork) {
        this.#rest();
        return;
      }
      taken++;
      if (typeof at === 'string') {
        if (at === 'not-plain') this.#handOver();
        else if (this.#state.kind === 'idle' && !this.#clientEnded) this.#wait(inHead);
        return;
      }
      const request = this.#unread.read(at);
      if (request === null) return void this.#handOver();
      this.#take(request, at + 4);
    }
  }

  /** No request is being answered, and one may come. */
  get #isWaiting(): boolean {
    return this.#state.kind === 'idle' || this.#state.kind === 'head';
  }

  #wait(state: typeof idle | typeof inHead): void {
    this.#state = state;
    this.#since = now();
  }

  /** The others have their turn before the next of these pipelined requests. */
  #rest(): void {
    this.socket.pause();
    this.#resting = turn.later(() => this.#enter(this.#goOn));
  }

  /** Not plain: everything from this request on is the library lane's. */
  #handOver(): void {
    this.#state = over;
    this.#lane.handOver(this.connection, this.#stream, this.#letGo());
  }

  /** The socket is somebody else's from now on; so is what is unread. */
  #letGo(): Buffer {
    const { socket } = this;
    this.#stream.unfollow(this);
    hearNoMore(socket);
    this.#forget();
    return this.#unread.giveAway();
  }

  switched(app: AppConnection, request: TunnelRequest): Tunnel {
    this.#state = over;
    return new Tunnel(this.connection, request, this.socket, app, this.#letGo());
  }

  /** @param from where what follows the head begins among what is unread. */
  #take(request: PlainRequest, from: number): void {
    const { framing, keepAlive } = request.fields;
    const hasContent = framing.kind === 'length' || framing.kind === 'chunked';
    const content = hasContent ? new RequestContent(framing, this.pipeline.limits.maxHeaderBytes) : noContent;
    const end = hasContent ? content.take(this.#unread.bytes, from) : from;
    if (content.isOdd) return void this.#handOver();
    if (this.#clientEnded && !content.isComplete) {
      // The rest of its content will never come.
      this.#state = over;
      this.socket.destroySoon();
      return;
    }
    this.#unread.keep(end);
    const isLast = !keepAlive || framing.kind === 'tunnel' || this.isEnding || (this.#clientEnded && !this.hasNext);
    // Of a client that has said all it stays bare, and unread, until somebody looks at it (`ConnectionWatch`).
    const isAll = !keepAlive && content.isComplete;
    // While requests wait, the stream does too, so that its end is seen in its turn.
    if (this.hasNext) this.socket.pause();
    else if (!(this.#stream.isBare && isAll) && this.socket.isPaused()) this.socket.resume();
    const taken = new FastRequest(this, request, content, isLast);
    this.#state = taken;
    taken.begin();
  }

  get isEnding(): boolean {
    return this.#lane.draining || this.#isRetiring;
  }

  finished(request: OverRequest): void {
    if (request.isLast || (this.isEnding && !this.hasNext)) {
      this.#state = over;
      const isSilent = request.requestComplete && (request.endsByClient || this.#clientEnded) && !this.hasNext;
      if (!isSilent || !this.#stream.isBare) endAfterLastResponse(this.socket, isSilent);
      // Against its word something has come behind it.
      else if (!this.#stream.endQuietly()) endAfterLastResponse(this.socket, false);
      return;
    }
    this.#wait(idle);
    if (!this.#isAdvancing) this.#advance();
  }

  sendLast(head: string, content: Buffer): boolean {
    return this.#stream.sendLast(head, content);
  }

  closeIfIdle(): void {
    // Requests that wait for their turn, or for room, still get their responses, the next of which is the last.
    if (this.betweenRequests) this.socket.destroySoon();
  }

  nextTurn(): void {
    const state = this.#state;
    if (state.kind === 'over') return;
    // The app says when more of the content may come.
    if (state.kind === 'request' && !state.requestComplete ? state.takesContent : !this.hasNext) this.socket.resume();
  }

  get betweenRequests(): boolean {
    return this.#isWaiting && this.#resting === null && !(this.hasNext && this.#stream.needsDrain);
  }

  get awaitsContent(): boolean {
    return this.#state.kind === 'request' && !this.#state.requestComplete;
  }

  get heldForApp(): number {
    return this.#state.kind === 'request' ? this.#state.heldForApp : 0;
  }

  readonly isTunnel = false;

  retire(): void {
    this.#isRetiring = true;
    if (this.#isWaiting && !this.hasNext) this.socket.destroySoon();
  }

  giveUp(): void {
    const state = this.#state;
    this.#state = over;
    if (state.kind === 'request') state.giveUp();
    else this.socket.destroy();
  }

  endOverdue(since: number): void {
    if (this.#state.kind === 'request') this.#state.endOverdue(since);
  }

  recheck(): Rechecked {
    if (this.#state.kind === 'request') this.#state.recheck();
    return 'done';
  }

  /** Deadlines: a head that does not come to an end, and connections that nobody uses. */
  sweep(nowMs: number): void {
    const { limits } = this.pipeline;
    this.#ownPool?.sweep(nowMs);
    // What has come is in time, though its turn has not come, or its client leaves no room for responses.
    if (!this.betweenRequests) this.#since = nowMs;
    const waited = nowMs - this.#since;
    if (this.#state.kind === 'head' && waited > limits.headerTimeoutMs) {
      this.#state = over;
      this.pipeline.brokenHttp1(this.connection, 'ERR_HTTP_REQUEST_TIMEOUT');
      endWithStatus(this.socket, '408 Request Timeout');
    } else if (this.#state.kind === 'idle' && waited > limits.http1IdleTimeoutMs) {
      this.pipeline.limitReached('http1_idle_timeout', this.connection);
      this.socket.destroySoon();
    } else if (this.#state.kind === 'idle' && waited > rememberMs) {
      // A head may have 16 KiB; those who use their connection seldom can have it read again.
      this.#unread.forget();
    }
  }
}
