import type { Socket } from 'node:net';
import type { IpAddress } from '../../ip.ts';
import type { BufferBudget } from '../fairness/buffer-budget.ts';
import { longRead, turn } from '../fairness/turn.ts';
import { guarded, internalFault } from '../guard.ts';
import type { LimitName } from '../limits.ts';
import { areSoundTrailers } from './field-rules.ts';
import { FrameReader, type FrameSink } from './frame-reader.ts';
import { HpackDecoder } from './hpack/decoder.ts';
import { Output } from './output.ts';
import { defaultWindow, errorCode, flag, frameType, maxPayload, maxStreamId, maxWindow, setting } from './protocol.ts';
import type { Stream, StreamHome } from './stream.ts';
import { TokenBucket } from './token-bucket.ts';

/** What one side promises the other, and how much it puts up with. */
export interface SessionLimits {
  /** Our SETTINGS; HEADER_TABLE_SIZE and MAX_FRAME_SIZE stay as they are by default. */
  readonly settings: readonly (readonly [id: number, value: number])[];
  /**
   * Bytes that the peer may send on a stream before we have consumed any: of a new one, and of one whose content has been
   * consumed so far, while little is held for the others.
   */
  readonly streamWindow: number;
  readonly grownStreamWindow: number;
  /** Bytes on all streams that may be on their way to us. */
  readonly connectionWindow: number;
  /** Bytes of a header list as RFC 9113 6.5.2 counts them, and its fields. */
  readonly maxListBytes: number;
  readonly maxFields: number;
  /**
   * Streams that may end in a reset, of the peer (CVE-2023-44487) or of ours for what it did (CVE-2025-8671): at once, and
   * a tenth of them a second.
   */
  readonly maxResets: number;
  /** With more than this on its way to a peer that does not read, nothing more of it is read either. */
  readonly maxPendingBytes: number;
}

/** A header block of this many bytes or twice its list's, or in this many pieces, is an attack (CVE-2024-27983 and its kin). */
const maxBlockBytes = 128 * 1024;
const maxBlockFrames = 64;

/**
 * Work that one connection gets done before others have their turn, in bytes looked at and `perMessage` for each message:
 * some 40 ordinary heads that were not there before, or one of the largest.
 */
const turnCost = 32 * 1024;
const perMessage = 256;
/** The same for a stream whose window a peer's SETTINGS change. */
const resizeCost = 4;

/** Streams that we have reset, and whose frames may still be on their way to us. */
const maxResetStreams = 1000;

/** Milliseconds for the peer to read a last GOAWAY. */
const lingerMs = 1000;

const headerTableBytes = 4096;

/** A header block that is not complete. */
interface PartialBlock {
  readonly streamId: number;
  readonly endStream: boolean;
  readonly parts: Buffer[];
  bytes: number;
}

/**
 * One HTTP/2 connection (RFC 9113), of either role: reads frames, keeps windows and settings, and ends what breaks the
 * rules. It knows streams, not what they mean.
 */
export abstract class Session implements FrameSink, StreamHome {
  readonly socket: Socket;
  readonly output: Output;
  /** The connection is given up; whatever still comes is not looked at. */
  over = false;
  protected readonly streams = new Map<number, Stream>();
  protected readonly decoder: HpackDecoder;
  /** The highest stream that the client has opened, whichever side we are. */
  protected lastStreamId = 0;
  protected peerMaxStreams = Number.POSITIVE_INFINITY;
  protected peerInitialWindow = defaultWindow;
  /** Advice (RFC 9113 6.5.2); some end the connection where it is not taken. */
  peerMaxListBytes = Number.POSITIVE_INFINITY;
  /** Since when the beginning of a connection or of a message has been waiting for its rest; null when none is. */
  incompleteSince: number | null = performance.now();
  readonly budget: BufferBudget;
  readonly #limits: SessionLimits;
  readonly #reader = new FrameReader(this);
  #sendWindow = defaultWindow;
  #receiveWindow: number;
  /** Bytes of the peer's DATA that are held for somebody, on all streams. */
  #unconsumed = 0;
  #peerTableBytes = headerTableBytes;
  #sawSettings = false;
  #unacknowledgedSettings = 1;
  #block: PartialBlock | null = null;
  /** Streams with data that waits for room, in the order of their turns. */
  #queue = new Set<Stream>();
  #pumping = false;
  /** The peer has given room for data that may be waiting. */
  #hasNewRoom = false;
  readonly #resetStreams = new Set<number>();
  /** Frames that do no work, and streams that end by a reset: what is cheap to send and not cheap to receive. */
  readonly #overhead = new TokenBucket(10_000, 1000);
  readonly #resets: TokenBucket;
  #cost = 0;
  #share = longRead;
  /** What has been read and must wait for the next turn. */
  #rest: Buffer | null = null;
  readonly #nextTurn = guarded('HTTP/2 frames', this, () => this.#goOn());

  constructor(socket: Socket, limits: SessionLimits, budget: BufferBudget) {
    this.socket = socket;
    this.budget = budget;
    this.#resets = new TokenBucket(limits.maxResets, limits.maxResets / 10);
    this.#limits = limits;
    this.decoder = new HpackDecoder(headerTableBytes, limits.maxListBytes, limits.maxFields);
    this.#receiveWindow = limits.connectionWindow;
    this.output = new Output(socket, this, () => {
      if (this.over) return;
      if (this.socket.isPaused() && this.#rest === null) this.socket.resume();
      this.#pump();
    });
  }

  /** Our SETTINGS, and the connection's window. */
  protected open(): void {
    const { settings, connectionWindow } = this.#limits;
    const at = this.output.frame(frameType.settings, 0, 0, 6 * settings.length);
    for (const [i, [id, value]] of settings.entries()) {
      this.output.buffer.writeUInt16BE(id, at + 6 * i);
      this.output.buffer.writeUInt32BE(value, at + 6 * i + 2);
    }
    this.output.number(frameType.windowUpdate, 0, connectionWindow - defaultWindow);
  }

  /** A complete header block: bytes [from, to), lent. */
  protected abstract headers(streamId: number, bytes: Buffer, from: number, to: number, endStream: boolean): void;
  /** The peer will take no streams above `lastStreamId` (GOAWAY). */
  protected abstract goingAway(lastStreamId: number): void;
  /** The peer's SETTINGS have come, for the first time or again. */
  protected abstract ready(): void;
  /** The peer takes more DATA on the connection. */
  protected abstract roomGiven(): void;
  /** A stream is over, and has left `streams`. */
  protected abstract streamClosed(stream: Stream, reset: boolean): void;

  /** For counting. */
  protected abstract limitReached(limit: LimitName): void;
  abstract readonly client: IpAddress | null;
  abstract destroy(): void;

  /** Takes bytes from the peer. They are only lent where no turn is limited. */
  receive(chunk: Buffer): void {
    if (this.#rest === null) this.#read(chunk, longRead);
    else this.#rest = Buffer.concat([this.#rest, chunk]);
  }

  /** Says what a message has cost, in bytes that were looked at. */
  protected spend(cost: number): void {
    this.#cost += cost + perMessage;
  }

  get hasHadItsTurn(): boolean {
    if (this.#cost <= this.#share) return false;
    if (this.#share === turnCost || !turn.mayWork()) return true;
    this.#share = turnCost;
    return this.#cost > turnCost;
  }

  #goOn(): void {
    const rest = this.#rest;
    this.#rest = null;
    if (rest === null || this.over) return;
    this.#read(rest, turnCost);
    const mayRead = this.#rest === null && !this.over && this.output.pending <= this.#limits.maxPendingBytes;
    if (mayRead && this.socket.isPaused()) this.socket.resume();
  }

  /** @param share what it may cost without asking for a turn. */
  #read(chunk: Buffer, share: number): void {
    this.#cost = 0;
    this.#share = share;
    const at = this.#reader.read(chunk);
    if (at === -1) {
      this.fail(errorCode.frameSizeError);
      return;
    }
    if (this.over) return;
    if (at < chunk.length) {
      this.#rest = chunk.subarray(at);
      this.socket.pause();
      turn.later(this.#nextTurn);
    }
    if (this.#hasNewRoom) {
      // Once for all that came at once. Peers give back room frame by frame: whoever fills each bit of it at once sends
      // ever smaller frames.
      this.#hasNewRoom = false;
      this.#pump();
    }
    this.incompleteSince =
      this.#isBetweenMessages && !this.#reader.awaitsRest ? null : (this.incompleteSince ?? performance.now());
    if (this.output.pending > this.#limits.maxPendingBytes) this.socket.pause();
  }

  /** The preface is over, and no header block has begun. */
  get #isBetweenMessages(): boolean {
    return this.#sawSettings && this.#block === null;
  }

  frame(type: number, flags: number, streamId: number, bytes: Buffer, from: number, to: number): void {
    const fault = this.#frame(type, flags, streamId, bytes, from, to);
    if (fault !== errorCode.noError) this.fail(fault);
    // What is incomplete from here on has begun just now.
    if (this.#isBetweenMessages) this.incompleteSince = null;
  }

  /** The error that ends the connection; NO_ERROR for a frame that keeps the rules. So do those for each type. */
  #frame(type: number, flags: number, streamId: number, bytes: Buffer, from: number, to: number): number {
    const length = to - from;
    if (!this.#sawSettings && type !== frameType.settings) return errorCode.protocolError;
    if (this.#block !== null && (type !== frameType.continuation || streamId !== this.#block.streamId)) {
      return errorCode.protocolError;
    }
    switch (type) {
      case frameType.data:
        return this.#data(flags, streamId, bytes, from, to);
      case frameType.headers:
        return this.#headers(flags, streamId, bytes, from, to);
      case frameType.continuation:
        return this.#continuation(flags, streamId, bytes, from, to);
      case frameType.windowUpdate:
        return this.#windowUpdate(streamId, bytes, from, length);
      case frameType.rstStream:
        return this.#rstStream(streamId, bytes, from, length);
      case frameType.settings:
        return this.#settings(flags, streamId, bytes, from, length);
      case frameType.ping:
        return this.#ping(flags, streamId, bytes, from, length);
      case frameType.goaway:
        if (streamId !== 0) return errorCode.protocolError;
        if (length < 8) return errorCode.frameSizeError;
        if (this.#costs()) this.goingAway(bytes.readUInt32BE(from) & maxStreamId);
        return errorCode.noError;
      case frameType.priority:
        // Priorities are not used (RFC 9113 5.3.2), but have a form.
        if (streamId === 0) return errorCode.protocolError;
        if (length !== 5) return errorCode.frameSizeError;
        if ((bytes.readUInt32BE(from) & maxStreamId) === streamId) return errorCode.protocolError;
        this.#costs();
        return errorCode.noError;
      case frameType.pushPromise:
        return errorCode.protocolError;
      default:
        // Extensions that we do not know are ignored (RFC 9113 5.5).
        this.#costs();
        return errorCode.noError;
    }
  }

  /** Pays for a frame that does no work; false when the connection has been ended for having sent too many. */
  #costs(): boolean {
    if (this.#overhead.take()) return true;
    this.limitReached('http2_overhead');
    this.fail(errorCode.enhanceYourCalm);
    return false;
  }

  #data(flags: number, streamId: number, bytes: Buffer, start: number, stop: number): number {
    const length = stop - start;
    let from = start;
    let to = stop;
    if (streamId === 0) return errorCode.protocolError;
    if ((flags & flag.padded) !== 0) {
      const padding = length === 0 ? 0 : (bytes[from] as number);
      if (padding >= length) return errorCode.protocolError;
      from++;
      to -= padding;
    }
    if (!this.#arrived(length)) return errorCode.flowControlError;
    const stream = this.streams.get(streamId);
    const end = (flags & flag.endStream) !== 0;
    if (stream === undefined || stream.remoteEnded) {
      this.#late(streamId, stream, end);
      return errorCode.noError;
    }
    stream.receiveWindow -= length;
    if (stream.receiveWindow < 0) {
      this.streamError(stream, errorCode.flowControlError);
      return errorCode.noError;
    }
    // Empty ones cost as much as full ones and bring nothing (CVE-2019-9518).
    if (from === to && !end && !this.#costs()) return errorCode.noError;
    if (stream.awaitsHead || !stream.count(to - from, end)) {
      stream.malformed();
      return errorCode.noError;
    }
    stream.unconsumed += length;
    stream.moved += length;
    this.#unconsumed += length;
    if (end) stream.remoteEnded = true;
    if (length > to - from) this.consumed(stream, length - (to - from));
    if (to > from) stream.received(bytes, from, to);
    if (end && !stream.closed) {
      stream.ended();
      this.halfClosed(stream);
    }
    return errorCode.noError;
  }

  /** A frame for a stream that takes none: never opened, ended by the peer itself, or reset by us while it was on its way. */
  #late(streamId: number, stream: Stream | undefined, end: boolean): void {
    if (stream !== undefined) this.streamError(stream, errorCode.streamClosed);
    else if (this.isIdle(streamId)) this.fail(errorCode.protocolError);
    else if (!this.wasReset(streamId, end)) this.fail(errorCode.streamClosed);
  }

  /** Whether the stream has never been open. A server opens none: pushes are not wanted, or not made. */
  protected isIdle(streamId: number): boolean {
    return streamId % 2 === 0 || streamId > this.lastStreamId;
  }

  /** A header block behind a message's head: its trailers, which end it. Undefined: of a stream that is no more. */
  protected trailers(
    streamId: number,
    stream: Stream | undefined,
    bytes: Buffer,
    from: number,
    to: number,
    endStream: boolean,
  ): void {
    // Whoever they are for, the table must stay in step.
    const decoded = this.decoder.decode(bytes, from, to);
    this.spend(to - from + this.decoder.decodedBytes);
    if (decoded.kind === 'malformed') {
      this.fail(errorCode.compressionError);
      return;
    }
    if (stream === undefined || stream.remoteEnded) {
      this.#late(streamId, stream, endStream);
      return;
    }
    if (decoded.kind !== 'fields' || !endStream || !areSoundTrailers(decoded.fields) || !stream.count(0, true)) {
      stream.malformed();
      return;
    }
    stream.trailers = decoded.fields;
    stream.remoteEnded = true;
    stream.ended();
    this.halfClosed(stream);
  }

  /** Whether we have reset the stream, so that more of it may come; not after its end. */
  protected wasReset(streamId: number, end: boolean): boolean {
    if (!this.#resetStreams.has(streamId)) return false;
    if (end) this.#resetStreams.delete(streamId);
    this.#costs();
    return true;
  }

  #headers(flags: number, streamId: number, bytes: Buffer, start: number, stop: number): number {
    let from = start;
    let to = stop;
    if (streamId === 0) return errorCode.protocolError;
    if ((flags & flag.padded) !== 0) {
      if (from === to) return errorCode.frameSizeError;
      to -= bytes[from++] as number;
    }
    if ((flags & flag.priority) !== 0) {
      if (to - from < 5) return errorCode.frameSizeError;
      if ((bytes.readUInt32BE(from) & maxStreamId) === streamId) return errorCode.protocolError;
      from += 5;
    }
    if (from > to) return errorCode.protocolError;
    const endStream = (flags & flag.endStream) !== 0;
    if ((flags & flag.endHeaders) !== 0) {
      this.headers(streamId, bytes, from, to, endStream);
      return errorCode.noError;
    }
    this.#block = { streamId, endStream, parts: [Buffer.from(bytes.subarray(from, to))], bytes: to - from };
    return errorCode.noError;
  }

  #continuation(flags: number, streamId: number, bytes: Buffer, from: number, to: number): number {
    const block = this.#block;
    if (block === null) return errorCode.protocolError;
    block.bytes += to - from;
    block.parts.push(Buffer.from(bytes.subarray(from, to)));
    const most = Math.max(maxBlockBytes, 2 * this.#limits.maxListBytes);
    if (block.bytes > most || block.parts.length > maxBlockFrames) return errorCode.enhanceYourCalm;
    if ((flags & flag.endHeaders) === 0) return errorCode.noError;
    this.#block = null;
    this.headers(streamId, Buffer.concat(block.parts), 0, block.bytes, block.endStream);
    return errorCode.noError;
  }

  #windowUpdate(streamId: number, bytes: Buffer, from: number, length: number): number {
    if (length !== 4) return errorCode.frameSizeError;
    if (!this.#costs()) return errorCode.noError;
    const increment = bytes.readUInt32BE(from) & maxWindow;
    if (streamId === 0) {
      if (increment === 0) return errorCode.protocolError;
      this.#sendWindow += increment;
      if (this.#sendWindow > maxWindow) return errorCode.flowControlError;
      this.#hasNewRoom = true;
      this.roomGiven();
      return errorCode.noError;
    }
    const stream = this.streams.get(streamId);
    if (stream === undefined) {
      if (this.isIdle(streamId)) this.fail(errorCode.protocolError);
      return errorCode.noError;
    }
    if (increment === 0) {
      this.streamError(stream, errorCode.protocolError);
      return errorCode.noError;
    }
    stream.sendWindow += increment;
    if (stream.sendWindow > maxWindow) {
      this.streamError(stream, errorCode.flowControlError);
      return errorCode.noError;
    }
    if (stream.queued) this.#hasNewRoom = true;
    return errorCode.noError;
  }

  #rstStream(streamId: number, bytes: Buffer, from: number, length: number): number {
    if (streamId === 0) return errorCode.protocolError;
    if (length !== 4) return errorCode.frameSizeError;
    if (this.isIdle(streamId)) return errorCode.protocolError;
    const stream = this.streams.get(streamId);
    this.#resetStreams.delete(streamId);
    if (stream === undefined) {
      this.#costs();
      return errorCode.noError;
    }
    // What it undoes has been done.
    this.spend(0);
    this.closeStream(stream, true);
    stream.broken(bytes.readUInt32BE(from));
    this.#countReset();
    return errorCode.noError;
  }

  /** Also streams that end in a reset of ours because of what the peer did. */
  #countReset(): void {
    if (this.over || !this.limitsResets || this.#resets.take()) return;
    this.limitReached('max_resets');
    this.fail(errorCode.enhanceYourCalm);
  }

  /** Whether too many resets end the connection. */
  protected abstract readonly limitsResets: boolean;

  /** What the peer may set ENABLE_PUSH to: a server nothing but 0 (RFC 9113 6.5.2). */
  protected abstract readonly maxEnablePush: number;

  #settings(flags: number, streamId: number, bytes: Buffer, from: number, length: number): number {
    if (streamId !== 0) return errorCode.protocolError;
    if ((flags & flag.ack) !== 0) {
      if (length !== 0) return errorCode.frameSizeError;
      if (!this.#sawSettings || --this.#unacknowledgedSettings < 0) return errorCode.protocolError;
      return errorCode.noError;
    }
    if (length % 6 !== 0) return errorCode.frameSizeError;
    const initialWindow = this.peerInitialWindow;
    for (let at = from; at < from + length; at += 6) {
      if (!this.#costs()) return errorCode.noError;
      const fault = this.#set(bytes.readUInt16BE(at), bytes.readUInt32BE(at + 2));
      if (fault !== errorCode.noError) return fault;
    }
    if (!this.#costs()) return errorCode.noError;
    const change = this.peerInitialWindow - initialWindow;
    if (change !== 0 && !this.#resizeWindows(change)) return errorCode.flowControlError;
    this.output.frame(frameType.settings, flag.ack, 0, 0);
    this.#sawSettings = true;
    this.#hasNewRoom = true;
    this.ready();
    return errorCode.noError;
  }

  #set(id: number, value: number): number {
    switch (id) {
      case setting.headerTableSize:
        if (value < this.#peerTableBytes) this.output.shrinkTable();
        this.#peerTableBytes = value;
        return errorCode.noError;
      case setting.enablePush:
        return value > this.maxEnablePush ? errorCode.protocolError : errorCode.noError;
      case setting.enableConnectProtocol:
      case setting.noRfc7540Priorities:
        // Switches; nothing else is made of them.
        return value > 1 ? errorCode.protocolError : errorCode.noError;
      case setting.maxConcurrentStreams:
        this.peerMaxStreams = value;
        return errorCode.noError;
      case setting.maxFrameSize:
        return value < maxPayload || value > 2 ** 24 - 1 ? errorCode.protocolError : errorCode.noError;
      case setting.initialWindowSize:
        if (value > maxWindow) return errorCode.flowControlError;
        this.peerInitialWindow = value;
        return errorCode.noError;
      case setting.maxHeaderListSize:
        this.peerMaxListBytes = value;
        return errorCode.noError;
      default:
        return errorCode.noError;
    }
  }

  /**
   * Once for a whole frame, which may set the size 2,700 times, and each time a piece of work for every stream.
   *
   * @returns false when a window would be larger than any may be.
   */
  #resizeWindows(change: number): boolean {
    this.spend(resizeCost * this.streams.size);
    for (const stream of this.streams.values()) {
      stream.sendWindow += change;
      if (stream.sendWindow > maxWindow) return false;
    }
    return true;
  }

  #ping(flags: number, streamId: number, bytes: Buffer, from: number, length: number): number {
    if (streamId !== 0) return errorCode.protocolError;
    if (length !== 8) return errorCode.frameSizeError;
    if (!this.#costs() || (flags & flag.ack) !== 0) return errorCode.noError;
    const at = this.output.frame(frameType.ping, flag.ack, 0, 8);
    bytes.copy(this.output.buffer, at, from, from + 8);
    return errorCode.noError;
  }

  /** Sends DATA as far as the windows and the socket have room; returns where it stopped. */
  sendData(stream: Stream, bytes: Buffer, start: number, to: number): number {
    let from = start;
    const { output } = this;
    while (from < to && !output.blocked) {
      const step = Math.min(to - from, maxPayload, this.#sendWindow, stream.sendWindow);
      if (step <= 0) break;
      const at = output.frame(frameType.data, 0, stream.id, step);
      bytes.copy(output.buffer, at, from, from + step);
      from += step;
      this.#sendWindow -= step;
      stream.sendWindow -= step;
      stream.moved += step;
      // A peer may give back room twice, the connection's and the stream's, for every few bytes that it reads.
      this.#overhead.earn(2 + (step >> 8));
    }
    return from;
  }

  /** Bytes of DATA that the peer takes on the connection, whatever it takes on a stream. */
  get sendRoom(): number {
    return this.#sendWindow;
  }

  /** The stream waits for room. */
  enqueue(stream: Stream): void {
    if (stream.queued) return;
    stream.queued = true;
    this.#queue.add(stream);
  }

  /** Gives everyone in the queue a turn, for as long as there is room. */
  #pump(): void {
    if (this.#pumping || this.#queue.size === 0) return;
    this.#pumping = true;
    const queue = this.#queue;
    this.#queue = new Set();
    for (const stream of queue) {
      stream.queued = false;
      try {
        if (!stream.closed && (this.output.blocked || !stream.pump())) this.enqueue(stream);
      } catch (error) {
        internalFault('an HTTP/2 stream that has room again', stream, error);
      }
    }
    this.#pumping = false;
  }

  /**
   * Takes the payload of DATA off the connection's window, and gives it back at once: what waits for somebody slow is
   * bounded by the windows of streams and by memory, and no stream can hold what the others need (RFC 9113 5.2.2).
   *
   * @returns false when there was no room for it.
   */
  #arrived(bytes: number): boolean {
    this.#receiveWindow -= bytes;
    if (this.#receiveWindow < 0) return false;
    const due = this.#limits.connectionWindow - this.#receiveWindow;
    if (due < this.#limits.connectionWindow >> 1) return true;
    this.output.number(frameType.windowUpdate, 0, due);
    this.#receiveWindow += due;
    return true;
  }

  /** Bytes of the peer's DATA on this stream have been dealt with. */
  consumed(stream: Stream, bytes: number): void {
    // Its end has settled all of them.
    if (this.over || stream.closed) return;
    stream.unconsumed -= bytes;
    this.#unconsumed -= bytes;
    if (stream.remoteEnded) return;
    stream.unannounced += bytes;
    if (stream.unannounced < stream.window >> 1) return;
    const { grownStreamWindow, connectionWindow } = this.#limits;
    let due = stream.unannounced;
    if (stream.window < grownStreamWindow && this.#unconsumed < connectionWindow) {
      due += grownStreamWindow - stream.window;
      stream.window = grownStreamWindow;
    }
    this.output.number(frameType.windowUpdate, stream.id, due);
    stream.receiveWindow += due;
    stream.unannounced = 0;
  }

  /** One side of the stream has ended; with both, it is over. */
  halfClosed(stream: Stream): void {
    if (stream.localEnded && stream.remoteEnded && !stream.closed) this.closeStream(stream, false);
  }

  /** Nothing more comes of the stream; who deals with it is not told. */
  protected closeStream(stream: Stream, reset: boolean): void {
    stream.close();
    this.streams.delete(stream.id);
    if (stream.queued) this.#queue.delete(stream);
    // Whoever was to deal with them may never do so.
    this.#unconsumed -= stream.unconsumed;
    this.streamClosed(stream, reset);
  }

  /** Ends one stream. */
  resetStream(stream: Stream, code: number): void {
    this.refuseStream(stream.id, code, !stream.remoteEnded);
    this.closeStream(stream, true);
  }

  /** RST_STREAM, for a stream that may not be known otherwise. */
  protected refuseStream(streamId: number, code: number, mayGoOn: boolean): void {
    if (this.over) return;
    this.output.number(frameType.rstStream, streamId, code);
    if (!mayGoOn) return;
    this.#resetStreams.add(streamId);
    if (this.#resetStreams.size > maxResetStreams) {
      for (const oldest of this.#resetStreams) {
        this.#resetStreams.delete(oldest);
        break;
      }
    }
  }

  cut(stream: Stream, code: number): void {
    this.resetStream(stream, code);
    stream.broken(code);
  }

  /** The peer broke a rule on one stream (RFC 9113 5.4.2). */
  streamError(stream: Stream, code: number): void {
    if (stream.closed) return;
    this.spend(0);
    this.resetStream(stream, code);
    stream.broken(code);
    this.#countReset();
  }

  /** The peer broke a rule with what was to become a stream. */
  protected refuseMalformed(streamId: number, code: number, endStream: boolean): void {
    this.refuseStream(streamId, code, !endStream);
    this.#countReset();
  }

  /** Ends the connection because of what the peer did (RFC 9113 5.4.1). */
  fail(code: number): void {
    if (this.over) return;
    this.goaway(this.lastAccepted, code);
    this.end(code);
  }

  /** The highest stream of the peer that we may have acted on. */
  protected abstract readonly lastAccepted: number;

  goaway(lastStreamId: number, code: number): void {
    const at = this.output.frame(frameType.goaway, 0, 0, 8);
    this.output.buffer.writeUInt32BE(lastStreamId, at);
    this.output.buffer.writeUInt32BE(code, at + 4);
  }

  /** Sends what is to be sent, then closes. What the peer still sends is read away, so that it can read our last frames. */
  end(code: number): void {
    if (this.over) return;
    this.output.flush();
    this.over = true;
    const { socket } = this;
    this.abortAll(code);
    if (socket.isPaused()) socket.resume();
    const linger = (): void => {
      if (socket.destroyed) return;
      const timer = setTimeout(() => socket.destroy(), lingerMs);
      socket.once('close', () => clearTimeout(timer));
    };
    socket.once('end', () => socket.destroy());
    // A slow peer may take its time to read its last answers; one that broke the rules may not.
    if (code === errorCode.noError) {
      socket.end(linger);
    } else {
      socket.end();
      linger();
    }
  }

  /** The connection is gone, or as good as gone. */
  protected abortAll(code: number): void {
    this.over = true;
    const streams = [...this.streams.values()];
    this.streams.clear();
    for (const stream of streams) {
      try {
        stream.close();
        this.streamClosed(stream, true);
        stream.broken(code);
      } catch (error) {
        internalFault('the end of an HTTP/2 connection', this.socket, error);
      }
    }
  }
}
