import type { StallLimit } from '../../fairness/buffer-budget.ts';
import { internalFault } from '../../guard.ts';
import { InterimCount } from '../../http/interim-count.ts';
import type { Http2ResponseHead } from '../message/response-head.ts';
import type { Trailers } from '../message/trailers.ts';
import type { HeldBytes } from '../session/held-bytes.ts';
import { errorCode } from '../session/protocol.ts';
import { Stream, type StreamHome } from '../session/stream.ts';
import type { AppExchange, Http2ResponseSink } from './app-exchange.ts';
import { appLimits } from './limits.ts';

/** The connection to the app. */
export interface AppStreamHome {
  readonly session: StreamHome;
  /** The stream is over, and has left the table. */
  streamClosed(stream: AppStream): void;
}

/** One request to the app. */
export class AppStream extends Stream implements AppExchange {
  readonly isHead: boolean;
  /** The app may take as long as it likes, unless others are kept waiting (`AppSession.lookForStalls`). */
  protected override isTimed = false;
  #response: 'awaited' | 'begun' = 'awaited';
  #interim: InterimCount | null = null;
  /** Bytes that the client may send again once the app has taken what waits. */
  #owedToClient = 0;
  /** Of the session's output, where the end of the request's head stands. */
  #headMark = Number.POSITIVE_INFINITY;
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

  /** The request's head stands in the session's output. */
  headWritten(): void {
    this.#headMark = this.#home.session.output.mark;
  }

  /**
   * A head that was to leave with this turn's write when the app ended the connection has been read by nobody: nothing can
   * have happened to the request (RFC 9113 8.7). Where we end the connection, nobody wants it any more.
   */
  override connectionOver(code: number): void {
    const isUnread = code !== errorCode.cancel && !this.#home.session.output.hasLeft(this.#headMark);
    super.connectionOver(isUnread ? errorCode.refusedStream : code);
  }

  takeOver(early: HeldBytes | null, end: Trailers | null): void {
    this.#sink.holds(0);
    for (const bytes of early?.takeAll() ?? []) this.content(bytes, 0, bytes.length);
    if (end !== null) this.contentEnded(end);
  }

  content(bytes: Buffer, from: number, to: number): void {
    if (this.write(bytes, from, to)) {
      this.#sink.taken(to - from);
      return;
    }
    this.#owedToClient += to - from;
    this.onDrain(() => {
      this.#sink.taken(this.#owedToClient);
      this.#owedToClient = 0;
    });
  }

  contentEnded(trailers: Trailers): void {
    this.finish(trailers.block);
  }

  abandon(): void {
    this.reset(errorCode.cancel);
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
      if (this.#sink.data(bytes, from, to)) this.consume(to - from);
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
    // A response that did not wait for the whole request: the app has no use for the rest.
    if (!this.localEnded) this.reset(errorCode.cancel);
  }

  override broken(code: number): void {
    try {
      this.#sink.lost({ kind: 'reset', code });
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
      this.#sink.lost({ kind: 'unread' });
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
