import type { Socket } from 'node:net';
import type { IpAddress } from '../../../ip.ts';
import { type BufferBudget, ConnectionHolding } from '../../fairness/buffer-budget.ts';
import { internalFault } from '../../guard.ts';
import { endAfterLastBytes } from '../../http/last-bytes.ts';
import type { Keeper } from '../../kept.ts';
import { HpackDecoder } from '../hpack/decoder.ts';
import { FloodLedger } from './flood-ledger.ts';
import { FlowControl } from './flow-control.ts';
import { FrameHandler } from './frame-handler.ts';
import { Intake, type Reader } from './intake.ts';
import { Output } from './output.ts';
import { headerTableBytes, PeerSettings } from './peer-settings.ts';
import { defaultWindow, errorCode, frameType } from './protocol.ts';
import { SendQueue } from './send-queue.ts';
import type { SessionLimits, SessionRole } from './session-role.ts';
import type { Stream, StreamHome } from './stream.ts';
import { StreamTable } from './stream-table.ts';
import { Work } from './work.ts';

/**
 * One HTTP/2 connection (RFC 9113): holds the parts that read frames, keep windows, settings and streams, and send; and ends
 * what breaks the rules. What needs a part asks it, not the session.
 */
export class Session<S extends Stream> implements Reader, StreamHome {
  readonly socket: Socket;
  readonly output: Output;
  readonly budget: BufferBudget;
  readonly holding = new ConnectionHolding();
  readonly keeper: Keeper;
  readonly decoder: HpackDecoder;
  readonly streams = new StreamTable<S>();
  readonly peer: PeerSettings;
  readonly flow: FlowControl;
  readonly ledger: FloodLedger;
  readonly queue: SendQueue;
  readonly frames: FrameHandler<S>;
  readonly intake: Intake;
  readonly work: Work;
  /** The connection is given up; whatever still comes is not looked at. */
  over = false;
  readonly #role: SessionRole<S>;
  readonly #limits: SessionLimits;

  constructor(socket: Socket, role: SessionRole<S>, limits: SessionLimits, budget: BufferBudget) {
    this.socket = socket;
    this.budget = budget;
    this.keeper = role.keeper;
    this.#role = role;
    this.#limits = limits;
    this.flow = new FlowControl(limits);
    this.ledger = new FloodLedger(limits.maxResets);
    this.decoder = new HpackDecoder(headerTableBytes, limits.maxListBytes, limits.maxFields);
    this.output = new Output(socket, this, this.keeper, () => this.#drained());
    this.queue = new SendQueue(this.output, this.flow, this.ledger);
    this.peer = new PeerSettings(limits.maxEnablePush, this.output);
    this.work = new Work(limits.takesTurns);
    this.frames = new FrameHandler<S>(this, role, limits.maxListBytes);
    this.intake = new Intake(this, limits);
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

  #drained(): void {
    if (this.over) return;
    this.intake.resume();
    this.queue.pump();
  }

  noPreface(): void {
    this.#role.noPreface();
    this.fail(errorCode.protocolError);
  }

  unreadable(): void {
    this.fail(errorCode.frameSizeError);
  }

  readsNothing(): void {
    this.fail(errorCode.enhanceYourCalm);
  }

  /** RST_STREAM, for a stream that may not be known otherwise. */
  refuseStream(streamId: number, code: number, late: number | null): void {
    if (this.over) return;
    this.output.number(frameType.rstStream, streamId, code);
    if (late !== null) this.streams.rememberReset(streamId, late);
  }

  /** A stream has ended in a reset of the peer, or in one of ours because of what the peer did. */
  countReset(): void {
    if (this.over || this.ledger.reset()) return;
    this.#role.limitReached('max_resets');
    this.fail(errorCode.enhanceYourCalm);
  }

  /** The peer broke a rule on one stream (RFC 9113 5.4.2). */
  streamError(stream: Stream, code: number): void {
    if (!this.streams.isOpen(stream.id)) return;
    this.work.spend(0);
    stream.cutOff(code);
    this.countReset();
  }

  /** The peer broke a rule with what was to become a stream. */
  refuseMalformed(streamId: number, code: number, endStream: boolean): void {
    this.refuseStream(streamId, code, endStream ? null : defaultWindow);
    this.countReset();
  }

  /** Ends the connection because of what the peer did (RFC 9113 5.4.1). */
  fail(code: number): void {
    if (this.over) return;
    this.#role.brokenProtocol(code);
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
    // A slow peer may take its time to read its last responses; one that broke the rules may not.
    endAfterLastBytes(this.socket, code === errorCode.noError ? 'patient' : 'impatient');
  }

  /** The connection is gone, or as good as gone. */
  abortAll(code: number): void {
    this.over = true;
    this.#role.ending();
    for (const stream of this.streams.clear()) {
      try {
        stream.connectionOver(code);
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
