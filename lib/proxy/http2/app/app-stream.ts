import type { StallLimit } from '../../fairness/buffer-budget.ts';
import { internalFault } from '../../guard.ts';
import type { HeaderList } from '../../http/headers.ts';
import { InterimCount } from '../../http/interim-count.ts';
import type { Http2ResponseHead } from '../message/response-head.ts';
import { errorCode } from '../session/protocol.ts';
import { Stream, type StreamHome } from '../session/stream.ts';
import { appLimits } from './limits.ts';

/** Who gets a response. Bytes are only lent; when they are dealt with, the stream's `consume` must be called. */
export interface Http2ResponseSink {
  /** A 1xx. */
  interim(head: Http2ResponseHead): void;
  head(head: Http2ResponseHead, endStream: boolean): void;
  data(bytes: Buffer, from: number, to: number): void;
  /** The response is complete. */
  ended(trailers: HeaderList): void;
  /** Once, instead of `ended`. */
  broken(code: number): void;
  /** Once, instead of both: content of the request has waited too long for the app to read what is before it. */
  unread(): void;
  /** The client's connection. */
  readonly owner: object;
  /** Ends that. */
  destroy(): void;
}

/** The connection to the app. */
export interface AppStreamHome {
  readonly session: StreamHome;
  /** The stream is over, and has left the table. */
  streamClosed(stream: AppStream): void;
}

/** One request to the app. */
export class AppStream extends Stream {
  readonly isHead: boolean;
  /** The app may take as long as it likes, unless others are kept waiting (`AppSession.lookForStalls`). */
  protected override isTimed = false;
  #response: 'awaited' | 'begun' = 'awaited';
  #interim: InterimCount | null = null;
  readonly #home: AppStreamHome;
  readonly #sink: Http2ResponseSink;

  constructor(home: AppStreamHome, id: number, isHead: boolean, sink: Http2ResponseSink, sendWindow: number) {
    super(home.session, id, sendWindow, appLimits.streamWindow);
    this.isHead = isHead;
    this.#home = home;
    this.#sink = sink;
  }

  override get awaitsHead(): boolean {
    return this.#response === 'awaited';
  }

  get owner(): object {
    return this.#sink.owner;
  }

  head(head: Http2ResponseHead, endStream: boolean): void {
    if (head.status < 200) {
      this.#interim ??= new InterimCount();
      if (!this.#interim.allows(head.block.length)) {
        this.malformed();
        return;
      }
      try {
        this.#sink.interim(head);
      } catch (error) {
        this.#fault(error);
      }
      return;
    }
    this.#response = 'begun';
    try {
      this.#sink.head(head, endStream);
    } catch (error) {
      this.#fault(error);
    }
  }

  override received(bytes: Buffer, from: number, to: number): void {
    try {
      this.#sink.data(bytes, from, to);
    } catch (error) {
      this.#fault(error);
    }
  }

  override ended(): void {
    try {
      this.#sink.ended(this.trailers);
    } catch (error) {
      this.#fault(error);
    }
  }

  override broken(code: number): void {
    try {
      this.#sink.broken(code);
    } catch (error) {
      this.#fault(error);
    }
  }

  protected override removed(): void {
    this.#home.streamClosed(this);
  }

  get isWaiting(): boolean {
    return this.waits;
  }

  /** Says whether what waits for the app has only so much time. */
  limitWait(isTimed: boolean): void {
    if (isTimed === this.isTimed) return;
    this.isTimed = isTimed;
    if (this.waits) this.stall.hold(this.stall.bytes, isTimed);
  }

  override cut(limit: StallLimit): void {
    if (limit !== 'stall_timeout') {
      super.cut(limit);
    } else if (!this.closed) {
      this.reset(errorCode.cancel);
      this.#sink.unread();
    }
  }

  /** The session is everybody's: a fault in one client's exchange ends that client's connection. */
  #fault(error: unknown): void {
    internalFault('an answer of an HTTP/2 app', this, error);
  }

  override destroy(): void {
    this.#sink.destroy();
  }
}
