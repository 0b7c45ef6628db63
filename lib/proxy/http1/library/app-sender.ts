import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import type { HeaderList } from '../../../request-fields.ts';
import type { Asker } from '../../fairness/fair-queue.ts';
import { guarded } from '../../guard.ts';
import type { Admitted } from '../../http/admitted.ts';
import { endOfLine, fieldLines, fieldPairs } from '../../http/field-lines.ts';
import { headerValue } from '../../http/headers.ts';
import { type AppHop, appHop, isLastRequest } from '../../http/last-request.ts';
import { type LostBy, repeatable, sendingLost } from '../../http/retry.ts';
import { hasSpoken } from '../../socket-calls.ts';
import type { PendingConnect } from '../../upstream/upstreams.ts';
import type { AppConnection, ResponseSink } from '../app-connection.ts';
import type { AppPool } from '../app-pool.ts';
import { type ChunkReceiver, ChunkScanner } from '../chunk-scanner.ts';
import { writeJoined } from '../joined-write.ts';
import type { ResponseHead } from '../plain-response.ts';
import { type MayLeave, notSent, otherFields, type Sender } from './undici-pool.ts';

/** Of a request that goes to the app. */
export interface Sent {
  readonly admitted: Admitted;
  readonly asker: Asker;
  /** Of its client; HTTP/2 is asked in HTTP/1.1. */
  readonly version: string;
  /** The client sent a Connection field. */
  readonly saysConnection: boolean;
  /** Its client has just been asked for its content (`Expect`): what comes of that leaves together with the head. */
  readonly awaitsContent: boolean;
}

/**
 * Sends a request of the library lane by the connections that plain requests have as well, so that one reader says what an
 * app's response is, and where it ends. To be used where a dispatcher of undici is.
 */
export function appSender(pool: AppPool, sent: Sent): Sender {
  let attempt: Attempt | null = null;
  return {
    dispatch: (options, handler, mayLeave) => {
      const isAgain = attempt?.hasLeft === true;
      attempt = new Attempt(pool, sent, { options, handler, mayLeave, isAgain });
      attempt.start();
      return true;
    },
    lostBy: () => attempt?.lostBy ?? 'other',
    headLeavesFirst: !sent.awaitsContent,
  };
}

/** How a sender is asked, and whether the request has left before. */
interface Dispatched {
  readonly options: Dispatcher.DispatchOptions;
  readonly handler: Dispatcher.DispatchHandler;
  readonly mayLeave: MayLeave;
  readonly isAgain: boolean;
}

const nothing = Buffer.alloc(0);
const entry = 'HTTP/1, the library lane on its way to the app';

/** One attempt to have a request answered. It is its own controller: what undici would give the handler. */
class Attempt implements ResponseSink, ChunkReceiver {
  /** Of the response's head, and behind its content. */
  rawHeaders: HeaderList | null = null;
  rawTrailers: HeaderList | null = null;
  lostBy: LostBy = 'other';
  /** Its head has been written. */
  hasLeft = false;
  readonly #mayLeave: MayLeave;
  readonly #pool: AppPool;
  readonly #sent: Sent;
  readonly #method: string;
  readonly #body: Readable | null;
  readonly #head: string;
  readonly #hop: AppHop;
  readonly #isChunked: boolean;
  readonly #handler: Dispatcher.DispatchHandler;
  readonly #isAgain: boolean;
  /** How much of the request has come, and what of it has been written. */
  #request: 'coming' | 'come' | 'written' = 'coming';
  #way: 'none' | 'connecting' | 'sending' | 'over' = 'none';
  #pending: PendingConnect | null = null;
  #app: AppConnection | null = null;
  #chunks: ChunkScanner | null = null;
  /** Some of the content has been written. */
  #hasWritten = false;
  /** Content of one read, whose chunks may have a byte each: a write for each would take a hundred times its size. */
  #joined = nothing;
  #joinedBytes = 0;

  constructor(pool: AppPool, sent: Sent, { options, handler, mayLeave, isAgain }: Dispatched) {
    this.#pool = pool;
    this.#mayLeave = mayLeave;
    this.#sent = sent;
    this.#handler = handler;
    this.#isAgain = isAgain;
    this.#method = options.method;
    this.#body = (options.body as Readable | null) ?? null;
    const fields = options.headers as HeaderList;
    const hasContent = this.#body !== null;
    this.#isChunked = hasContent && headerValue(fields, 'content-length') === null;
    this.#hop = appHop(sent.version, sent.saysConnection, isLastRequest(this.#method, hasContent));
    const coding = this.#isChunked ? 'transfer-encoding: chunked\r\n' : '';
    const line = `${this.#method} ${options.path} ${this.#hop.version}\r\n`;
    this.#head = `${line}${fieldLines(fields)}${coding}${this.#hop.connectionLine}\r\n`;
  }

  start(): void {
    this.#handler.onRequestStart?.(this.#controller, null);
    if (this.#way === 'over') return;
    const body = this.#body;
    if (body === null) {
      this.#request = 'come';
      this.#ask(nothing);
      return;
    }
    body.on('data', this.#contentCame);
    body.once('end', this.#contentEnded);
    body.once('close', this.#contentClosed);
    if (this.#sent.awaitsContent) body.resume();
    else this.#ask(nothing);
  }

  get #controller(): Dispatcher.DispatchController {
    return this as unknown as Dispatcher.DispatchController;
  }

  /* What the handler does. */

  pause(): void {
    this.#app?.socket.pause();
  }

  resume(): void {
    this.#app?.socket.resume();
  }

  abort(reason: Error): void {
    if (this.#way === 'over') return;
    this.#giveUp();
    this.#handler.onResponseError?.(this.#controller, reason);
  }

  /* What the client sends. */

  readonly #contentCame = guarded(entry, this, (chunk: Buffer): void => {
    if (this.#way === 'none') this.#ask(chunk);
    else if (this.#app !== null) this.#send(this.#app, chunk);
  });

  readonly #contentEnded = guarded(entry, this, (): void => {
    if (this.#request === 'coming') this.#request = 'come';
    if (this.#way === 'none') this.#ask(nothing);
    else if (this.#app !== null) this.#endRequest(this.#app);
  });

  readonly #contentClosed = guarded(entry, this, (): void => {
    if (this.#request === 'coming') this.abort(new Error('the content broke off'));
  });

  /** @param first of its content. */
  #ask(first: Buffer): void {
    // What follows must wait for the app.
    this.#body?.pause();
    const request = repeatable(this.#method, this.#body !== null);
    const idle = this.#isAgain ? null : this.#pool.take(this.#sent.admitted, request);
    if (idle !== null && this.#isSilent(idle)) this.#begin(idle, first);
    else this.#connect(first);
  }

  #connect(first: Buffer): void {
    this.#way = 'connecting';
    const connected = (error: Error | null, app: AppConnection | null): void => {
      this.#pending = null;
      if (app === null) this.onFailed(error ?? new Error('not connected'));
      else if (this.#isSilent(app)) this.#begin(app, first);
      else this.#connect(first);
    };
    const { admitted, asker } = this.#sent;
    this.#pending = this.#pool.connect(admitted, asker, guarded(entry, this, connected));
  }

  /**
   * What an app has said before the request has left is no response to it, and its connection is over: response queue
   * poisoning. Where content follows at once, the head has left before the connection itself would notice.
   */
  #isSilent(app: AppConnection): boolean {
    if (app.uses === 0 || this.#body === null || !hasSpoken(app.socket)) return true;
    app.socket.destroy();
    return false;
  }

  #begin(app: AppConnection, first: Buffer): void {
    const admitted = this.#mayLeave();
    if (admitted === null) {
      this.#pool.putBack(app);
      this.#keepBack(first);
      return;
    }
    this.#way = 'sending';
    this.#app = app;
    this.hasLeft = true;
    app.begin(admitted, this.#method, this.#hop.reuse, this);
    const size = this.#isChunked && first.length > 0 ? `${first.length.toString(16)}\r\n` : '';
    const goesOn = writeJoined(app.socket, this.#head + size, first, false);
    this.#hasWritten = first.length > 0;
    if (this.#request === 'come') this.#endRequest(app);
    else if (goesOn) this.#body?.resume();
    else this.#awaitApp(app);
  }

  /** Policy refuses it by now, or gives it other fields than its head was made of: that can be made anew before any content. */
  #keepBack(first: Buffer): void {
    if (this.#way === 'over') return;
    this.#over();
    const error = first.length === 0 ? notSent : otherFields();
    this.#handler.onResponseError?.(this.#controller, error);
  }

  #send(app: AppConnection, chunk: Buffer): void {
    if (chunk.length === 0) return;
    if (this.#isChunked) app.sendMore(this.#between(`${chunk.length.toString(16)}\r\n`));
    this.#hasWritten = true;
    if (!app.sendMore(chunk)) this.#awaitApp(app);
  }

  /** What comes behind a chunk: first of all its end. */
  #between(text: string): Buffer {
    return Buffer.from(this.#hasWritten ? `\r\n${text}` : text, 'latin1');
  }

  #endRequest(app: AppConnection): void {
    if (this.#request === 'written') return;
    this.#request = 'written';
    if (this.#isChunked) app.sendMore(this.#between('0\r\n\r\n'));
  }

  #awaitApp({ socket }: AppConnection): void {
    this.#body?.pause();
    socket.once('drain', () => {
      if (this.#app?.socket === socket) this.#body?.resume();
    });
  }

  /* What the app sends. */

  get requestComplete(): boolean {
    return this.#request === 'written';
  }

  onHead(head: ResponseHead, body: Buffer): void {
    const behindLine = endOfLine(head.forward, 0);
    const reason = head.forward.slice('HTTP/1.1 200 '.length, behindLine);
    this.rawHeaders = fieldPairs(head.forward.slice(behindLine + 2));
    if (head.framing.kind === 'chunked') this.#chunks = new ChunkScanner(this);
    this.#handler.onResponseStart?.(this.#controller, head.status, {}, reason);
    if (body.length > 0) this.onBody(body);
  }

  /** @param body only lent. */
  onBody(body: Buffer): void {
    if (this.#chunks === null) {
      this.#handOn(Buffer.from(body));
      return;
    }
    this.#joined = Buffer.allocUnsafe(body.length);
    this.#joinedBytes = 0;
    this.#chunks.scan(body, 0, body.length);
    // What the chunks themselves took is not kept with it.
    const content = Buffer.from(this.#joined.subarray(0, this.#joinedBytes));
    this.#joined = nothing;
    this.#handOn(content);
  }

  chunkData(bytes: Buffer, from: number, to: number): void {
    this.#joinedBytes += bytes.copy(this.#joined, this.#joinedBytes, from, to);
  }

  #handOn(content: Buffer): void {
    if (this.#way === 'over' || content.length === 0) return;
    this.#handler.onResponseData?.(this.#controller, content);
  }

  chunkTrailer(name: string, value: string): void {
    this.rawTrailers ??= [];
    this.rawTrailers.push(name, value);
  }

  onEnd(awaiting: AppConnection | null): void {
    // The app has its answer; what is left of the request is read away.
    awaiting?.abandon();
    if (this.#way === 'over') return;
    this.#over();
    this.#handler.onResponseEnd?.(this.#controller, {});
  }

  onFailed(error: Error): void {
    if (this.#way === 'over') return;
    this.lostBy = sendingLost(this.#app);
    this.#over();
    this.#handler.onResponseError?.(this.#controller, error);
  }

  /** After a fault of ours. */
  destroy(): void {
    this.abort(new Error('a fault of ours'));
  }

  #giveUp(): void {
    const app = this.#app;
    this.#pending?.cancel();
    this.#over();
    app?.abandon();
  }

  #over(): void {
    this.#way = 'over';
    this.#pending = null;
    this.#app = null;
    const body = this.#body;
    body?.removeListener('data', this.#contentCame);
    body?.removeListener('end', this.#contentEnded);
    body?.removeListener('close', this.#contentClosed);
  }
}
