import type { Socket } from 'node:net';
import { CodedError } from '../../../errors/coded-error.ts';
import { contentLength, type HeaderList } from '../../../request-fields.ts';
import type { BufferBudget } from '../../fairness/buffer-budget.ts';
import type { TurnTaker } from '../../fairness/turn.ts';
import { guarded } from '../../guard.ts';
import { type AdmittedNow, mustBeCurrent } from '../../http/admitted.ts';
import { without } from '../../http/headers.ts';
import { noKeeper } from '../../kept.ts';
import { soundStatus } from '../message/field-rules.ts';
import { HeaderBlocks } from '../message/header-blocks.ts';
import { Http2ResponseHead } from '../message/response-head.ts';
import type { Intake } from '../session/intake.ts';
import { errorCode, maxStreamId, preface, reasonName, setting } from '../session/protocol.ts';
import { Session } from '../session/session.ts';
import type { SessionLimits, SessionRole } from '../session/session-role.ts';
import type { Http2ResponseSink } from './app-exchange.ts';
import { AppStream, type AppStreamHome } from './app-stream.ts';
import { appLimits } from './limits.ts';

const limits: SessionLimits = {
  settings: [[setting.enablePush, 0]],
  maxEnablePush: 0,
  grownStreamWindow: appLimits.streamWindow,
  connectionWindow: appLimits.connectionWindow,
  maxListBytes: 256 * 1024,
  maxFields: appLimits.headerFields,
  // The app is ours, and may reset what it likes.
  maxResets: null,
  awaitsPreface: false,
  // What it sends is lent, and read at once: reads take turns.
  takesTurns: false,
  // Its streams are limited, and so is what they bring. An app that waits for us to read must not wait for ever.
  maxPendingBytes: Number.POSITIVE_INFINITY,
  maxBacklog: appLimits.backlog,
};

/** Where a session is kept while it may take streams. */
export interface AppSessionHome {
  /** It may take streams, or more of them than before. */
  ready(session: AppSession): void;
  /** It takes no more streams: GOAWAY, too many resets, or closed. */
  retired(session: AppSession): void;
}

function readAnswerHead(fields: HeaderList): Http2ResponseHead | null {
  const status = soundStatus(fields);
  const length = contentLength(fields);
  if (status === 0 || length === null) return null;
  const rest = fields.slice(2);
  // RFC 9110 8.6: a 204 and interim responses announce no content. Clients may refuse one that does.
  const announces = length !== -1 && status !== 204 && status >= 200;
  return new Http2ResponseHead(status, announces ? rest : without(rest, 'content-length'), length);
}

/** A connection to the app. */
export class AppSession implements SessionRole<AppStream>, AppStreamHome, TurnTaker {
  readonly #home: AppSessionHome;
  readonly session: Session<AppStream>;
  /** For what is read of the app, which is only lent. */
  readonly intake: Intake;
  readonly #blocks: HeaderBlocks<Http2ResponseHead>;
  #retired = false;
  #broken: Error | null = null;
  #resets = 0;
  /** Some of its streams have only so much time for what waits. */
  #limitsWaits = false;

  readonly client = null;
  /** Apps are few, and no stranger's: what is kept of one is bounded by its connection. */
  readonly keeper = noKeeper;
  readonly lastAccepted = 0;

  constructor(socket: Socket, home: AppSessionHome, budget: BufferBudget) {
    this.#home = home;
    this.session = new Session(socket, this, limits, budget);
    this.intake = this.session.intake;
    this.#blocks = new HeaderBlocks(this.session.decoder, readAnswerHead);
    const gone = guarded('the end of an HTTP/2 app', socket, () => {
      // Too little for a frame, as an alert of TLS is: the app speaks something else.
      const { peer, over } = this.session;
      if (!over && !peer.haveCome && socket.errored === null && this.intake.heldBytes > 0) {
        this.brokenProtocol(errorCode.protocolError);
      }
      this.session.abortAll(errorCode.internalError);
      socket.destroy();
    });
    socket.once('end', gone);
    socket.once('close', gone);
    socket.write(preface);
    this.session.open();
  }

  /** What it was to deal with what has been read last, as bytes of content. */
  get workAsContent(): number {
    return this.session.work.asContent;
  }

  nextTurn(): void {
    if (!this.session.socket.destroyed) this.session.socket.resume();
  }

  get hasRoom(): boolean {
    return !this.#retired && this.session.streams.size < this.maxStreams;
  }

  /** What it has broken with: a rule of HTTP/2, or as the system says; null where it has not. */
  get fault(): Error | null {
    return this.#broken ?? this.session.socket.errored;
  }

  /** It carries nothing any more. */
  get isOver(): boolean {
    return this.session.over;
  }

  get isUnused(): boolean {
    return this.session.streams.size === 0;
  }

  /** For how long it has carried nothing, in milliseconds, as far as looks at it tell: this is one. */
  idleMs(now: number): number {
    return this.session.streams.unusedMs(now);
  }

  /** Streams that the app takes at a time; 0 while it takes none. */
  get maxStreams(): number {
    const { maxStreams } = this.session.peer;
    return maxStreams === Number.POSITIVE_INFINITY ? appLimits.defaultStreams : Math.min(appLimits.streams, maxStreams);
  }

  /** Bytes of DATA that the app takes on the session, whatever it takes on a stream. */
  get sendRoom(): number {
    return this.session.flow.sendRoom;
  }

  /** Bytes of the largest header list that it takes, as it says. */
  get maxListBytes(): number {
    return this.session.peer.maxListBytes;
  }

  /**
   * Sends a request's head. There must be room.
   *
   * @param block its fields, encoded.
   */
  request(
    admitted: AdmittedNow,
    block: Buffer,
    isHead: boolean,
    endStream: boolean,
    sink: Http2ResponseSink,
  ): AppStream {
    mustBeCurrent(admitted);
    const { streams, peer, output } = this.session;
    const id = streams.last === 0 ? 1 : streams.last + 2;
    streams.last = id;
    const stream = new AppStream(this, id, isHead, sink, peer.initialWindow);
    stream.happened('HEADERS');
    streams.add(stream);
    output.headers(id, block, endStream);
    stream.headWritten();
    if (endStream) stream.happened('END_STREAM sent');
    if (id >= maxStreamId - 2) this.#retire();
    return stream;
  }

  headers(
    streamId: number,
    stream: AppStream | undefined,
    bytes: Buffer,
    from: number,
    to: number,
    endStream: boolean,
  ): void {
    if (stream === undefined || !stream.awaitsHead || stream.remoteEnded) {
      this.session.frames.trailers(streamId, stream, bytes, from, to, endStream);
      return;
    }
    const block = this.#blocks.read(bytes, from, to);
    if (block.kind === 'undecodable') this.session.fail(errorCode.compressionError);
    else if (block.kind !== 'head') stream.malformed();
    else this.#head(stream, block.head, endStream);
  }

  #head(stream: AppStream, head: Http2ResponseHead, endStream: boolean): void {
    if (head.status < 200) {
      // An interim response cannot be the last one (RFC 9113 8.1).
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
    if (endStream) stream.happened('END_STREAM received');
    stream.head(head, endStream);
    if (endStream) stream.messageEnded();
  }

  goingAway(lastStreamId: number): void {
    this.#retire();
    for (const stream of [...this.session.streams.values()]) {
      // The app promises that it did nothing with these (RFC 9113 6.8).
      if (stream.id > lastStreamId) stream.breakOff(errorCode.refusedStream);
    }
    this.#closeIfDone();
  }

  ready(): void {
    this.#home.ready(this);
  }

  roomGiven(): void {
    if (!this.#retired) this.#home.ready(this);
  }

  /** Whether content of this client holds what the others miss of the connection's window. */
  isHeldUpBy(owner: object): boolean {
    const { streams, peer } = this.session;
    let held = 0;
    for (const stream of streams.values()) {
      if (stream.owner !== owner) continue;
      held += Math.max(0, peer.initialWindow - stream.windows.send);
      if (held >= appLimits.uploadRoom) return true;
    }
    return false;
  }

  /**
   * Content that the app leaves unread keeps what is behind it on the session waiting, other clients' too, and an upload
   * that has begun can go to no other session. While several clients share a session that has no room, what waits on it
   * has only so much time: first that of clients whose content fills the room, and when none of theirs waits, all of it.
   * What does not wait is left alone: that content has been sent, and apps need not say that they have read the last of it.
   * Asked now and then.
   */
  lookForStalls(): void {
    const { streams, output } = this.session;
    const hasNoRoom = this.sendRoom <= 0 || output.blocked;
    if (!hasNoRoom && !this.#limitsWaits) return;
    const held = this.#heldByOwner();
    this.#limitsWaits = hasNoRoom && held.size > 1;
    const fills = ({ owner }: AppStream): boolean => (held.get(owner) ?? 0) >= appLimits.uploadRoom;
    const all = [...streams.values()];
    const isFillerWaiting = all.some((stream) => stream.isWaiting && fills(stream));
    for (const stream of all) stream.limitWait(this.#limitsWaits && (!isFillerWaiting || fills(stream)));
  }

  /** Bytes of content that the app has not said it has read, of each client. */
  #heldByOwner(): ReadonlyMap<object, number> {
    const { streams, peer } = this.session;
    const held = new Map<object, number>();
    for (const { owner, windows } of streams.values()) {
      held.set(owner, (held.get(owner) ?? 0) + Math.max(0, peer.initialWindow - windows.send));
    }
    return held;
  }

  limitReached(): void {
    // The app is ours.
  }

  noPreface(): void {
    // SETTINGS are all of an app's.
  }

  brokenProtocol(code: number): void {
    const rule = reasonName(code);
    this.#broken = new CodedError('ERR_SALLYPORT_BAD_RESPONSE', `it broke a rule of HTTP/2: ${rule}`);
  }

  streamClosed(stream: AppStream): void {
    if (stream.state === 'reset' && ++this.#resets >= appLimits.resets) this.#retire();
    if (this.#retired) this.#closeIfDone();
    else this.#home.ready(this);
  }

  /** What it was carrying may want another session: not this one again. */
  ending(): void {
    this.#retire();
  }

  /** Takes no more streams, and ends with the last. */
  retire(): void {
    this.#retire();
    this.#closeIfDone();
  }

  #closeIfDone(): void {
    if (this.session.streams.size === 0 && !this.session.over) this.session.end(errorCode.noError);
  }

  #retire(): void {
    if (this.#retired) return;
    this.#retired = true;
    this.#home.retired(this);
  }

  /** Ends it now. */
  destroy(): void {
    this.session.abortAll(errorCode.cancel);
    this.session.socket.destroy();
  }
}
