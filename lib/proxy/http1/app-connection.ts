import type { Socket } from 'node:net';
import { CodedError } from '../../errors/coded-error.ts';
import { beginMoment, endMoment, now } from '../../moment.ts';
import { bulkRead, type TurnTaker, turn } from '../fairness/turn.ts';
import { guarded, internalFault } from '../guard.ts';
import { type AdmittedNow, mustBeCurrent } from '../http/admitted.ts';
import { InterimCount } from '../http/interim-count.ts';
import type { Reuse } from '../http/last-request.ts';
import { isLent } from '../lent-data.ts';
import { dropWaiting, isWriteWaiting, writeWaiting } from '../node-writes.ts';
import { ChunkScanner } from './chunk-scanner.ts';
import { writeBytes } from './joined-write.ts';
import { hearLastWords } from './last-words.ts';
import type { AppTunnel, Switch } from './leaving-http.ts';
import { framingCost } from './limits.ts';
import { type LateHeads, PartialHead } from './partial-head.ts';
import type { ResponseHead } from './plain-response.ts';
import { ResponseHeads } from './response-heads.ts';

/** Who gets a response. Buffers are only lent: they are reused when the call returns. */
export interface ResponseSink {
  /** Whether the whole request has been written; until then its connection is no use to another. */
  readonly requestComplete: boolean;
  /**
   * A 1xx before the response, or the response's head together with what came of its body.
   *
   * @param isEnd as below: this is all of it, and `onEnd` follows in the same turn.
   */
  onHead(head: ResponseHead, body: Buffer, isEnd: boolean): void;
  onBody(body: Buffer, isEnd: boolean): void;
  /**
   * The response is complete. The connection may have been returned to its pool already.
   *
   * @param awaiting the connection, where others can use it when it has got the rest of the request (`sendRest`); else it is
   * to be abandoned.
   */
  onEnd(awaiting: AppConnection | null): void;
  /** Once, instead of `onEnd`. */
  onFailed(error: Error): void;
  /** Ends what the response is for, after a fault of ours. */
  destroy(): void;
}

/** Where a connection waits between requests. */
interface Home {
  release(connection: AppConnection): void;
  /** Its response is complete, and it waits for the rest of its request. */
  awaitsRest(connection: AppConnection): void;
  /** The request has been written to its end since, and whether the app bears that is not known yet. */
  releaseWhenProven(connection: AppConnection): void;
  forget(connection: AppConnection): void;
}

/** The app broke HTTP, so its connection cannot be trusted any further. */
function badResponse(why: string): Error {
  return new CodedError('ERR_SALLYPORT_BAD_RESPONSE', why);
}

const entry = 'HTTP/1, a connection to the app';

const nothing = Buffer.alloc(0);

/** One keep-alive connection to the app, one request at a time. */
export class AppConnection implements TurnTaker {
  readonly kind = 'app';
  rosterPlace = -1;
  readonly socket: Socket;
  /** Requests begun here so far. */
  uses = 0;
  /** Milliseconds that it may be idle, as the app said or as we choose. */
  idleMs = 0;
  /** When its last response was complete. */
  idleSince = 0;
  /** Some of the response to the current request has come, so the app has taken the request. */
  responding = false;
  /** Nothing of the current request has left, and never will. */
  unsent = false;
  readonly #home: Home;
  readonly #lateHeads: LateHeads;
  #sink: ResponseSink | null = null;
  /** Null where nobody asked to leave HTTP. */
  #switch: Switch | null = null;
  #tunnel: AppTunnel | null = null;
  /** Whose callback is running. */
  #receiver: ResponseSink | null = null;
  /** Of the current request content was written that came behind its head. */
  #wroteMore = false;
  #method = '';
  #reuse: Reuse = 'never';
  /** What there is of a head that has not ended. */
  #partial: PartialHead | null = null;
  #head: ResponseHead | null = null;
  #interim: InterimCount | null = null;
  #left = 0;
  #chunks: ChunkScanner | null = null;
  /** What it was to take apart what has come last, as bytes of content. */
  #work = 0;
  readonly #heads = new ResponseHeads();
  /** What the app had said when a write to it failed. */
  #lastWords: Buffer = nothing;

  constructor(socket: Socket, home: Home, lateHeads: LateHeads) {
    this.socket = socket;
    this.#home = home;
    this.#lateHeads = lateHeads;
    this.#keepLastWords();
    const ended = (): void => this.#ended();
    socket.on('end', guarded(entry, this, ended));
    socket.on(
      'error',
      guarded(entry, this, (error: Error) => this.#broken(error)),
    );
    socket.on(
      'close',
      guarded(entry, this, () => {
        this.#partial?.clear();
        this.#home.forget(this);
        this.#fail(new Error('other side closed'));
      }),
    );
  }

  /**
   * Starts a request: what is written to `socket` from now on is that request.
   *
   * @param reuse `never` where it asks the app to close, or to leave HTTP.
   * @param onSwitch called in place of all of `sink`, where the app agrees to leave HTTP: from there on `socket` is its own.
   */
  begin(admitted: AdmittedNow, method: string, reuse: Reuse, sink: ResponseSink, onSwitch?: Switch): void {
    mustBeCurrent(admitted);
    this.uses++;
    this.#reuse = reuse;
    this.#sink = sink;
    this.#switch = onSwitch ?? null;
    this.#method = method;
    this.#head = null;
    this.#partial?.clear();
    this.#interim = null;
    this.responding = false;
    this.#wroteMore = false;
  }

  /** Sends content that has come behind the head; it may be lent. False when the app is slow. */
  sendMore(content: Buffer): boolean {
    this.#wroteMore = true;
    return writeBytes(this.socket, content, isLent(content));
  }

  /** Ends it, and the request that waits for a response on it: nothing is known of either any more. */
  destroy(): void {
    const sink = this.#sink ?? this.#receiver;
    this.#sink = null;
    this.#receiver = null;
    this.socket.destroy();
    sink?.destroy();
  }

  nextTurn(): void {
    // Asked for before the app has agreed: buffers that would be read into may be on their way.
    if (this.#tunnel?.isLent === true) return;
    // Paused: its client is slow, and says when it goes on.
    if (!this.socket.destroyed && !this.socket.isPaused()) this.socket.resume();
  }

  /** Gives up on the request, and so on the connection. */
  abandon(): void {
    this.#sink = null;
    this.socket.destroy();
  }

  /**
   * Bytes from the app; `bytes` is valid during this call only. False stops reading.
   *
   * @param isFull there may be more than there was room for.
   */
  receive(bytes: Buffer, isFull: boolean): boolean {
    if (this.#tunnel !== null) return this.#carry(this.#tunnel, bytes, isFull);
    if (this.#sink === null) {
      // Nobody asked: keeping it would hand it to the next request (response queue poisoning).
      this.socket.destroy();
      return false;
    }
    this.#work = bytes.length;
    const sink = this.#sink;
    this.#receiver = sink;
    beginMoment();
    try {
      if (!this.responding && this.#isUnasked()) return false;
      this.responding = true;
      if (this.#head === null) this.#receiveHead(bytes);
      else this.#receiveBody(bytes, 0, sink, false);
    } catch (error) {
      internalFault(entry, this, error);
      return false;
    } finally {
      endMoment();
    }
    this.#receiver = null;
    const work = this.#work;
    if (this.#tunnel !== null || (work < bulkRead && !isFull) || turn.take(work, this)) return true;
    // Complete: the next request on this connection does not wait for a turn that belongs to the last one.
    return this.#sink === null;
  }

  /**
   * Whether the app has said something before anything of the request has left, as it does at the end of this turn: one that
   * answers twice, or tells that it ends an idle connection. To take that for the response would be response queue poisoning.
   */
  #isUnasked(): boolean {
    if (this.uses === 1 || this.#wroteMore || !isWriteWaiting(this.socket)) return false;
    dropWaiting(this.socket);
    this.unsent = true;
    this.#fail(badResponse('a response before its request'));
    return true;
  }

  #carry(tunnel: AppTunnel, bytes: Buffer, isFull: boolean): boolean {
    try {
      tunnel.receive(bytes);
    } catch (error) {
      internalFault(entry, this, error);
      return false;
    }
    return (bytes.length < bulkRead && !isFull) || turn.take(bytes.length, this);
  }

  #receiveHead(bytes: Buffer): void {
    let all = this.#partial?.with(bytes) ?? bytes;
    for (;;) {
      const head = this.#heads.read(all, this.#method);
      if (head === 'partial') {
        this.#partial ??= new PartialHead(this, this.#lateHeads, (fault) => this.#fail(badResponse(fault)));
        this.#partial.keep(all);
        return;
      }
      this.#partial?.clear();
      if (head.kind === 'fault') {
        this.#fail(badResponse(head.fault));
        return;
      }
      const end = this.#heads.length;
      const sink = this.#sink;
      if (head.status === 101 && head.upgrade === 'websocket' && this.#switch !== null) {
        this.#sink = null;
        this.#tunnel = this.#switch(head, all.subarray(end));
        return;
      }
      // Nobody asked to leave HTTP, or not so; and nothing can follow an interim response that ends its connection or has a body.
      const senseless = head.status === 101 || (head.status < 200 && !head.keepAlive);
      if (sink === null || senseless) {
        const what =
          head.status === 101 ? 'a switch that nobody asked for' : 'an interim response that ends its connection';
        this.#fail(badResponse(what));
        return;
      }
      if (head.status < 200) {
        this.#interim ??= new InterimCount();
        if (!this.#interim.allows(end)) {
          this.#fail(badResponse('too many interim responses'));
          return;
        }
        sink.onHead(head, nothing, false);
        all = all.subarray(end);
        if (all.length === 0) return;
        continue;
      }
      this.#head = head;
      this.#chunks = head.framing.kind === 'chunked' ? new ChunkScanner() : null;
      this.#left = head.framing.kind === 'length' ? head.framing.bytes : 0;
      this.#receiveBody(all, end, sink, true);
      return;
    }
  }

  /** Body bytes from `from` on, with the head if `first`. */
  #receiveBody(bytes: Buffer, from: number, sink: ResponseSink, first: boolean): void {
    const head = this.#head as ResponseHead;
    let to = bytes.length;
    let done = false;
    switch (head.framing.kind) {
      case 'none':
        done = true;
        to = from;
        break;
      case 'length':
        to = Math.min(to, from + this.#left);
        this.#left -= to - from;
        done = this.#left === 0;
        break;
      case 'chunked': {
        const chunks = this.#chunks as ChunkScanner;
        const before = chunks.content;
        const result = chunks.scan(bytes, from, to);
        const content = chunks.content - before;
        this.#work += (framingCost - 1) * (to - from - content);
        if (result === 'invalid') {
          // The head may be out already: the client then sees a message that breaks off, never a wrong end.
          if (first) sink.onHead(head, nothing, false);
          this.#fail(badResponse('malformed chunk'));
          return;
        }
        if (result === 'done') {
          to = chunks.end;
          done = true;
        }
        break;
      }
      case 'until-close':
        break;
    }
    const body = from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to);
    if (!done) {
      if (first) sink.onHead(head, body, false);
      else if (body.length > 0) sink.onBody(body, false);
      return;
    }
    this.#sink = null;
    const isWhole = sink.requestComplete;
    const isEarly = isWriteWaiting(this.socket);
    const reusable = this.#mayReuse(head) && to === bytes.length && this.#settles();
    if (first) sink.onHead(head, body, true);
    else if (body.length > 0) sink.onBody(body, true);
    this.#head = null;
    if (reusable) {
      // The last client may have been too slow for its response; the next one has nothing to do with that.
      if (this.socket.isPaused()) this.socket.resume();
      this.idleMs = head.keepAliveSeconds === null ? Number.POSITIVE_INFINITY : (head.keepAliveSeconds - 1) * 1000;
      this.idleSince = now();
      if (!isWhole) this.#home.awaitsRest(this);
      else if (isEarly) this.#home.releaseWhenProven(this);
      else this.#home.release(this);
    } else {
      this.socket.destroy();
    }
    sink.onEnd(reusable && !isWhole ? this : null);
  }

  #mayReuse({ keepAlive, saysKeepAlive }: ResponseHead): boolean {
    return keepAlive && this.#reuse !== 'never' && (this.#reuse !== 'where the app says so' || saysKeepAlive);
  }

  /** Whether the system takes all that has been written: an app that does not read it is no use to others. */
  #settles(): boolean {
    writeWaiting(this.socket);
    return this.socket.writableLength === 0 && !this.socket.destroyed;
  }

  /**
   * Sends more of a request whose response is complete. The connection returns to its pool with the last of it, or is
   * closed: an app that has answered need not take it, and nobody waits for that.
   *
   * @param content it may be lent.
   * @returns whether more may follow.
   */
  sendRest(content: Buffer, isEnd: boolean): boolean {
    const { socket } = this;
    const isTaken = !socket.destroyed && (content.length === 0 || writeBytes(socket, content, isLent(content)));
    if (isTaken && !isEnd) return true;
    if (isTaken && this.#settles()) this.#home.releaseWhenProven(this);
    else socket.destroy();
    return false;
  }

  #keepLastWords(): void {
    // On a connection that has served others they may be about its being idle.
    const isWanted = (): boolean => this.#sink !== null && (this.uses === 1 || !this.#sink.requestComplete);
    hearLastWords(this.socket, isWanted, (words) => {
      this.#lastWords = words;
    });
  }

  #broken(error: Error): void {
    const words = this.#lastWords;
    this.#lastWords = nothing;
    if (words.length > 0 && this.#sink !== null) this.receive(words, false);
    this.#fail(error);
  }

  #ended(): void {
    if (this.#tunnel !== null) return;
    const sink = this.#sink;
    if (sink !== null && this.#head?.framing.kind === 'until-close') {
      this.#sink = null;
      this.socket.destroy();
      sink.onEnd(null);
      return;
    }
    this.socket.destroy();
  }

  #fail(error: Error): void {
    const sink = this.#sink;
    this.#sink = null;
    this.#receiver = sink;
    this.socket.destroy();
    sink?.onFailed(error);
    this.#receiver = null;
  }
}
