/**
 * What is measured of requests that policy let through: `request_total` and `response_*` by client and authorization,
 * forgotten when idle; `inbound_{http,grpc}_*` by server and route. Nothing is allocated per request but one scope.
 */
import type { Registry } from 'prom-client';
import type { RequestScope } from '../proxy/recorder.ts';
import { grpcIndex, grpcLabels, grpcNone, statusLabel, streamErrorIndex, streamErrors } from './labels.ts';
import {
  Cell,
  HistogramCell,
  histogramSamples,
  IdleWatch,
  type LabelGroup,
  type MetricLabels,
  registerCollected,
  SeriesMap,
  sample,
} from './series.ts';

const latencyBoundsMs = [1, 2, 3, 4, 5, 10, 20, 30, 40, 50, 100, 200, 300, 400, 500].concat(
  [1, 2, 3, 4, 5, 10, 20, 30, 40, 50].map((seconds) => seconds * 1000),
);
const requestSecondsBounds = [0.025, 0.05, 0.1, 0.25, 0.5, 1, 10];
const responseSecondsBounds = [0.05, 0.5, 1, 10];
const frameBytesBounds = [128, 1024, 10240];

/** Linkerd's newer families print bounds as floats; its older ones, `response_latency_ms` among them, as integers. */
const withPoint = (bound: number): string => (Number.isInteger(bound) ? `${bound}.0` : String(bound));

/** Linkerd's gRPC failures: UNKNOWN, DEADLINE_EXCEEDED, PERMISSION_DENIED, INTERNAL, UNAVAILABLE, DATA_LOSS. */
const grpcFailures: ReadonlySet<number> = new Set([2, 4, 7, 13, 14, 15]);
const grpcUnknown = 2;

const noStatus = 0;
/** Stands for what is not a status, and for all beyond `maxStatuses`; `statusLabel` prints it as `other`. */
const otherStatus = 1;
/** An app may echo what it is sent, so even statuses have a limit in each series. */
const maxStatuses = 64;

/** The histograms of one client series weigh 27 lines each. */
const maxClientSeries = 4000;

/** Linkerd's LINKERD2_PROXY_METRICS_RETAIN_IDLE. */
export const retainIdleMs = 10 * 60 * 1000;

function statusKey(status: number, known: ReadonlyMap<number, unknown>): number {
  if (status === noStatus || known.has(status)) return status;
  const valid = Number.isInteger(status) && status >= 100 && status <= 999;
  return valid && known.size < maxStatuses ? status : otherStatus;
}

function extend(labels: MetricLabels, more: MetricLabels): MetricLabels {
  return Object.assign(Object.create(null), labels, more);
}

/** `request_total` and `response_*` of one client, target, route and authorization. */
export class ClientSeries {
  readonly requests: Cell;
  /** Requests whose response has not ended; while there are any, the series stays. */
  open = 0;
  /** Set when forgotten as idle: a holder of this object must look the series up again. */
  retired = false;
  readonly latencies = new Map<number, HistogramCell>();
  readonly responses = new Map<number, Cell>();
  readonly #labels: MetricLabels;
  readonly #idle = new IdleWatch();
  #responses = 0;

  constructor(labels: MetricLabels) {
    this.#labels = labels;
    this.requests = new Cell(labels);
  }

  /** Recorded once per request, before `responded`: it also decides which statuses have a label of their own. */
  latency(status: number, milliseconds: number): void {
    const key = statusKey(status, this.latencies);
    let cell = this.latencies.get(key);
    if (cell === undefined) {
      cell = new HistogramCell(extend(this.#labels, { status_code: statusLabel(key) }), latencyBoundsMs);
      this.latencies.set(key, cell);
    }
    cell.observe(milliseconds);
  }

  responded(grpc: boolean, status: number, grpcStatus: string | null, error: string): void {
    const errorIndex = streamErrorIndex(error);
    let code = grpcNone;
    let failed: boolean;
    if (errorIndex !== 0) {
      // A broken stream is a failure whatever its status said.
      failed = true;
    } else if (grpc) {
      code = grpcIndex(grpcStatus);
      // A stream that ended without a status is a success that says 2: Linkerd's doing, kept for its dashboards.
      failed = grpcFailures.has(code) || grpcLabels[code] === 'other';
      if (code === grpcNone) code = grpcUnknown;
    } else {
      failed = status >= 500 && status <= 599;
    }
    const shown = statusKey(status, this.latencies);
    // The four labels as one number; `failed` is part of it because code 2 occurs with both classifications.
    const key = ((shown * grpcLabels.length + code) * streamErrors.length + errorIndex) * 2 + (failed ? 1 : 0);
    let cell = this.responses.get(key);
    if (cell === undefined) {
      const labels = {
        status_code: statusLabel(shown),
        classification: failed ? 'failure' : 'success',
        grpc_status: grpcLabels[code] as string,
        error: streamErrors[errorIndex] as string,
      };
      cell = new Cell(extend(this.#labels, labels));
      this.responses.set(key, cell);
    }
    cell.value++;
    this.#responses++;
  }

  idleFor(nowMs: number): number {
    const idle = this.#idle.idleFor(this.requests.value + this.#responses, nowMs);
    return this.open > 0 ? 0 : idle;
  }
}

/** `inbound_http_*` or `inbound_grpc_*` of one server and route. */
export class RouteSeries {
  readonly requests: Cell;
  readonly statuses = new Map<string, Cell>();
  readonly requestSeconds: HistogramCell;
  readonly responseSeconds: HistogramCell;
  readonly requestFrames: HistogramCell;
  readonly responseFrames: HistogramCell;
  readonly #labels: MetricLabels;

  constructor(labels: MetricLabels) {
    this.#labels = labels;
    this.requests = new Cell(labels);
    this.requestSeconds = new HistogramCell(labels, requestSecondsBounds, withPoint);
    this.responseSeconds = new HistogramCell(labels, responseSecondsBounds, withPoint);
    this.requestFrames = new HistogramCell(labels, frameBytesBounds, withPoint);
    this.responseFrames = new HistogramCell(labels, frameBytesBounds, withPoint);
  }

  status(status: string): Cell {
    const known = this.statuses.get(status);
    if (known !== undefined) return known;
    if (status !== 'other' && this.statuses.size >= maxStatuses) return this.status('other');
    const made = new Cell(extend(this.#labels, { status }));
    this.statuses.set(status, made);
    return made;
  }
}

function routeFamilies(registry: Registry, protocol: 'http' | 'grpc'): SeriesMap<RouteSeries> {
  const series = new SeriesMap((labels) => new RouteSeries(labels));
  const all = () => Array.from(series.values());
  const what = protocol === 'http' ? 'HTTP' : 'gRPC';
  const counter = (rest: string, help: string, cells: (series: RouteSeries) => Iterable<Cell>) =>
    registerCollected(registry, { name: `inbound_${protocol}_${rest}`, help, type: 'counter' }, () =>
      all().flatMap((one) => Array.from(cells(one), sample)),
    );
  const histogram = (rest: string, help: string, cell: (series: RouteSeries) => HistogramCell) => {
    const name = `inbound_${protocol}_${rest}`;
    registerCollected(registry, { name, help, type: 'histogram' }, () =>
      all().flatMap((one) => histogramSamples(name, cell(one))),
    );
  };
  counter('requests_total', `${what} requests forwarded to the app.`, (one) => [one.requests]);
  counter('statuses_total', `${what} responses by status, empty where the stream ended without one.`, (one) =>
    one.statuses.values(),
  );
  histogram(
    'request_duration_seconds',
    `From the beginning of a ${what} request to the end of its response.`,
    (one) => one.requestSeconds,
  );
  histogram(
    'response_duration_seconds',
    `From the end of a ${what} request to the end of its response.`,
    (one) => one.responseSeconds,
  );
  histogram(
    'request_frame_size_bytes',
    `Sizes of the pieces in which ${what} request bodies arrived.`,
    (one) => one.requestFrames,
  );
  histogram(
    'response_frame_size_bytes',
    `Sizes of the pieces in which ${what} response bodies arrived.`,
    (one) => one.responseFrames,
  );
  return series;
}

export class RequestMetrics {
  readonly #clients = new SeriesMap((labels) => new ClientSeries(labels), maxClientSeries);
  readonly #http: SeriesMap<RouteSeries>;
  readonly #grpc: SeriesMap<RouteSeries>;

  constructor(registry: Registry) {
    const latency = 'response_latency_ms';
    registerCollected(
      registry,
      { name: 'request_total', help: 'Requests forwarded to the app.', type: 'counter' },
      () => Array.from(this.#clients.values(), (series) => sample(series.requests)),
    );
    registerCollected(
      registry,
      { name: 'response_total', help: 'Responses of the app that ended, by outcome.', type: 'counter' },
      () => Array.from(this.#clients.values()).flatMap((series) => Array.from(series.responses.values(), sample)),
    );
    registerCollected(
      registry,
      { name: latency, help: 'Milliseconds from a request to the first piece of its response.', type: 'histogram' },
      () =>
        Array.from(this.#clients.values()).flatMap((series) =>
          Array.from(series.latencies.values()).flatMap((cell) => histogramSamples(latency, cell)),
        ),
    );
    this.#http = routeFamilies(registry, 'http');
    this.#grpc = routeFamilies(registry, 'grpc');
  }

  /** Groups in the order direction, target, tls, server, route, authz. */
  client(...groups: LabelGroup[]): ClientSeries {
    return this.#clients.at(...groups);
  }

  route(grpc: boolean, parent: LabelGroup, route: LabelGroup): RouteSeries {
    return (grpc ? this.#grpc : this.#http).at(parent, route);
  }

  expireIdle(nowMs: number): void {
    this.#clients.expire((series) => {
      // A series that nothing was counted in yet has just been made for a request under way.
      series.retired = series.idleFor(nowMs) >= retainIdleMs;
      return series.retired;
    });
  }
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

  /** `grpc` is what the request is, `grpcRoute` whose family its route's series is in. */
  constructor(
    client: ClientSeries,
    route: RouteSeries,
    grpc: boolean,
    grpcRoute: boolean,
    now: () => number,
    ended: (() => void) | undefined,
  ) {
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

  #latency(nowMs: number): void {
    this.#latencySeen = true;
    this.#client.latency(this.#status, nowMs - this.#startedMs);
  }
}
