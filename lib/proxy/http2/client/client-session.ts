import type { Socket } from 'node:net';
import { isSoundMethod } from '../../../http-message.ts';
import type { IpAddress } from '../../../ip.ts';
import type { Rostered } from '../../../roster.ts';
import type { Rechecked, Slice } from '../../fairness/rechecks.ts';
import { type Ending, guarded } from '../../guard.ts';
import type { HeldHeads } from '../../http/held-heads.ts';
import type { HttpConnection, Occupant, RequestPipeline } from '../../http/request-pipeline.ts';
import { type Keeper, Kept } from '../../kept.ts';
import { lendData, type TakeLent } from '../../lent-data.ts';
import type { LimitName } from '../../limits.ts';
import { encodeFields } from '../hpack/encoder.ts';
import { type Block, HeaderBlocks } from '../message/header-blocks.ts';
import { type RequestHead, readRequestHead } from '../message/request-head.ts';
import { errorCode, frameType, maxStreamId } from '../session/protocol.ts';
import { Session } from '../session/session.ts';
import type { SessionLimits, SessionRole } from '../session/session-role.ts';
import { verdictOn } from '../session/stream-state.ts';
import { ClientStream, type ClientStreamHome } from './client-stream.ts';
import { clientLimits } from './limits.ts';

const tooLarge = encodeFields([':status', '431', 'content-length', '0']);
const badRequest = encodeFields([':status', '400', 'content-length', '0']);
const notAllowed = encodeFields([':status', '405', 'content-length', '0']);

/** Memory of heads is charged in steps of so many bytes. */
const headStep = 16 * 1024;

/** One for all sessions. */
const emitData: TakeLent = (bytes, socket) => socket.emit('data', bytes);

/** Why such a request is answered 400: an HTTP/1 app might run it as the known method. */
export const misspelt = 'a method in the wrong case';

/** What a session needs of the lane that it is on. */
export interface ClientLane {
  readonly pipeline: RequestPipeline;
  readonly limits: SessionLimits;
  readonly heads: HeldHeads;
  /** A request is complete but for its content; `stream.relay` must be set, or the stream answered. */
  request(connection: HttpConnection, stream: ClientStream): void;
  forget(session: ClientSession): void;
}

/** A client's connection. */
export class ClientSession implements SessionRole<ClientStream>, ClientStreamHome, Rostered, Occupant, Ending {
  rosterPlace = -1;
  readonly connection: HttpConnection;
  readonly session: Session<ClientStream>;
  readonly #lane: ClientLane;
  readonly #blocks: HeaderBlocks<RequestHead>;
  /** Bytes of the heads of its streams, as lists, and in memory. */
  #headBytes = 0;
  #headMemory = 0;
  readonly #keptHeads: Kept;
  /** The last stream that is still served, once the end has been announced. */
  #drainedAt: number | null = null;

  constructor(lane: ClientLane, connection: HttpConnection, socket: Socket) {
    this.connection = connection;
    this.#keptHeads = new Kept(connection.keeper);
    this.session = new Session(socket, this, lane.limits, lane.pipeline.budget);
    this.#lane = lane;
    connection.occupant = this;
    this.#blocks = new HeaderBlocks(this.session.decoder, readRequestHead);
    const { intake } = this.session;
    const received = guarded('bytes of an HTTP/2 client', this, (chunk: Buffer) => intake.receive(chunk));
    socket.on('data', received);
    // A client that can send no more frames cannot go on.
    const gone = guarded('the end of an HTTP/2 client', socket, () => this.#gone());
    socket.once('end', gone);
    socket.once('close', gone);
    this.session.open();
  }

  get pipeline(): RequestPipeline {
    return this.#lane.pipeline;
  }

  /** Begins with bytes that were read before; the stream flows. */
  start(bytes: Buffer): void {
    const { socket } = this.session;
    lendData(socket, emitData);
    if (socket.isPaused()) socket.resume();
    if (bytes.length > 0) this.session.intake.receive(bytes);
  }

  /** The connection is given up; whatever still comes is not looked at. */
  get over(): boolean {
    return this.session.over;
  }

  #gone(): void {
    this.session.abortAll(errorCode.cancel);
    this.#lane.forget(this);
    this.session.socket.destroySoon();
  }

  headers(
    streamId: number,
    open: ClientStream | undefined,
    bytes: Buffer,
    from: number,
    to: number,
    endStream: boolean,
  ): void {
    const { session } = this;
    if (open !== undefined) {
      session.frames.trailers(streamId, open, bytes, from, to, endStream);
      return;
    }
    const block = this.#blocks.read(bytes, from, to);
    session.work.spend(this.#blocks.cost);
    if (block.kind === 'undecodable') {
      session.fail(errorCode.compressionError);
      return;
    }
    // Trailers may have been on their way when we reset the stream.
    const verdict = verdictOn(frameType.headers, session.streams.stateOf(streamId), streamId % 2 === 1);
    if (verdict.kind !== 'taken') {
      session.frames.passOver(verdict, streamId, undefined, endStream);
      return;
    }
    session.streams.last = streamId;
    if (this.#drainedAt !== null || session.streams.size >= this.pipeline.limits.maxStreams) {
      if (this.#drainedAt === null) this.limitReached('max_streams');
      session.refuseMalformed(streamId, errorCode.refusedStream, endStream);
      return;
    }
    this.#opened(streamId, block, endStream);
  }

  /** A stream that may be, unless what its client wants of it may not. */
  #opened(streamId: number, block: Block<RequestHead>, endStream: boolean): void {
    const { session } = this;
    if (block.kind !== 'head') {
      this.pipeline.badRequest(
        this.connection,
        block.kind === 'malformed' ? 'malformed header block' : 'header list too large',
      );
      if (block.kind === 'malformed') session.refuseMalformed(streamId, errorCode.protocolError, endStream);
      else this.#turnAway(streamId, tooLarge, endStream);
      return;
    }
    const { head } = block;
    if (head.head.method === 'CONNECT') {
      this.pipeline.badRequest(this.connection, 'CONNECT over HTTP/2');
      this.#turnAway(streamId, notAllowed, endStream);
      return;
    }
    if (!isSoundMethod(head.head.method)) {
      this.pipeline.badRequest(this.connection, misspelt);
      this.#turnAway(streamId, badRequest, endStream);
      return;
    }
    if (!this.#lane.heads.take(head.listBytes, this.#headBytes)) {
      this.limitReached('max_buffered_bytes');
      session.refuseMalformed(streamId, errorCode.refusedStream, endStream);
      return;
    }
    this.#headBytes += head.listBytes;
    this.#holdHeads(head.memoryBytes);
    const carries = endStream ? 'nothing' : 'body';
    const { initialWindow } = session.peer;
    const stream = new ClientStream(this, streamId, head, carries, initialWindow, clientLimits.streamWindow);
    if (endStream && !stream.count(0, true)) {
      this.#letGo(head);
      this.pipeline.badRequest(this.connection, 'Content-Length of missing content');
      session.refuseMalformed(streamId, errorCode.protocolError, endStream);
      return;
    }
    stream.happened('HEADERS');
    if (endStream) stream.happened('END_STREAM received');
    session.streams.add(stream);
    this.#lane.request(this.connection, stream);
  }

  /** A response to what never becomes a stream. */
  #turnAway(streamId: number, block: Buffer, endStream: boolean): void {
    this.session.output.headers(streamId, block, true);
    if (!endStream) this.session.refuseMalformed(streamId, errorCode.noError, endStream);
  }

  noPreface(): void {
    this.pipeline.badRequest(this.connection, 'no HTTP/2 preface');
  }

  goingAway(): void {
    // The client will open no more streams; those that are open go on.
  }

  ready(): void {
    // Requests need no settings.
  }

  roomGiven(): void {
    // Answers that wait for it are the session's own.
  }

  get keeper(): Keeper {
    return this.connection.keeper;
  }

  get client(): IpAddress {
    return this.connection.facts.client.ip;
  }

  limitReached(limit: LimitName): void {
    this.pipeline.limitReached(limit, this.connection);
  }

  get lastAccepted(): number {
    // It never goes up again (RFC 9113 6.8).
    return this.#drainedAt ?? this.session.streams.last;
  }

  brokenProtocol(): void {
    this.connection.scope.brokenProtocol();
  }

  ending(): void {
    // Its streams are all that it has.
  }

  streamClosed(stream: ClientStream): void {
    this.#letGo(stream.requestHead);
    const { session } = this;
    if (this.#drainedAt !== null && session.streams.size === 0 && !session.over) session.end(errorCode.noError);
  }

  #letGo({ listBytes, memoryBytes }: RequestHead): void {
    this.#headBytes -= listBytes;
    this.#holdHeads(-memoryBytes);
    this.#lane.heads.release(listBytes);
  }

  /** Few small ones are part of what a connection takes; of more, whole steps are charged, so that most requests charge nothing. */
  #holdHeads(more: number): void {
    this.#headMemory += more;
    const steps = Math.ceil(this.#headMemory / headStep);
    const bytes = steps > 1 ? steps * headStep : 0;
    if (bytes !== this.#keptHeads.bytes) this.#keptHeads.set(bytes);
  }

  /** Ends it now. */
  destroy(): void {
    this.#gone();
    this.session.socket.destroy();
  }

  get openStreams(): number {
    return this.session.streams.size;
  }

  get betweenRequests(): boolean {
    return this.session.streams.size === 0;
  }

  /** Its streams look after themselves. */
  readonly awaitsContent = false;
  readonly isTunnel = false;

  /** Its streams tell by themselves. */
  readonly heldForApp = 0;

  retire(): void {
    this.drain();
  }

  giveUp(): void {
    this.session.socket.destroy();
  }

  endOverdue(since: number): void {
    for (const stream of [...this.session.streams.values()]) {
      if (stream.startedAt < since && stream.giveUp()) this.limitReached('request_timeout');
    }
  }

  /** Asked again, it passes over the streams that have been decided, and ended ones are gone. */
  recheck(slice: Slice): Rechecked {
    for (const stream of [...this.session.streams.values()]) {
      if (slice.isOver) return 'more';
      stream.recheck();
    }
    return 'done';
  }

  announce(): void {
    // Its close may still be on its way to us; and one that drains already may be told of no higher stream (RFC 9113 6.8).
    if (!this.session.over && this.#drainedAt === null) this.session.goaway(maxStreamId, errorCode.noError);
  }

  drain(): void {
    if (this.session.over || this.#drainedAt !== null) return;
    this.#drainedAt = this.session.streams.last;
    this.session.goaway(this.session.streams.last, errorCode.noError);
    if (this.session.streams.size === 0) this.session.end(errorCode.noError);
  }

  /** Ends a connection whose beginning, or whose next message, does not come to an end, or that nobody uses. */
  sweep(now: number): void {
    if (this.over) return;
    const { headerTimeoutMs, http2IdleTimeoutMs } = this.pipeline.limits;
    const { streams, intake } = this.session;
    const { incompleteSince } = intake;
    const idleMs = streams.unusedMs(now);
    if (incompleteSince !== null && now - incompleteSince >= headerTimeoutMs) {
      this.pipeline.badRequest(this.connection, 'header block not complete in time');
      this.session.fail(errorCode.enhanceYourCalm);
    } else if (streams.size > 0) {
      for (const stream of streams.values()) stream.lookForContent();
    } else if (idleMs >= http2IdleTimeoutMs) {
      this.limitReached('http2_idle_timeout');
      this.drain();
    }
  }
}
