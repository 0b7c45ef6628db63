import type { IpAddress } from '../../../ip.ts';
import { type BufferBudget, type Slow, Stall, type StallLimit } from '../../fairness/buffer-budget.ts';
import type { HeaderList } from '../../http/headers.ts';
import { StreamWindows } from './flow-control.ts';
import { HeldBytes } from './held-bytes.ts';
import type { Output } from './output.ts';
import { errorCode } from './protocol.ts';
import type { Queued } from './send-queue.ts';
import { afterEvent, type StreamEvent, type StreamState } from './stream-state.ts';

/** What a stream needs of the connection that it is on. */
export interface StreamHome {
  readonly output: Output;
  readonly budget: BufferBudget;
  /** Whose connection it is; null for the app's. */
  readonly client: IpAddress | null;
  /** Ends it now. */
  destroy(): void;
  /** Ends a stream for which too much has waited, or for too long. */
  cut(stream: Stream, code: number): void;
  /** Sends DATA as far as there is room; returns where it stopped. */
  sendData(stream: Stream, bytes: Buffer, from: number, to: number): number;
  /** The stream waits for room. */
  enqueue(stream: Stream): void;
  /** Bytes of the peer's content have been dealt with. */
  consumed(stream: Stream, bytes: number): void;
  /** One side has ended. */
  halfClosed(stream: Stream): void;
  resetStream(stream: Stream, code: number): void;
  /** The peer broke a rule. */
  streamError(stream: Stream, code: number): void;
}

const noTrailers: HeaderList = [];

/** One stream of either side: its state, its windows, and what of its data must wait. */
export abstract class Stream implements Slow, Queued {
  readonly id: number;
  readonly windows: StreamWindows;
  #state: StreamState = 'idle';
  /** Bytes of content still to come by Content-Length; -1 where none was given. */
  expected = -1;
  /** What came behind the content of the peer's message. */
  trailers: HeaderList = noTrailers;
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

  /** Bytes of the peer's message; `bytes` is only lent. Whoever takes them calls `consume` when they are dealt with. */
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
      sent = this.#home.sendData(this, bytes, from, to);
      if (sent === to) return !this.#home.output.blocked || this.#block();
      this.#waiting = new HeldBytes();
    }
    this.#waiting.push(bytes, sent, to);
    this.stall.hold(this.#waiting.bytes, this.isTimed);
    return this.#block();
  }

  onDrain(resume: () => void): void {
    this.drained = resume;
  }

  #block(): false {
    this.#home.enqueue(this);
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
    this.#home.halfClosed(this);
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
      const isEmpty = this.#waiting.drain((bytes, from, to) => this.#home.sendData(this, bytes, from, to));
      if (!isEmpty) {
        this.stall.hold(this.#waiting.bytes, this.isTimed);
        return false;
      }
      this.#waiting = null;
      this.#stall?.release();
    }
    if (this.#home.output.blocked) return false;
    if (this.#end !== null) {
      this.#finish(this.#end.trailers);
      return true;
    }
    const { drained } = this;
    this.drained = null;
    drained?.();
    return true;
  }

  /** Gives the peer room for as many bytes again. */
  consume(bytes: number): void {
    this.#home.consumed(this, bytes);
  }

  /** Ends the stream at once; what waits is dropped. */
  reset(code: number): void {
    this.#home.resetStream(this, code);
  }

  /** By the session: nothing more will come or leave. */
  close(): void {
    this.#waiting = null;
    this.#end = null;
    this.drained = null;
    this.#stall?.release();
  }

  /** Whether the peer has only so much time to take what waits. */
  protected abstract readonly isTimed: boolean;

  /** For what waits for the peer. */
  protected get stall(): Stall {
    this.#stall ??= new Stall(this.#home.budget, this);
    return this.#stall;
  }

  get client(): IpAddress | null {
    return this.#home.client;
  }

  progress(): number {
    return this.windows.moved;
  }

  cut(limit: StallLimit): void {
    if (!this.closed) this.#home.cut(this, limit === 'stall_timeout' ? errorCode.cancel : errorCode.enhanceYourCalm);
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
