import type { HpackDecoder } from '../hpack/decoder.ts';
import { HeaderBlocks } from '../message/header-blocks.ts';
import { readTrailers, type Trailers } from '../message/trailers.ts';
import type { FloodLedger } from './flood-ledger.ts';
import type { FlowControl } from './flow-control.ts';
import { dependsOnItself, formFault } from './frame-form.ts';
import { type BlockSink, HeaderAssembly } from './header-assembly.ts';
import type { Output } from './output.ts';
import type { PeerSettings } from './peer-settings.ts';
import { errorCode, flag, frameType, maxStreamId, maxWindow } from './protocol.ts';
import type { SendQueue } from './send-queue.ts';
import type { SessionRole } from './session-role.ts';
import type { Stream } from './stream.ts';
import { type Verdict, verdictOn } from './stream-state.ts';
import type { StreamTable } from './stream-table.ts';
import type { Work } from './work.ts';

/** What frames need of their connection. */
interface FramesHome<S extends Stream> {
  readonly output: Output;
  readonly streams: StreamTable<S>;
  readonly peer: PeerSettings;
  readonly flow: FlowControl;
  readonly ledger: FloodLedger;
  readonly decoder: HpackDecoder;
  readonly queue: SendQueue;
  readonly work: Work;
  /** A stream has ended in a reset because of what the peer did. */
  countReset(): void;
  streamError(stream: S, code: number): void;
  fail(code: number): void;
}

/** What a stream costs whose window a peer's SETTINGS change, in bytes looked at. */
const resizeCost = 4;

/** Holds each frame of a peer against the rules (RFC 9113 6), and does what it says. */
export class FrameHandler<S extends Stream> implements BlockSink {
  readonly #home: FramesHome<S>;
  readonly #role: SessionRole<S>;
  readonly #blocks: HeaderAssembly;
  /** Made with the first that come: most connections never have any. */
  #trailers: HeaderBlocks<Trailers> | null = null;

  constructor(home: FramesHome<S>, role: SessionRole<S>, maxListBytes: number) {
    this.#home = home;
    this.#role = role;
    this.#blocks = new HeaderAssembly(this, maxListBytes);
  }

  /** The preface is over, and no header block has begun. */
  get isBetweenMessages(): boolean {
    return this.#home.peer.haveCome && !this.#blocks.awaitsRest;
  }

  /** Bytes of a message that has begun and is not complete. */
  get heldBytes(): number {
    return this.#blocks.heldBytes;
  }

  frame(type: number, flags: number, streamId: number, bytes: Buffer, from: number, to: number): void {
    const fault = this.#take(type, flags, streamId, bytes, from, to);
    if (fault !== errorCode.noError) this.#home.fail(fault);
  }

  /** The error that ends the connection; NO_ERROR for a frame that keeps the rules. So do those for each type. */
  #take(type: number, flags: number, streamId: number, bytes: Buffer, from: number, to: number): number {
    if (!this.#home.peer.haveCome && type !== frameType.settings) return errorCode.protocolError;
    if (!this.#blocks.admits(type, streamId)) return errorCode.protocolError;
    const fault = formFault(type, flags, streamId, to - from);
    if (fault !== errorCode.noError) return fault;
    switch (type) {
      case frameType.data:
        return this.#data(flags, streamId, bytes, from, to);
      case frameType.headers:
        return this.#blocks.headers(flags, streamId, bytes, from, to);
      case frameType.continuation:
        return this.#blocks.continuation(flags, bytes, from, to);
      case frameType.windowUpdate:
        return this.#windowUpdate(streamId, bytes.readUInt32BE(from) & maxWindow);
      case frameType.rstStream:
        return this.#rstStream(streamId, bytes.readUInt32BE(from));
      case frameType.settings:
        return (flags & flag.ack) === 0 ? this.#settings(bytes, from, to) : this.#home.peer.acknowledged();
      case frameType.ping:
        return this.#ping(flags, bytes, from, to);
      case frameType.goaway:
        if (this.#pays()) this.#role.goingAway(bytes.readUInt32BE(from) & maxStreamId);
        return errorCode.noError;
      case frameType.priority:
        if (dependsOnItself(streamId, bytes, from)) return errorCode.protocolError;
    }
    this.#pays();
    return errorCode.noError;
  }

  /** Pays for a frame that does no work; false when the connection has been ended for having sent too many. */
  #pays(): boolean {
    if (this.#home.ledger.overhead()) return true;
    this.#role.limitReached('http2_overhead');
    this.#home.fail(errorCode.enhanceYourCalm);
    return false;
  }

  #data(flags: number, streamId: number, bytes: Buffer, start: number, stop: number): number {
    const length = stop - start;
    let from = start;
    let to = stop;
    if ((flags & flag.padded) !== 0) {
      const padding = length === 0 ? 0 : (bytes[from] as number);
      if (padding >= length) return errorCode.protocolError;
      from++;
      to -= padding;
    }
    const due = this.#home.flow.arrived(length);
    if (due === -1) return errorCode.flowControlError;
    if (due > 0) this.#home.output.number(frameType.windowUpdate, 0, due);
    const end = (flags & flag.endStream) !== 0;
    const stream = this.#home.streams.get(streamId);
    const verdict = verdictOn(frameType.data, stream?.state ?? this.#home.streams.stateOf(streamId), false);
    if (stream === undefined || verdict.kind !== 'taken') {
      // One reset may be crossed by thousands of small ones, and the session is others', too.
      const isFree = to > from && this.#home.streams.wasOnItsWay(streamId, length);
      this.passOver(verdict, streamId, stream, end, isFree);
    } else {
      this.#content(stream, bytes, from, to, length, end);
    }
    return errorCode.noError;
  }

  /** @param length with its padding. */
  #content(stream: S, bytes: Buffer, from: number, to: number, length: number, end: boolean): void {
    const { flow } = this.#home;
    const { windows } = stream;
    if (!flow.arrivedOn(windows, length)) {
      this.#home.streamError(stream, errorCode.flowControlError);
      return;
    }
    // Empty ones cost as much as full ones and bring nothing (CVE-2019-9518).
    if (from === to && !end && !this.#pays()) return;
    if (stream.awaitsHead || !stream.count(to - from, end)) {
      stream.malformed();
      return;
    }
    flow.hold(windows, length);
    if (end) stream.happened('END_STREAM received');
    if (length > to - from) stream.consume(length - (to - from));
    if (to > from) stream.received(bytes, from, to);
    if (end) stream.messageEnded();
  }

  /** A frame that the state of its stream has no use for, or forbids. Undefined: a stream that is not open. */
  passOver(verdict: Verdict, streamId: number, stream: S | undefined, end: boolean, isFree = false): void {
    switch (verdict.kind) {
      case 'stream error':
        if (stream !== undefined) this.#home.streamError(stream, verdict.code);
        return;
      case 'connection error':
        this.#home.fail(verdict.code);
        return;
      default:
        if (end) this.#home.streams.forgetReset(streamId);
        if (!isFree) this.#pays();
    }
  }

  headerBlock(streamId: number, bytes: Buffer, from: number, to: number, endStream: boolean): void {
    this.#role.headers(streamId, this.#home.streams.get(streamId), bytes, from, to, endStream);
  }

  /** A header block behind a message's head: its trailers, which end it. Undefined: of a stream that is not open. */
  trailers(streamId: number, stream: S | undefined, bytes: Buffer, from: number, to: number, endStream: boolean): void {
    // Even where nobody wants them, the table must stay in step.
    this.#trailers ??= new HeaderBlocks(this.#home.decoder, readTrailers);
    const block = this.#trailers.read(bytes, from, to);
    this.#home.work.spend(this.#trailers.cost);
    if (block.kind === 'undecodable') {
      this.#home.fail(errorCode.compressionError);
      return;
    }
    const verdict = verdictOn(frameType.headers, stream?.state ?? this.#home.streams.stateOf(streamId), false);
    if (stream === undefined || verdict.kind !== 'taken') {
      this.passOver(verdict, streamId, stream, endStream);
      return;
    }
    if (block.kind !== 'head' || !endStream || !stream.count(0, true)) {
      stream.malformed();
      return;
    }
    stream.trailers = block.head;
    stream.happened('END_STREAM received');
    stream.messageEnded();
  }

  #windowUpdate(streamId: number, increment: number): number {
    if (!this.#pays()) return errorCode.noError;
    if (streamId === 0) {
      const fault = this.#home.flow.widen(null, increment);
      if (fault !== errorCode.noError) return fault;
      this.#home.queue.roomGiven();
      this.#role.roomGiven();
      return errorCode.noError;
    }
    const stream = this.#home.streams.get(streamId);
    const verdict = verdictOn(frameType.windowUpdate, stream?.state ?? this.#home.streams.stateOf(streamId), false);
    if (stream === undefined) return verdict.kind === 'connection error' ? verdict.code : errorCode.noError;
    const fault = this.#home.flow.widen(stream.windows, increment);
    if (fault !== errorCode.noError) this.#home.streamError(stream, fault);
    else if (stream.queued) this.#home.queue.roomGiven();
    return errorCode.noError;
  }

  #rstStream(streamId: number, code: number): number {
    const stream = this.#home.streams.get(streamId);
    const verdict = verdictOn(frameType.rstStream, stream?.state ?? this.#home.streams.stateOf(streamId), false);
    if (verdict.kind === 'connection error') return verdict.code;
    if (stream === undefined) {
      this.passOver(verdict, streamId, stream, true);
      return errorCode.noError;
    }
    // What it undoes has been done.
    this.#home.work.spend(0);
    stream.breakOff(code);
    this.#home.countReset();
    return errorCode.noError;
  }

  #settings(bytes: Buffer, from: number, to: number): number {
    const { peer } = this.#home;
    const before = peer.initialWindow;
    for (let at = from; at < to; at += 6) {
      if (!this.#pays()) return errorCode.noError;
      const fault = peer.set(bytes.readUInt16BE(at), bytes.readUInt32BE(at + 2));
      if (fault !== errorCode.noError) return fault;
    }
    if (!this.#pays()) return errorCode.noError;
    // Once for a whole frame, which may set the size 2,700 times, and each time a piece of work for every stream.
    const change = peer.initialWindow - before;
    if (change !== 0) {
      this.#home.work.spend(resizeCost * this.#home.streams.size);
      for (const { windows } of this.#home.streams.values()) {
        if (!this.#home.flow.resize(windows, change)) return errorCode.flowControlError;
      }
    }
    this.#home.output.frame(frameType.settings, flag.ack, 0, 0);
    peer.haveCome = true;
    this.#home.queue.roomGiven();
    this.#role.ready();
    return errorCode.noError;
  }

  #ping(flags: number, bytes: Buffer, from: number, to: number): number {
    if (!this.#pays() || (flags & flag.ack) !== 0) return errorCode.noError;
    const at = this.#home.output.frame(frameType.ping, flag.ack, 0, to - from);
    bytes.copy(this.#home.output.buffer, at, from, to);
    return errorCode.noError;
  }
}
