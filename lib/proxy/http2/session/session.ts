import type { Socket } from 'node:net';
import type { IpAddress } from '../../../ip.ts';
import type { BufferBudget } from '../../fairness/buffer-budget.ts';
import { internalFault } from '../../guard.ts';
import { HpackDecoder } from '../hpack/decoder.ts';
import { FloodLedger } from './flood-ledger.ts';
import { FlowControl } from './flow-control.ts';
import { FrameHandler } from './frame-handler.ts';
import type { FrameSink } from './frame-reader.ts';
import { Intake } from './intake.ts';
import { endAfterLastFrames } from './last-frames.ts';
import { Output } from './output.ts';
import { headerTableBytes, PeerSettings } from './peer-settings.ts';
import { defaultWindow, errorCode, frameType } from './protocol.ts';
import { SendQueue } from './send-queue.ts';
import type { SessionLimits, SessionRole } from './session-role.ts';
import type { Stream, StreamHome } from './stream.ts';
import { StreamTable } from './stream-table.ts';

/**
 * One HTTP/2 connection (RFC 9113): joins what reads frames, keeps windows, settings and streams, and what they mean for
 * this peer, and ends what breaks the rules.
 */
export class Session<S extends Stream> implements FrameSink, StreamHome {
  readonly socket: Socket;
  readonly output: Output;
  readonly budget: BufferBudget;
  readonly decoder: HpackDecoder;
  readonly streams = new StreamTable<S>();
  readonly peer: PeerSettings;
  readonly flow: FlowControl;
  readonly ledger: FloodLedger;
  readonly frames: FrameHandler<S>;
  /** The connection is given up; whatever still comes is not looked at. */
  over = false;
  /** Since when the beginning of a connection or of a message has been waiting for its rest; null when none is. */
  incompleteSince: number | null = performance.now();
  readonly #role: SessionRole<S>;
  readonly #limits: SessionLimits;
  readonly #intake: Intake;
  readonly #queue = new SendQueue();
  #hasNewRoom = false;

  constructor(socket: Socket, role: SessionRole<S>, limits: SessionLimits, budget: BufferBudget) {
    this.socket = socket;
    this.budget = budget;
    this.#role = role;
    this.#limits = limits;
    this.flow = new FlowControl(limits);
    this.ledger = new FloodLedger(limits.maxResets);
    this.decoder = new HpackDecoder(headerTableBytes, limits.maxListBytes, limits.maxFields);
    this.output = new Output(socket, this, () => this.#drained());
    this.peer = new PeerSettings(limits.maxEnablePush, this.output);
    this.frames = new FrameHandler<S>(this, role, limits.maxListBytes);
    this.#intake = new Intake(this, limits);
  }

  /** Our SETTINGS, and the connection's window. */
  open(): void {
    const { settings, connectionWindow } = this.#limits;
    const at = this.output.frame(frameType.settings, 0, 0, 6 * settings.length);
    for (const [i, [id, value]] of settings.entries()) {
      this.output.buffer.writeUInt16BE(id, at + 6 * i);
      this.output.buffer.writeUInt32BE(value, at + 6 * i + 2);
    }
    this.output.number(frameType.windowUpdate, 0, connectionWindow - defaultWindow);
  }

  get client(): IpAddress | null {
    return this.#role.client;
  }

  /** Takes bytes from the peer. They are only lent where it takes no turns. */
  receive(chunk: Buffer): void {
    this.#intake.receive(chunk);
  }

  get hasHadItsTurn(): boolean {
    return this.#intake.hasHadItsTurn;
  }

  /** Says what a message has cost, in bytes that were looked at. */
  spend(cost: number): void {
    this.#intake.spend(cost);
  }

  unreadable(): void {
    this.fail(errorCode.frameSizeError);
  }

  wasRead(awaitsRest: boolean): void {
    if (this.#hasNewRoom) {
      // Once for all that came at once. Peers give back room frame by frame: whoever fills each bit of it at once sends
      // ever smaller frames.
      this.#hasNewRoom = false;
      this.#queue.pump(this.output);
    }
    const isComplete = this.frames.isBetweenMessages && !awaitsRest;
    this.incompleteSince = isComplete ? null : (this.incompleteSince ?? performance.now());
  }

  /** The peer has given room for data that may be waiting. */
  roomGiven(): void {
    this.#hasNewRoom = true;
  }

  #drained(): void {
    if (this.over) return;
    this.#intake.resume();
    this.#queue.pump(this.output);
  }

  frame(type: number, flags: number, streamId: number, bytes: Buffer, from: number, to: number): void {
    const fault = this.frames.take(type, flags, streamId, bytes, from, to);
    if (fault !== errorCode.noError) this.fail(fault);
    // What is incomplete from here on has begun just now.
    if (this.frames.isBetweenMessages) this.incompleteSince = null;
  }

  /** Sends DATA as far as the windows and the socket have room; returns where it stopped. */
  sendData(stream: Stream, bytes: Buffer, start: number, to: number): number {
    let from = start;
    const { output } = this;
    while (from < to && !output.blocked) {
      const step = this.flow.roomFor(stream.windows, to - from);
      if (step <= 0) break;
      const at = output.frame(frameType.data, 0, stream.id, step);
      bytes.copy(output.buffer, at, from, from + step);
      from += step;
      this.flow.sent(stream.windows, step);
      this.ledger.earn(step);
    }
    return from;
  }

  /** The stream waits for room. */
  enqueue(stream: Stream): void {
    this.#queue.add(stream);
  }

  /** Bytes of the peer's DATA on this stream have been dealt with. */
  consumed(stream: Stream, bytes: number): void {
    // Its end has settled all of them.
    if (this.over || stream.closed) return;
    const due = this.flow.consumed(stream.windows, bytes, !stream.remoteEnded);
    if (due > 0) this.output.number(frameType.windowUpdate, stream.id, due);
  }

  /** The peer's message is complete, unless whoever got the last of it has broken the stream off. */
  messageEnded(stream: S): void {
    if (!this.streams.has(stream)) return;
    stream.ended();
    this.halfClosed(stream);
  }

  /** One side of the stream has ended; with both, it is over. */
  halfClosed(stream: S): void {
    if (stream.state === 'closed') this.#leave(stream);
  }

  /** Nothing more comes of the stream. False where that was so before. */
  #leave(stream: S): boolean {
    if (!this.streams.remove(stream)) return false;
    stream.close();
    this.#queue.remove(stream);
    this.flow.settle(stream.windows);
    this.#role.streamClosed(stream);
    return true;
  }

  /** The peer has reset the stream. */
  streamReset(stream: S, code: number): void {
    // What it undoes has been done.
    this.spend(0);
    this.breakOff(stream, code);
    this.#countReset();
  }

  /** Ends one stream without a word to the peer, which has ended it before. */
  breakOff(stream: S, code: number): void {
    stream.happened('RST_STREAM');
    if (this.#leave(stream)) stream.broken(code);
  }

  /** Ends one stream; who deals with it is not told. False where it is over already. */
  resetStream(stream: S, code: number): boolean {
    if (!this.streams.has(stream)) return false;
    this.#refuseStream(stream.id, code, !stream.remoteEnded);
    stream.happened('RST_STREAM');
    return this.#leave(stream);
  }

  /** RST_STREAM, for a stream that may not be known otherwise. */
  #refuseStream(streamId: number, code: number, mayGoOn: boolean): void {
    if (this.over) return;
    this.output.number(frameType.rstStream, streamId, code);
    if (mayGoOn) this.streams.rememberReset(streamId);
  }

  /** Also streams that end in a reset of ours because of what the peer did. */
  #countReset(): void {
    if (this.over || this.ledger.reset()) return;
    this.#role.limitReached('max_resets');
    this.fail(errorCode.enhanceYourCalm);
  }

  cut(stream: S, code: number): void {
    if (this.resetStream(stream, code)) stream.broken(code);
  }

  /** The peer broke a rule on one stream (RFC 9113 5.4.2). */
  streamError(stream: S, code: number): void {
    if (!this.streams.has(stream)) return;
    this.spend(0);
    this.cut(stream, code);
    this.#countReset();
  }

  /** The peer broke a rule with what was to become a stream. */
  refuseMalformed(streamId: number, code: number, endStream: boolean): void {
    this.#refuseStream(streamId, code, !endStream);
    this.#countReset();
  }

  /** Ends the connection because of what the peer did (RFC 9113 5.4.1). */
  fail(code: number): void {
    if (this.over) return;
    this.#role.brokenProtocol();
    this.goaway(this.#role.lastAccepted, code);
    this.end(code);
  }

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
    this.abortAll(code);
    endAfterLastFrames(this.socket, code === errorCode.noError);
  }

  /** The connection is gone, or as good as gone. */
  abortAll(code: number): void {
    this.over = true;
    this.#role.ending();
    for (const stream of this.streams.clear()) {
      try {
        stream.happened('RST_STREAM');
        stream.close();
        this.#role.streamClosed(stream);
        stream.broken(code);
      } catch (error) {
        internalFault('the end of an HTTP/2 connection', this.socket, error);
      }
    }
  }

  /** Ends it now. */
  destroy(): void {
    this.#role.destroy();
  }
}
