import type { IpAddress } from '../../../ip.ts';
import type { Admitted, AdmittedNow } from '../../http/admitted.ts';
import { withoutIdentity } from '../../http/headers.ts';
import { maySendAgain, type Repeatable, repeatable } from '../../http/retry.ts';
import type { AppExchange, ExchangeLoss, Http2ResponseSink } from '../app/app-exchange.ts';
import { appLimits } from '../app/limits.ts';
import type { ClientStream, RequestRelay } from '../client/client-stream.ts';
import type { Http2ResponseHead } from '../message/response-head.ts';
import { Trailers } from '../message/trailers.ts';
import { HeldBytes } from '../session/held-bytes.ts';
import { errorCode } from '../session/protocol.ts';
import { clientReset, errorOf, lostBy, streamError, ToldByReset } from './loss.ts';

/** How requests get to the app, in one version of HTTP. */
export interface AppSide<Head> {
  /**
   * Begins the request's exchange, or does so later, by `begun` or `lost`, when the request's `admitLate` lets it.
   *
   * @param admitted is what it may be sent by in this turn.
   * @param isAgain the connection that it was begun on before has been lost.
   * @returns null where it must wait.
   */
  open(request: Relay<Head>, admitted: AdmittedNow, isAgain: boolean): AppExchange | null;
  /** The request that waits has been given up. */
  cancel(request: Relay<Head>): void;
}

type State =
  /** There is no exchange. */
  | { readonly kind: 'connecting' }
  /** Nothing of a response has come. */
  | { readonly kind: 'sending'; readonly app: AppExchange }
  /** Some of a response has come, be it a 1xx. */
  | { readonly kind: 'answering'; readonly app: AppExchange }
  | { readonly kind: 'over' };

/** What begins a request for the app, by what it is admitted by: a route may change its fields. */
export type HeadOf<Head> = (admitted: Admitted, client: ClientStream) => Head;

const connecting: State = { kind: 'connecting' };
const over: State = { kind: 'over' };

/** One permitted request on its way to the app, and the response on its way back. */
export class Relay<Head> implements RequestRelay, Http2ResponseSink {
  #admitted: Admitted;
  #requestHead: Head;
  readonly method: string;
  /** Content is to come. */
  readonly hasContent: boolean;
  /** Bytes of content by Content-Length; -1 where there is none. */
  readonly contentLength: number;
  /** Bytes of room for content that the request wants at once; 0 without any. */
  readonly room: number;
  waitsSince = 0;
  readonly #client: ClientStream;
  readonly #side: AppSide<Head>;
  readonly #headOf: HeadOf<Head>;
  #state: State = connecting;
  #repeatable: Repeatable;
  /** All of the request has come. */
  #isEnded: boolean;
  /** Content that came before there was an exchange. */
  #early: HeldBytes | null = null;
  /** Bytes that the app may send again once the client has taken what waits. */
  #owedToApp = 0;
  #grpcStatus: string | null = null;

  /**
   * @param headOf makes what `side` takes.
   */
  constructor(admitted: Admitted, client: ClientStream, side: AppSide<Head>, headOf: HeadOf<Head>) {
    const { method, remoteEnded } = client;
    const { contentLength } = client.requestHead;
    this.#admitted = admitted;
    this.#headOf = headOf;
    this.#requestHead = headOf(admitted, client);
    this.method = method;
    this.hasContent = !remoteEnded;
    this.contentLength = contentLength;
    const known = contentLength === -1 ? appLimits.uploadRoom : Math.min(contentLength, appLimits.uploadRoom);
    this.room = remoteEnded ? 0 : Math.max(1, known);
    this.#client = client;
    this.#side = side;
    this.#repeatable = repeatable(method, !remoteEnded);
    this.#isEnded = remoteEnded;
  }

  /** @param admitted the same as in the constructor, in the same turn. */
  start(admitted: AdmittedNow): void {
    this.#client.relay = this;
    if (this.#isEnded) {
      admitted.scope.requestFrame(0);
      admitted.scope.requestEnded();
    }
    this.#open(admitted, false);
  }

  get admitted(): Admitted {
    return this.#admitted;
  }

  /** What begins the request for the app, in its version. */
  get requestHead(): Head {
    return this.#requestHead;
  }

  admitLate(): AdmittedNow | null {
    const client = this.#client;
    const before = this.#admitted;
    const late = client.admitLate(before);
    if (late.kind === 'admitted') {
      this.#admitted = late;
      if (late.permit !== before.permit) this.#requestHead = this.#headOf(late, client);
      return late;
    }
    this.#state = over;
    this.#early = null;
    client.holdContent(0);
    client.relay = null;
    client.refuse(late.refusal);
    before.scope.responseEnded(null, '');
    return null;
  }

  get repeatable(): Repeatable {
    return this.#repeatable;
  }

  /** There is no more of the request than its head. */
  get isComplete(): boolean {
    return this.#isEnded && this.#early === null && this.#client.trailers.isEmpty;
  }

  get owner(): object {
    return this.#client.connection;
  }

  /** Who asks for a connection to the app. */
  get clientIp(): IpAddress {
    return this.#client.connection.client.ip;
  }

  get isAlone(): boolean {
    return this.#client.isAlone;
  }

  /** Ends the client's connection, for a fault of ours. */
  destroy(): void {
    this.#client.destroy();
  }

  #open(admitted: AdmittedNow, isAgain: boolean): void {
    this.#state = connecting;
    const app = this.#side.open(this, admitted, isAgain);
    if (app !== null) this.begun(app);
  }

  /** The head has left for the app. */
  begun(app: AppExchange): void {
    this.#state = { kind: 'sending', app };
    if (this.isComplete) return;
    const early = this.#early;
    this.#early = null;
    app.takeOver(early, this.#isEnded ? this.#trailers : null);
  }

  get #app(): AppExchange | null {
    const state = this.#state;
    return state.kind === 'sending' || state.kind === 'answering' ? state.app : null;
  }

  get #trailers(): Trailers {
    const { trailers } = this.#client;
    return trailers.isEmpty ? trailers : new Trailers(withoutIdentity(trailers.fields));
  }

  clientGone(): void {
    const app = this.#app;
    if (this.#state.kind === 'connecting') this.#side.cancel(this);
    this.#state = over;
    app?.abandon();
    this.#admitted.scope.responseEnded(null, '');
  }

  content(bytes: Buffer, from: number, to: number): void {
    this.#admitted.scope.requestFrame(to - from);
    const app = this.#app;
    if (app !== null) {
      app.content(bytes, from, to, this.#client.remoteEnded);
      return;
    }
    this.#early ??= new HeldBytes();
    this.#early.push(bytes, from, to);
    this.#client.holdContent(this.#early.memory);
  }

  contentEnded(): void {
    this.#admitted.scope.requestEnded();
    this.#isEnded = true;
    this.#app?.contentEnded(this.#trailers);
  }

  taken(bytes: number): void {
    this.#client.consume(bytes);
  }

  holds(bytes: number): void {
    this.#client.holdContent(bytes);
  }

  /** Some of a response has come: from here on the request is the app's. */
  #answered(): void {
    const state = this.#state;
    if (state.kind === 'sending') this.#state = { kind: 'answering', app: state.app };
  }

  interim(head: Http2ResponseHead): void {
    this.#answered();
    this.#client.inform(head);
  }

  head(head: Http2ResponseHead, endStream: boolean): void {
    this.#answered();
    if (this.#client.grpc) this.#grpcStatus = head.grpcStatus;
    this.#admitted.scope.responseHead(head.status);
    this.#client.respondWith(head, !endStream);
  }

  data(bytes: Buffer, from: number, to: number): boolean {
    this.#admitted.scope.responseFrame(to - from);
    if (this.#client.write(bytes, from, to)) return true;
    const app = this.#app;
    this.#owedToApp += to - from;
    this.#client.onDrain(() => {
      app?.consume(this.#owedToApp);
      this.#owedToApp = 0;
    });
    return false;
  }

  ended(trailers: Trailers): void {
    const client = this.#client;
    this.#state = over;
    client.relay = null;
    if (client.grpc) this.#grpcStatus = trailers.grpcStatus ?? this.#grpcStatus;
    client.endWith(trailers);
    this.#admitted.scope.responseEnded(this.#grpcStatus, '');
  }

  #failed(error: Error): void {
    this.#client.failed(error, error instanceof ToldByReset ? error.reset : null);
  }

  lost(loss: ExchangeLoss): void {
    const client = this.#client;
    const isAnswered = this.#state.kind === 'answering';
    if (!isAnswered && maySendAgain(this.#repeatable, lostBy(loss))) {
      this.#repeatable = 'never';
      const admitted = this.admitLate();
      if (admitted !== null) this.#open(admitted, true);
      return;
    }
    this.#state = over;
    client.relay = null;
    if (loss.kind === 'fault') client.abort(errorCode.internalError);
    else if (client.responded) client.failed(errorOf(loss, isAnswered, client.grpc), clientReset(loss));
    else this.#failed(errorOf(loss, isAnswered, client.grpc));
    this.#admitted.scope.responseEnded(this.#grpcStatus, streamError(loss));
  }
}
