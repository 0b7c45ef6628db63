import type { Socket } from 'node:net';
import type { BufferBudget } from '../fairness/buffer-budget.ts';
import { guarded, internalFault } from '../guard.ts';
import type { Admitted } from '../http/admitted.ts';
import { type HeaderList, without } from '../http/headers.ts';
import { InterimCount } from '../http/interim-count.ts';
import { AnswerHead } from './answer-head.ts';
import { contentLength, soundStatus } from './field-rules.ts';
import { HeaderBlocks } from './header-blocks.ts';
import { appLimits } from './limits.ts';
import { errorCode, maxStreamId, preface, setting } from './protocol.ts';
import { Session, type SessionLimits } from './session.ts';
import { Stream, type StreamHome } from './stream.ts';

const limits: SessionLimits = {
  settings: [[setting.enablePush, 0]],
  streamWindow: appLimits.streamWindow,
  grownStreamWindow: appLimits.streamWindow,
  connectionWindow: appLimits.connectionWindow,
  maxListBytes: 256 * 1024,
  maxFields: appLimits.headerFields,
  maxResets: Number.POSITIVE_INFINITY,
  // Its streams are limited, and so is what they bring. An app that waits for us to read must not wait for ever.
  maxPendingBytes: Number.POSITIVE_INFINITY,
};

/** Who gets a response. Bytes are only lent; when they are dealt with, the stream's `consume` must be told. */
export interface AnswerSink {
  /** A 1xx. */
  interim(head: AnswerHead): void;
  head(head: AnswerHead, endStream: boolean): void;
  data(bytes: Buffer, from: number, to: number): void;
  /** The response is complete. */
  ended(trailers: HeaderList): void;
  /** Once, instead of `ended`. */
  broken(code: number): void;
  /** The client's connection. */
  readonly owner: object;
  /** Ends that. */
  destroy(): void;
}

/** One request to the app. */
export class AppStream extends Stream {
  readonly isHead: boolean;
  /** The app may take as long as it likes. */
  protected override readonly isTimed = false;
  #interim: InterimCount | null = null;
  readonly #sink: AnswerSink;

  constructor(home: StreamHome, id: number, isHead: boolean, sink: AnswerSink, sendWindow: number) {
    super(home, id, sendWindow, limits.streamWindow);
    this.isHead = isHead;
    this.#sink = sink;
    this.awaitsHead = true;
  }

  get owner(): object {
    return this.#sink.owner;
  }

  head(head: AnswerHead, endStream: boolean): void {
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
    this.awaitsHead = false;
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

  /** The session is everybody's: a fault in one client's exchange ends that client's connection. */
  #fault(error: unknown): void {
    internalFault('an answer of an HTTP/2 app', this, error);
  }

  override destroy(): void {
    this.#sink.destroy();
  }
}

/** Where a session is kept while it may take streams. */
export interface AppSessionHome {
  /** It may take streams, or more of them than before. */
  ready(session: AppSession): void;
  /** It takes no more streams: GOAWAY, too many resets, or closed. */
  retired(session: AppSession): void;
}

function readAnswerHead(fields: HeaderList): AnswerHead | null {
  const status = soundStatus(fields);
  const length = contentLength(fields);
  if (status === 0 || length === null) return null;
  const rest = fields.slice(2);
  // RFC 9110 8.6: a 204 and interim answers announce no content. Clients may refuse one that does.
  const announces = length !== -1 && status !== 204 && status >= 200;
  return new AnswerHead(status, announces ? rest : without(rest, 'content-length'), length);
}

/** A connection to the app. */
export class AppSession extends Session {
  readonly #home: AppSessionHome;
  readonly #blocks: HeaderBlocks<AnswerHead>;
  /** The app is ours, and may reset what it likes. */
  protected override readonly limitsResets = false;
  protected override readonly maxEnablePush = 0;
  #retired = false;
  #resets = 0;
  /** Since when it has carried nothing, as far as looks at it tell, and the last stream then. */
  #idleSince = 0;
  #idleAfter = -1;

  readonly client = null;

  constructor(socket: Socket, home: AppSessionHome, budget: BufferBudget) {
    super(socket, limits, budget);
    this.#home = home;
    this.#blocks = new HeaderBlocks(this.decoder, readAnswerHead);
    const gone = guarded('the end of an HTTP/2 app', socket, () => {
      this.abortAll(errorCode.internalError);
      socket.destroy();
    });
    socket.once('end', gone);
    socket.once('close', gone);
    socket.write(preface);
    this.open();
  }

  get hasRoom(): boolean {
    return !this.#retired && this.streams.size < this.maxStreams;
  }

  get isUnused(): boolean {
    return this.streams.size === 0;
  }

  /** For how long it has carried nothing, in milliseconds, as far as looks at it tell: this is one. */
  idleMs(now: number): number {
    if (this.isUnused && this.#idleAfter === this.lastStreamId) return now - this.#idleSince;
    this.#idleAfter = this.isUnused ? this.lastStreamId : -1;
    this.#idleSince = now;
    return 0;
  }

  /** Streams that the app takes at a time; 0 while it takes none. */
  get maxStreams(): number {
    return this.peerMaxStreams === Number.POSITIVE_INFINITY
      ? appLimits.defaultStreams
      : Math.min(appLimits.streams, this.peerMaxStreams);
  }

  /**
   * Sends a request's head. There must be room.
   *
   * @param block its fields, encoded.
   */
  request(_admitted: Admitted, block: Buffer, isHead: boolean, endStream: boolean, sink: AnswerSink): AppStream {
    const id = this.lastStreamId === 0 ? 1 : this.lastStreamId + 2;
    this.lastStreamId = id;
    const stream = new AppStream(this, id, isHead, sink, this.peerInitialWindow);
    this.streams.set(id, stream);
    this.output.headers(id, block, endStream);
    stream.localEnded = endStream;
    if (id >= maxStreamId - 2) this.#retire();
    return stream;
  }

  override receive(chunk: Buffer): void {
    if (!this.over) super.receive(chunk);
  }

  protected override headers(streamId: number, bytes: Buffer, from: number, to: number, endStream: boolean): void {
    const stream = this.streams.get(streamId) as AppStream | undefined;
    if (stream === undefined || !stream.awaitsHead || stream.remoteEnded) {
      this.trailers(streamId, stream, bytes, from, to, endStream);
      return;
    }
    const block = this.#blocks.read(bytes, from, to);
    if (block.kind === 'undecodable') {
      this.fail(errorCode.compressionError);
      return;
    }
    if (block.kind !== 'head') {
      stream.malformed();
      return;
    }
    const { head } = block;
    if (head.status < 200) {
      // An interim answer cannot be the last one (RFC 9113 8.1).
      if (endStream) stream.malformed();
      else stream.head(head, false);
      return;
    }
    const bodiless = stream.isHead || head.status === 204 || head.status === 304;
    stream.expected = bodiless ? 0 : head.contentLength;
    if (endStream && !stream.count(0, true)) {
      stream.malformed();
      return;
    }
    stream.remoteEnded = endStream;
    stream.head(head, endStream);
    if (!endStream || stream.closed) return;
    stream.ended();
    this.halfClosed(stream);
  }

  protected override goingAway(lastStreamId: number): void {
    this.#retire();
    for (const stream of [...this.streams.values()]) {
      if (stream.id <= lastStreamId) continue;
      // The app promises that it did nothing with these (RFC 9113 6.8).
      this.closeStream(stream, false);
      stream.broken(errorCode.refusedStream);
    }
    this.#closeIfDone();
  }

  protected override ready(): void {
    this.#home.ready(this);
  }

  protected override roomGiven(): void {
    if (!this.#retired) this.#home.ready(this);
  }

  /** Whether content of this client holds what the others miss of the connection's window. */
  isHeldUpBy(owner: object): boolean {
    let held = 0;
    for (const stream of this.streams.values() as Iterable<AppStream>) {
      if (stream.owner !== owner) continue;
      held += Math.max(0, this.peerInitialWindow - stream.sendWindow);
      if (held >= appLimits.uploadRoom) return true;
    }
    return false;
  }

  protected override get lastAccepted(): number {
    return 0;
  }

  protected override limitReached(): void {
    // The app is ours.
  }

  /** What the app sends is lent, and read at once; its streams are limited. */
  override get hasHadItsTurn(): boolean {
    return false;
  }

  protected override streamClosed(_stream: Stream, reset: boolean): void {
    if (reset && ++this.#resets >= appLimits.resets) this.#retire();
    if (this.#retired) this.#closeIfDone();
    else this.#home.ready(this);
  }

  /** What it was carrying may want another session: not this one again. */
  protected override abortAll(code: number): void {
    this.over = true;
    this.#retire();
    super.abortAll(code);
  }

  /** Takes no more streams, and ends with the last. */
  retire(): void {
    this.#retire();
    this.#closeIfDone();
  }

  #closeIfDone(): void {
    if (this.streams.size === 0 && !this.over) this.end(errorCode.noError);
  }

  #retire(): void {
    if (this.#retired) return;
    this.#retired = true;
    this.#home.retired(this);
  }

  /** Ends it now. */
  override destroy(): void {
    this.abortAll(errorCode.cancel);
    this.socket.destroy();
  }
}
