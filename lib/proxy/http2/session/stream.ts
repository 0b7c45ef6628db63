import type { IpAddress } from '../../../ip.ts';
import {
  type BufferBudget,
  type ConnectionHolding,
  type Slow,
  Stall,
  type StallLimit,
} from '../../fairness/buffer-budget.ts';
import { noTrailers, type Trailers } from '../message/trailers.ts';
import { type FlowControl, StreamWindows } from './flow-control.ts';
import { HeldBytes } from './held-bytes.ts';
import type { Output } from './output.ts';
import { errorCode, frameType } from './protocol.ts';
import type { Queued, Sending, SendQueue } from './send-queue.ts';
import { afterEvent, type StreamEvent, type StreamState } from './stream-state.ts';
import type { StreamTable } from './stream-table.ts';

/** What a stream needs of the connection that it is on. */
export interface StreamHome {
  readonly output: Output;
  readonly queue: SendQueue;
  readonly flow: FlowControl;
  readonly streams: Pick<StreamTable<Stream>, 'isOpen' | 'remove'>;
  readonly budget: BufferBudget;
  /** What waits for all of its streams. */
  readonly holding: ConnectionHolding;
  /** Whose connection it is; null for the app's. */
  readonly client: IpAddress | null;
  /** The connection is given up. */
  readonly over: boolean;
  /** Ends it now. */
  destroy(): void;
  /** RST_STREAM. `late`: bytes of content that may be on their way to us; null where the peer has ended the stream. */
  refuseStream(streamId: number, code: number, late: number | null): void;
  /** The peer broke a rule. */
  streamError(stream: Stream, code: number): void;
}

/** One stream of either side: its state, its windows, and what of its data must wait. */
export abstract class Stream implements Slow, Sending, Queued {
  readonly id: number;
  readonly windows: StreamWindows;
  #state: StreamState = 'idle';
  /** Bytes of content still to come by Content-Length; -1 where none was given. */
  expected = -1;
  /** What came behind the content of the peer's message. */
  trailers: Trailers = noTrailers;
  /** Called once when `write` has returned false and everything has left since. */
  protected drained: (() => void) | null = null;
  queued = false;
  readonly #home: StreamHome;
  /** Data that found no room. Few streams ever have any. */
  #waiting: HeldBytes | null = null;
  #stall: Stall | null = null;
  /** What comes behind them. */
  #end: { readonly trailers: Buffer | null } | null = null;

  constructor(home: StreamHome, id: number, sendWindow: number, receiveWindow: number) {
    this.#home = home;
    this.id = id;
    this.windows = new StreamWindows(sendWindow, receiveWindow);
  }

  get state(): StreamState {
    return this.#state;
  }

  /** By the session and by what sends END_STREAM. */
  happened(event: StreamEvent): void {
    this.#state = afterEvent(this.#state, event);
  }

  /** The peer has sent END_STREAM. */
  get remoteEnded(): boolean {
    return this.#state === 'half-closed (remote)' || this.#state === 'closed';
  }

  /** We have sent END_STREAM. */
  get localEnded(): boolean {
    return this.#state === 'half-closed (local)' || this.#state === 'closed';
  }

  /** Over: by both ends, or by a reset. */
  get closed(): boolean {
    return this.#state === 'closed' || this.#state === 'reset';
  }

  /** No content may come yet, not even an empty piece (RFC 9113 8.1). */
  abstract readonly awaitsHead: boolean;

  /** Bytes of the peer's message; `bytes` is only lent. The one that takes them calls `consume` when they are dealt with. */
  abstract received(bytes: Buffer, from: number, to: number): void;
  /** The peer's message is complete. */
  abstract ended(): void;
  /** Over before its time: reset by either side, or the connection is gone. Not called after `reset`. */
  abstract broken(code: number): void;

  /**
   * Sends bytes, which are only lent. Nothing may follow `finish`.
   *
   * @returns false when some had to wait: no more until `onDrain`.
   */
  write(bytes: Buffer, from = 0, to: number = bytes.length): boolean {
    if (this.closed || this.localEnded) return true;
    let sent = from;
    if (this.#waiting === null) {
      sent = this.#home.queue.send(this, bytes, from, to);
      if (sent === to) return !this.#home.output.blocked || this.#block();
      this.#waiting = new HeldBytes();
    }
    this.#waiting.push(bytes, sent, to);
    this.stall.hold(this.#waiting.memory, this.isTimed);
    return this.#block();
  }

  onDrain(resume: () => void): void {
    this.drained = resume;
  }

  #block(): false {
    this.#home.queue.add(this);
    return false;
  }

  /** Ends our message, with an encoded block of trailers or without. */
  finish(trailers: Buffer | null): void {
    if (this.closed || this.localEnded || this.#end !== null) return;
    if (this.#waiting !== null) this.#end = { trailers };
    else this.#finish(trailers);
  }

  #finish(trailers: Buffer | null): void {
    const { output } = this.#home;
    this.happened('END_STREAM sent');
    if (trailers !== null) output.headers(this.id, trailers, true);
    else if (!output.endLast(this.id)) output.endStream(this.id);
    this.halfClosed();
    this.left();
  }

  /** All of our message has left, and the peer's may still come. */
  protected left(): void {}

  /** Some of our message has found no room. */
  protected get waits(): boolean {
    return this.#waiting !== null;
  }

  /** Sends as much of what waits as there is room for. True when nothing waits any more. */
  pump(): boolean {
    if (this.#waiting !== null) {
      const isEmpty = this.#waiting.drain((bytes, from, to) => this.#home.queue.send(this, bytes, from, to));
      if (!isEmpty) {
        this.stall.hold(this.#waiting.memory, this.isTimed);
        return false;
      }
      this.#waiting = null;
      this.#stall?.release();
    }
    if (this.#home.output.blocked) return false;
    const { drained } = this;
    this.drained = null;
    // Also where this is the end: who wrote it still has to say that it is dealt with.
    drained?.();
    if (this.#end !== null) this.#finish(this.#end.trailers);
    return true;
  }

  /** Bytes of the peer's content have been dealt with: gives it room for as many again. */
  consume(bytes: number): void {
    // The end has settled all of them.
    if (this.#home.over || this.closed) return;
    const due = this.#home.flow.consumed(this.windows, bytes, !this.remoteEnded);
    if (due > 0) this.#home.output.number(frameType.windowUpdate, this.id, due);
  }

  /** The peer's message is complete, unless its receiver has broken the stream off at the last of it. */
  messageEnded(): void {
    if (!this.#home.streams.isOpen(this.id)) return;
    this.ended();
    this.halfClosed();
  }

  /** One side of the stream has ended; with both, it is over. */
  protected halfClosed(): void {
    if (this.#state === 'closed') this.#leave();
  }

  /** Nothing more comes of the stream. False where that was so before. */
  #leave(): boolean {
    const { streams, queue, flow } = this.#home;
    if (!streams.remove(this.id)) return false;
    this.close();
    queue.remove(this);
    flow.settle(this.windows);
    this.removed();
    return true;
  }

  /** Ends the stream at once, and says so to nobody here; what waits is dropped. False where it is over already. */
  reset(code: number): boolean {
    if (!this.#home.streams.isOpen(this.id)) return false;
    this.#home.refuseStream(this.id, code, this.remoteEnded ? null : this.windows.receive);
    this.happened('RST_STREAM');
    return this.#leave();
  }

  /** The same, and says so. */
  cutOff(code: number): void {
    if (this.reset(code)) this.broken(code);
  }

  /** Ends the stream without a word to the peer, which has ended it before. */
  breakOff(code: number): void {
    this.happened('RST_STREAM');
    if (this.#leave()) this.broken(code);
  }

  /** By the session, whose table is empty by now. */
  connectionOver(code: number): void {
    this.happened('RST_STREAM');
    this.close();
    this.removed();
    this.broken(code);
  }

  /** The stream is over, and has left the table. */
  protected abstract removed(): void;

  /** Nothing more will come or leave. */
  protected close(): void {
    this.#waiting = null;
    this.#end = null;
    this.drained = null;
    this.#stall?.release();
  }

  /** Whether the peer has only so much time to take what waits. */
  protected abstract readonly isTimed: boolean;

  /** For what waits for the peer. */
  protected get stall(): Stall {
    const { budget, client, holding } = this.#home;
    // What waits for the app waits on a connection that all clients share.
    this.#stall ??= client === null ? new Stall(budget, this) : new Stall(budget, this, holding);
    return this.#stall;
  }

  get client(): IpAddress | null {
    return this.#home.client;
  }

  progress(): number {
    return this.windows.moved;
  }

  cut(limit: StallLimit): void {
    if (!this.closed) this.cutOff(limit === 'stall_timeout' ? errorCode.cancel : errorCode.enhanceYourCalm);
  }

  /** Ends the connection, for a fault of ours. */
  destroy(): void {
    this.#home.destroy();
  }

  /** Takes `bytes` off what Content-Length announced. False when it was not the truth (RFC 9113 8.1.1). */
  count(bytes: number, end: boolean): boolean {
    if (this.expected === -1) return true;
    this.expected -= bytes;
    return end ? this.expected === 0 : this.expected >= 0;
  }

  /** The peer broke off, or never began, what it had announced. */
  malformed(): void {
    this.#home.streamError(this, errorCode.protocolError);
  }
}
