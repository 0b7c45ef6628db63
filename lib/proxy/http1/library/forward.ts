import type { Duplex } from 'node:stream';
import type { Dispatcher } from 'undici';
import { systemErrorCode } from '../../../errors/coded-error.ts';
import type { HeaderList } from '../../../request-fields.ts';
import { sourceOf } from '../../fairness/sources.ts';
import { starts } from '../../fairness/starts.ts';
import { CountedReads, type TurnTaker } from '../../fairness/turn.ts';
import { guarded } from '../../guard.ts';
import type { Admitted, AdmittedNow, Refused } from '../../http/admitted.ts';
import { sameChanges, scanResponseHeaders, upgradeOf, without } from '../../http/headers.ts';
import { InterimCount } from '../../http/interim-count.ts';
import { isLastRequest } from '../../http/last-request.ts';
import { type LostBy, maySendAgain, repeatable } from '../../http/retry.ts';
import type { RequestScope } from '../../recorder.ts';
import type { LibraryExchange } from './library-exchange.ts';
import { notSent, otherFields, otherSideClosed, type Sender } from './undici-pool.ts';

/**
 * The app has agreed to leave HTTP: from here on the socket carries something else.
 *
 * @param protocol what it says that this is; empty where it says nothing.
 */
export type Switched = (status: number, headers: HeaderList, app: Duplex, protocol: string) => void;

/**
 * Sends a permitted request to an HTTP/1.1 app and its response back, streaming both ways. */
export function forwardHttp1(
  admitted: Admitted,
  exchange: LibraryExchange,
  pool: Sender,
  forwarded: ForwardedRequest,
): void {
  new Http1Forwarding(admitted, exchange, pool, forwarded).start();
}

/** What a request needs of those who have admitted it, and what may come of it but a response. */
export interface ForwardedRequest {
  /** For the app, Host among them. */
  fields(admitted: Admitted): HeaderList;
  /** See `RequestPipeline`. */
  admitLate(before: Admitted): AdmittedNow | Refused;
  /** Called instead of a response, or of the rest of one, at most once. */
  failed(error: unknown): void;
  /** Only of upgrades and CONNECT. */
  switched?: Switched;
}

/** Where a fault of ours was met. */
const entry = 'HTTP/1, the way to the app';

/** undici takes what a handler throws for a failure of the app, and says so to the client. */
function guardedHandler(handler: Http1Forwarding): Dispatcher.DispatchHandler {
  const entries: Record<string, (...args: unknown[]) => void> = {};
  for (const name of handlerEntries) {
    const run = (handler[name] as (...args: unknown[]) => void).bind(handler);
    entries[name] = guarded(entry, handler, run);
  }
  return entries;
}

const handlerEntries = [
  'onRequestStart',
  'onResponseStarted',
  'onRequestUpgrade',
  'onResponseStart',
  'onResponseData',
  'onResponseEnd',
  'onResponseError',
] as const;

type Controller = Dispatcher.DispatchController & { rawHeaders: HeaderList | null; rawTrailers: HeaderList | null };

class Http1Forwarding implements Dispatcher.DispatchHandler, TurnTaker {
  readonly #exchange: LibraryExchange;
  readonly #scope: RequestScope;
  readonly #entries: Dispatcher.DispatchHandler;
  readonly #pool: Sender;
  readonly #forwarded: ForwardedRequest;
  /** By which its head was made. */
  #admitted: Admitted;
  #interim: InterimCount | null = null;
  #controller: Dispatcher.DispatchController | null = null;
  #done = false;
  /** The head has left, which waits for the content. */
  #hasLeft = false;
  /** `other fields`: it was about to leave with those that another permit gives it. */
  #keptBack: 'no' | 'other fields' = 'no';
  /** The request leaves on a connection that was idle, and has left once. */
  #mayBeRace = false;
  #isRepeated = false;
  /** Pieces of the response may have one byte each. */
  readonly #counted = new CountedReads(true);
  #waitsFor: 'nothing' | 'the client' | 'its turn' = 'nothing';

  constructor(admitted: Admitted, exchange: LibraryExchange, pool: Sender, forwarded: ForwardedRequest) {
    this.#exchange = exchange;
    this.#scope = admitted.scope;
    this.#admitted = admitted;
    this.#entries = guardedHandler(this);
    this.#pool = pool;
    this.#forwarded = forwarded;
  }

  start(): void {
    const { body } = this.#exchange;
    this.#hasLeft = this.#pool.headLeavesFirst === true;
    if (body === null) {
      this.#scope.requestFrame(0);
      this.#scope.requestEnded();
    } else {
      body.on('data', guarded(entry, this, this.#contentCame));
      body.once('end', guarded(entry, this, this.#contentEnded));
      // `data` above must not start the flow before the app's connection is there to take it.
      body.pause();
    }
    const aborted = (): void => {
      this.#scope.responseEnded(null, '');
      if (this.#done) return;
      this.#done = true;
      this.#controller?.abort(new Error('client gone'));
    };
    this.#exchange.onAborted = aborted;
    // Each is dear, and may need a connection: many that come at once begin in turns.
    starts.begin(
      sourceOf(this.#exchange.connection.client.ip),
      guarded(entry, this, () => this.#begin()),
    );
  }

  /** Before undici gets it. */
  readonly #contentCame = (chunk: Buffer): void => {
    if (this.#done) return;
    this.#headLeaves();
    this.#scope.requestFrame(chunk.length);
  };

  /** Chunks may hold nothing. */
  readonly #contentEnded = (): void => {
    if (this.#done) return;
    this.#headLeaves();
    this.#scope.requestEnded();
  };

  /** undici writes the head with the first of the content, or at the end of none: that may come long after it had a connection. */
  #headLeaves(): void {
    const asked = this.#done || this.#hasLeft;
    this.#hasLeft = true;
    if (asked || this.#admitLate() !== null) return;
    const isAnswered = this.#done;
    this.#done = true;
    this.#controller?.abort(notSent);
    if (isAnswered) return;
    // undici has made the head of what it was given before, and lets nobody change it.
    this.#forwarded.failed(otherFields());
    this.#scope.responseEnded(null, 'unclassified');
  }

  /** Null: it is not to leave, or not with the fields that it was given. */
  readonly #admitLate = (): AdmittedNow | null => {
    const before = this.#admitted;
    const late = this.#forwarded.admitLate(before);
    if (late.kind === 'refused') {
      this.#done = true;
      this.#exchange.refuse(late.refusal);
      this.#scope.responseEnded(null, '');
      return null;
    }
    this.#admitted = late;
    if (sameChanges(late.permit.headerChanges, before.permit.headerChanges)) return late;
    this.#keptBack = 'other fields';
    return null;
  };

  #begin(): void {
    if (this.#done) return;
    this.#mayBeRace = (this.#pool.idle?.() ?? 0) > 0;
    this.#dispatch();
  }

  #dispatch(): void {
    const { method, target, body } = this.#exchange;
    const last = isLastRequest(method, body !== null) ? { reset: true } : null;
    const headers = this.#forwarded.fields(this.#admitted);
    try {
      this.#pool.dispatch(
        { method: method as Dispatcher.HttpMethod, path: target, headers, body, ...last },
        this.#entries,
        this.#admitLate,
      );
    } catch (error) {
      this.onResponseError(null, error as Error);
    }
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#done) controller.abort(new Error('client gone'));
  }

  /** At the first byte of a response: the app has taken the request. */
  onResponseStarted(): void {
    this.#mayBeRace = false;
  }

  onRequestUpgrade(controller: Dispatcher.DispatchController, status: number, _headers: unknown, socket: Duplex): void {
    const { switched } = this.#forwarded;
    if (this.#done || switched === undefined) {
      socket.destroy();
      return;
    }
    this.#done = true;
    const raw = (controller as Controller).rawHeaders ?? [];
    switched(status, scanResponseHeaders(raw), socket, upgradeOf(raw));
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    _headers: unknown,
    statusText?: string,
  ): void {
    if (this.#done) return;
    const headers = scanResponseHeaders((controller as Controller).rawHeaders ?? []);
    if (status < 200) {
      this.#interim ??= new InterimCount();
      if (this.#interim.allows(headers.reduce((sum, text) => sum + text.length, 0))) {
        this.#exchange.informational(status, headers);
      } else {
        controller.abort(new Error('too many interim responses'));
      }
      return;
    }
    this.#scope.responseHead(status);
    const hasBody = this.#exchange.method !== 'HEAD' && status !== 204 && status !== 304;
    // A 204 has no content and must not announce any (RFC 9110 8.6): a client that believed it would wait for ever.
    const list = status === 204 ? without(headers, 'content-length') : headers;
    this.#exchange.respond(status, statusText ?? '', list, hasBody);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#done) return;
    this.#scope.responseFrame(chunk.length);
    const mayGoOn = this.#counted.take(chunk.length, this);
    if (!this.#exchange.write(chunk)) {
      this.#waitsFor = 'the client';
      controller.pause();
      this.#exchange.onDrain(() => this.#goOn());
    } else if (!mayGoOn) {
      this.#waitsFor = 'its turn';
      controller.pause();
    }
  }

  nextTurn(): void {
    if (this.#waitsFor === 'its turn') this.#goOn();
  }

  #goOn(): void {
    this.#waitsFor = 'nothing';
    if (!this.#done) this.#controller?.resume();
  }

  /** After a fault of ours. */
  destroy(): void {
    this.#exchange.abort();
  }

  onResponseEnd(controller: Dispatcher.DispatchController): void {
    if (this.#done) return;
    this.#done = true;
    const trailers = (controller as Controller).rawTrailers;
    this.#exchange.end(trailers === null ? [] : scanResponseHeaders(trailers));
    this.#scope.responseEnded(null, '');
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    if (this.#done) return;
    const { method, body } = this.#exchange;
    if (error === notSent && this.#keptBack === 'other fields') {
      this.#keptBack = 'no';
      this.#dispatch();
      return;
    }
    if (maySendAgain(repeatable(method, body !== null), this.#lossBy(error))) {
      this.#mayBeRace = false;
      this.#isRepeated = true;
      this.#dispatch();
      return;
    }
    this.#done = true;
    this.#forwarded.failed(error);
    this.#scope.responseEnded(null, 'unclassified');
  }

  #lossBy(error: Error): LostBy {
    // Once: a request that is lost a second time has been sent twice.
    if (this.#pool.lostBy !== undefined) return this.#isRepeated ? 'other' : this.#pool.lostBy();
    // undici does not say which socket it took.
    if (!this.#mayBeRace || this.#exchange.responded) return 'other';
    const code = systemErrorCode(error);
    const closed = code === 'UND_ERR_SOCKET' && error.message === otherSideClosed;
    return closed || code === 'ECONNRESET' || code === 'EPIPE' ? 'idle' : 'other';
  }
}
