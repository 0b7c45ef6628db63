import type { PendingRequest, RequestScope } from '../proxy/recorder.ts';
import { grpcIndex, grpcLabels, statusLabel } from './closed-labels.ts';
import { type ClientSeries, noStatus, type RouteSeries } from './request-metrics.ts';

/** Who tells of a request that was answered late. */
export interface SlowWatch {
  /** Milliseconds to the head of the response; infinite where nobody asks. */
  readonly slowMs: number;
  /** @param status null: there was no response. */
  slow(request: PendingRequest, status: number | null, waitedMs: number): void;
}

/** One permitted request. Every method may be called late or twice without harm: the client decides when streams end. */
export class RequestRecord implements RequestScope {
  readonly #client: ClientSeries;
  readonly #route: RouteSeries;
  readonly #grpc: boolean;
  readonly #grpcRoute: boolean;
  readonly #now: () => number;
  readonly #startedMs: number;
  #requestEndedMs = -1;
  #status = noStatus;
  #counted = false;
  #latencySeen = false;
  /** The gRPC status of a response of ours. */
  #refusedWith: string | null = null;
  readonly #ended: (() => void) | undefined;
  #done = false;
  readonly #watch: SlowWatch | null;
  readonly #asked: PendingRequest | null;

  /** `grpc` is what the request is, `grpcRoute` whose family its route's series is in. */
  constructor(
    client: ClientSeries,
    route: RouteSeries,
    grpc: boolean,
    grpcRoute: boolean,
    now: () => number,
    ended: (() => void) | undefined,
    watch: SlowWatch | null = null,
    asked: PendingRequest | null = null,
  ) {
    this.#watch = watch;
    this.#asked = asked;
    this.#ended = ended;
    this.#client = client;
    this.#route = route;
    this.#grpc = grpc;
    this.#grpcRoute = grpcRoute;
    this.#now = now;
    this.#startedMs = now();
    client.open++;
    route.requests.value++;
  }

  requestFrame(bytes: number): void {
    this.#count();
    // An empty piece ends a body, or stands for none; it would only blur the sizes.
    if (bytes > 0) this.#route.requestFrames.observe(bytes);
  }

  requestEnded(): void {
    this.#count();
    if (this.#requestEndedMs < 0) this.#requestEndedMs = this.#now();
  }

  responseHead(status: number): void {
    this.#status = status;
    this.#tellSlow(status);
  }

  waitedMs(): number {
    return this.#now() - this.#startedMs;
  }

  refused(status: number, grpcStatus: number): void {
    this.#status = this.#grpc ? 200 : status;
    this.#refusedWith = String(grpcStatus);
  }

  responseFrame(bytes: number): void {
    if (!this.#latencySeen) this.#latency(this.#now());
    if (bytes > 0) this.#route.responseFrames.observe(bytes);
  }

  responseEnded(appStatus: string | null, appError: string): void {
    if (this.#done) return;
    // What the client got is the response, as in Linkerd, which counts outside of what makes it.
    const grpcStatus = this.#refusedWith ?? appStatus;
    const error = this.#refusedWith === null ? appError : '';
    this.#done = true;
    if (this.#status === noStatus) this.#tellSlow(null);
    this.#ended?.();
    // An app may answer before the body's first piece: a response without its request would make rates exceed one.
    this.#count();
    const endedMs = this.#now();
    if (!this.#latencySeen) this.#latency(endedMs);
    this.#client.responded(this.#grpc, this.#status, grpcStatus, error);
    this.#client.open--;
    this.#route.requestSeconds.observe((endedMs - this.#startedMs) / 1000);
    // Where the response ended first there is nothing to measure from.
    if (this.#requestEndedMs >= 0) this.#route.responseSeconds.observe((endedMs - this.#requestEndedMs) / 1000);
    const status = this.#grpcRoute ? (grpcLabels[grpcIndex(grpcStatus)] as string) : statusLabel(this.#status);
    this.#route.status(status).value++;
  }

  /** Linkerd counts a request with a body at its first piece, so that one which never comes is not in the totals. */
  #count(): void {
    if (this.#counted) return;
    this.#counted = true;
    this.#client.requests.value++;
  }

  #tellSlow(status: number | null): void {
    if (this.#watch === null || this.#asked === null || this.#watch.slowMs === Number.POSITIVE_INFINITY) return;
    const waitedMs = this.waitedMs();
    if (waitedMs >= this.#watch.slowMs) this.#watch.slow(this.#asked, status, waitedMs);
  }

  #latency(nowMs: number): void {
    this.#latencySeen = true;
    this.#client.latency(this.#status, nowMs - this.#startedMs);
  }
}
