import type { Socket } from 'node:net';
import { isSoundMethod } from '../../http-message.ts';
import type { IpAddress } from '../../ip.ts';
import type { Rostered } from '../../roster.ts';
import { guarded } from '../guard.ts';
import type { HeldHeads } from '../http/held-heads.ts';
import type { HttpConnection, Occupant, RequestPipeline } from '../http/request-pipeline.ts';
import type { LimitName, Limits } from '../limits.ts';
import { ClientStream, type ClientStreamHome } from './client-stream.ts';
import type { Http2Session } from './engine.ts';
import { HeaderBlocks } from './header-blocks.ts';
import { encodeFields } from './hpack/encoder.ts';
import { clientLimits } from './limits.ts';
import { errorCode, maxStreamId, preface, setting } from './protocol.ts';
import { type RequestHead, readRequestHead } from './request-head.ts';
import { Session, type SessionLimits } from './session.ts';
import type { Stream } from './stream.ts';

/** What clients may do, of what is configured. */
export function clientSessionLimits({ maxStreams, maxHeaderBytes, maxHeaderFields, maxResets }: Limits): SessionLimits {
  return {
    settings: [
      [setting.maxConcurrentStreams, maxStreams],
      [setting.initialWindowSize, clientLimits.streamWindow],
      [setting.maxHeaderListSize, maxHeaderBytes],
    ],
    streamWindow: clientLimits.streamWindow,
    grownStreamWindow: clientLimits.grownStreamWindow,
    connectionWindow: clientLimits.connectionWindow,
    maxListBytes: maxHeaderBytes,
    maxFields: maxHeaderFields,
    maxResets,
    maxPendingBytes: 256 * 1024,
  };
}

const tooLarge = encodeFields([':status', '431', 'content-length', '0']);
const badRequest = encodeFields([':status', '400', 'content-length', '0']);
const notAllowed = encodeFields([':status', '405', 'content-length', '0']);

/** Why such a request is answered 400: an HTTP/1 app might run it as the known method. */
export const misspelt = 'a method in the wrong case';

/** What a session needs of the lane that it is on. */
export interface ClientLane {
  readonly pipeline: RequestPipeline;
  readonly limits: SessionLimits;
  readonly heads: HeldHeads;
  readonly onBadRequest: (connection: HttpConnection, reason: string) => void;
  /** A request is complete but for its content; `stream.relay` must be set, or the stream answered. */
  request(connection: HttpConnection, stream: ClientStream): void;
  forget(session: ClientSession): void;
}

/** A client's connection. */
export class ClientSession extends Session implements Http2Session, ClientStreamHome, Rostered, Occupant {
  rosterPlace = -1;
  readonly connection: HttpConnection;
  readonly #lane: ClientLane;
  readonly #blocks: HeaderBlocks<RequestHead>;
  protected override readonly limitsResets = true;
  protected override readonly maxEnablePush = 1;
  /** Bytes of the heads of its streams. */
  #headBytes = 0;
  /** Bytes of the client's preface that have come. */
  #prefaceBytes = 0;
  /** Since when there has been no stream, as far as looks at it tell, and the last one then. */
  #idleSince = 0;
  #idleAfter = -1;
  /** The last stream that is still served, once the end has been announced. */
  #drainedAt: number | null = null;

  constructor(lane: ClientLane, connection: HttpConnection, socket: Socket) {
    super(socket, lane.limits, lane.pipeline.budget);
    this.#lane = lane;
    this.connection = connection;
    connection.occupant = this;
    this.#blocks = new HeaderBlocks(this.decoder, readRequestHead);
    const received = guarded('bytes of an HTTP/2 client', this, (chunk: Buffer) => this.receive(chunk));
    socket.on('data', received);
    // A client that can send no more frames cannot go on.
    const gone = guarded('the end of an HTTP/2 client', socket, () => this.#gone());
    socket.once('end', gone);
    socket.once('close', gone);
    this.open();
  }

  get pipeline(): RequestPipeline {
    return this.#lane.pipeline;
  }

  /** Begins with bytes that were read before; the stream flows. */
  start(bytes: Buffer): void {
    if (this.socket.isPaused()) this.socket.resume();
    if (bytes.length > 0) this.receive(bytes);
  }

  override receive(chunk: Buffer): void {
    if (this.over) return;
    if (this.#prefaceBytes === preface.length) {
      super.receive(chunk);
      return;
    }
    const bytes = Math.min(chunk.length, preface.length - this.#prefaceBytes);
    if (preface.compare(chunk, 0, bytes, this.#prefaceBytes, this.#prefaceBytes + bytes) !== 0) {
      this.#lane.onBadRequest(this.connection, 'no HTTP/2 preface');
      this.fail(errorCode.protocolError);
      return;
    }
    this.#prefaceBytes += bytes;
    if (chunk.length > bytes) super.receive(chunk.subarray(bytes));
  }

  override fail(code: number): void {
    if (!this.over) this.connection.scope.brokenProtocol();
    super.fail(code);
  }

  #gone(): void {
    this.abortAll(errorCode.cancel);
    this.#lane.forget(this);
    this.socket.destroySoon();
  }

  protected override headers(streamId: number, bytes: Buffer, from: number, to: number, endStream: boolean): void {
    const open = this.streams.get(streamId);
    if (open !== undefined) {
      this.trailers(streamId, open, bytes, from, to, endStream);
      return;
    }
    const block = this.#blocks.read(bytes, from, to);
    this.spend(this.#blocks.cost);
    if (block.kind === 'undecodable') {
      this.fail(errorCode.compressionError);
      return;
    }
    if (streamId % 2 === 0) {
      this.fail(errorCode.protocolError);
      return;
    }
    if (streamId <= this.lastStreamId) {
      // Trailers may have been on their way when we reset the stream.
      if (!this.wasReset(streamId, endStream)) this.fail(errorCode.streamClosed);
      return;
    }
    this.lastStreamId = streamId;
    if (this.#drainedAt !== null || this.streams.size >= this.pipeline.limits.maxStreams) {
      if (this.#drainedAt === null) this.limitReached('max_streams');
      this.refuseMalformed(streamId, errorCode.refusedStream, endStream);
      return;
    }
    if (block.kind !== 'head') {
      this.#lane.onBadRequest(
        this.connection,
        block.kind === 'malformed' ? 'malformed header block' : 'header list too large',
      );
      if (block.kind === 'malformed') this.refuseMalformed(streamId, errorCode.protocolError, endStream);
      else {
        this.limitReached('max_header_bytes');
        this.#turnAway(streamId, tooLarge, endStream);
      }
      return;
    }
    if (block.head.head.method === 'CONNECT') {
      this.#lane.onBadRequest(this.connection, 'CONNECT over HTTP/2');
      this.#turnAway(streamId, notAllowed, endStream);
      return;
    }
    if (!isSoundMethod(block.head.head.method)) {
      this.#lane.onBadRequest(this.connection, misspelt);
      this.#turnAway(streamId, badRequest, endStream);
      return;
    }
    const { listBytes } = block.head;
    if (!this.#lane.heads.take(listBytes, this.#headBytes)) {
      this.limitReached('max_buffered_bytes');
      this.refuseMalformed(streamId, errorCode.refusedStream, endStream);
      return;
    }
    this.#headBytes += listBytes;
    const stream = new ClientStream(this, streamId, block.head, this.peerInitialWindow, clientLimits.streamWindow);
    if (endStream) {
      if (!stream.count(0, true)) {
        this.#letGo(block.head);
        this.#lane.onBadRequest(this.connection, 'Content-Length of missing content');
        this.refuseMalformed(streamId, errorCode.protocolError, endStream);
        return;
      }
      stream.remoteEnded = true;
    }
    this.streams.set(streamId, stream);
    this.#lane.request(this.connection, stream);
  }

  /** An answer to what never becomes a stream. */
  #turnAway(streamId: number, block: Buffer, endStream: boolean): void {
    this.output.headers(streamId, block, true);
    if (!endStream) this.refuseMalformed(streamId, errorCode.noError, endStream);
  }

  protected override goingAway(): void {
    // The client will open no more streams; those that are open go on.
  }

  protected override ready(): void {
    // Requests need no settings.
  }

  protected override roomGiven(): void {
    // Answers that wait for it are the session's own.
  }

  get client(): IpAddress {
    return this.connection.facts.client.ip;
  }

  protected override limitReached(limit: LimitName): void {
    this.pipeline.limitReached(limit, this.connection);
  }

  protected override get lastAccepted(): number {
    // It never goes up again (RFC 9113 6.8).
    return this.#drainedAt ?? this.lastStreamId;
  }

  protected override streamClosed(stream: Stream): void {
    this.#letGo((stream as ClientStream).requestHead);
    if (this.#drainedAt !== null && this.streams.size === 0 && !this.over) this.end(errorCode.noError);
  }

  #letGo({ listBytes }: RequestHead): void {
    this.#headBytes -= listBytes;
    this.#lane.heads.release(listBytes);
  }

  /** Ends it now. */
  destroy(): void {
    this.#gone();
    this.socket.destroy();
  }

  get openStreams(): number {
    return this.streams.size;
  }

  get betweenRequests(): boolean {
    return this.streams.size === 0;
  }

  /** Its streams look after themselves. */
  readonly awaitsContent = false;
  readonly heldBytes = 0;
  readonly isTunnel = false;

  retire(): void {
    this.drain();
  }

  giveUp(): void {
    this.socket.destroy();
  }

  endOverdue(since: number): void {
    for (const stream of [...this.streams.values()] as ClientStream[]) {
      if (stream.startedAt < since && stream.giveUp()) this.limitReached('request_timeout');
    }
  }

  announce(): void {
    // Its close may still be on its way to us.
    if (!this.over) this.goaway(maxStreamId, errorCode.noError);
  }

  drain(): void {
    if (this.over || this.#drainedAt !== null) return;
    this.#drainedAt = this.lastStreamId;
    this.goaway(this.lastStreamId, errorCode.noError);
    if (this.streams.size === 0) this.end(errorCode.noError);
  }

  /** Ends a connection whose beginning, or whose next message, does not come to an end, or that nobody uses. */
  sweep(now: number): void {
    if (this.over) return;
    const { headerTimeoutMs, http2IdleTimeoutMs } = this.pipeline.limits;
    if (this.incompleteSince !== null && now - this.incompleteSince >= headerTimeoutMs) {
      this.limitReached('header_timeout');
      this.#lane.onBadRequest(this.connection, 'header block not complete in time');
      this.fail(errorCode.enhanceYourCalm);
    } else if (this.streams.size > 0) {
      this.#idleAfter = -1;
      for (const stream of this.streams.values()) (stream as ClientStream).lookForContent();
    } else if (this.#idleAfter !== this.lastStreamId) {
      this.#idleAfter = this.lastStreamId;
      this.#idleSince = now;
    } else if (now - this.#idleSince >= http2IdleTimeoutMs) {
      this.limitReached('http2_idle_timeout');
      this.drain();
    }
  }
}
