/**
 * What is measured of requests that policy let through: `request_total` and `response_*` by client and authorization,
 * forgotten when idle; `inbound_{http,grpc}_*` by server and route. Nothing is allocated per request but one record.
 */

import { grpcIndex, grpcLabels, grpcNone, statusLabel, streamErrorIndex, streamErrors } from './closed-labels.ts';
import type { Families } from './figures.ts';
import {
  Cell,
  Elsewhere,
  gaugeSample,
  HistogramCell,
  IdleWatch,
  type LabelGroup,
  type MetricLabels,
  type PartKey,
  type Parts,
  type Sample,
  type SeriesMap,
  sample,
  samplesOfEach,
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

export const noStatus = 0;
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
export class ClientSeries implements Parts {
  readonly requests: Cell;
  /** Requests whose response has not ended; while there are any, the series stays. */
  open = 0;
  /** Set when forgotten as idle: a holder of this object must look the series up again. */
  retired = false;
  readonly latencies = new Map<number, HistogramCell>();
  readonly responses = new Map<number, Cell>();
  readonly labels: MetricLabels;
  readonly elsewhere = new Elsewhere();
  readonly #idle = new IdleWatch();

  constructor(labels: MetricLabels) {
    this.labels = labels;
    this.requests = new Cell(labels);
  }

  /** Recorded once per request, before `responded`: it also decides which statuses have a label of their own. */
  latency(status: number, milliseconds: number): void {
    this.histogram(status).observe(milliseconds);
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
    const key = responseKey(statusKey(status, this.latencies), code, errorIndex, failed);
    const cell = this.responses.get(key) ?? this.cell(key);
    cell.value++;
  }

  idleFor(nowMs: number): number {
    let activity = this.requests.value;
    for (const { value } of this.responses.values()) activity += value;
    const idle = this.#idle.idleFor(activity, nowMs);
    return this.open + this.elsewhere.total > 0 ? 0 : idle;
  }

  get openHere(): number {
    return this.open;
  }

  *cells(): Iterable<readonly [PartKey, Cell]> {
    yield ['requests', this.requests];
    yield* this.responses;
  }

  /** By `responseKey`, or `requests`. */
  cell(key: PartKey): Cell {
    if (key === 'requests') return this.requests;
    const { status, code, errorIndex, failed } = responseOf(Number(key));
    const shown = statusKey(status, this.latencies);
    const shownKey = responseKey(shown, code, errorIndex, failed);
    let cell = this.responses.get(shownKey);
    if (cell === undefined) {
      const labels = {
        status_code: statusLabel(shown),
        classification: failed ? 'failure' : 'success',
        grpc_status: grpcLabels[code] as string,
        error: streamErrors[errorIndex] as string,
      };
      cell = new Cell(extend(this.labels, labels));
      this.responses.set(shownKey, cell);
    }
    return cell;
  }

  histograms(): Iterable<readonly [PartKey, HistogramCell]> {
    return this.latencies;
  }

  /** By status. */
  histogram(status: PartKey): HistogramCell {
    const key = statusKey(Number(status), this.latencies);
    let cell = this.latencies.get(key);
    if (cell === undefined) {
      cell = new HistogramCell(extend(this.labels, { status_code: statusLabel(key) }), latencyBoundsMs);
      this.latencies.set(key, cell);
    }
    return cell;
  }
}

/**
 * The four labels of `response_total` as one number. `code` and `errorIndex`: places in `grpcLabels` and `streamErrors`; `failed`
 * is part of it because code 2 occurs with both classifications.
 */
function responseKey(status: number, code: number, errorIndex: number, failed: boolean): number {
  return ((status * grpcLabels.length + code) * streamErrors.length + errorIndex) * 2 + (failed ? 1 : 0);
}

function responseOf(key: number) {
  const errors = Math.floor(key / 2);
  const codes = Math.floor(errors / streamErrors.length);
  return {
    status: Math.floor(codes / grpcLabels.length),
    code: codes % grpcLabels.length,
    errorIndex: errors % streamErrors.length,
    failed: key % 2 === 1,
  };
}

/** `inbound_http_*` or `inbound_grpc_*` of one server and route. */
export class RouteSeries implements Parts {
  readonly requests: Cell;
  readonly statuses = new Map<string, Cell>();
  readonly requestSeconds: HistogramCell;
  readonly responseSeconds: HistogramCell;
  readonly requestFrames: HistogramCell;
  readonly responseFrames: HistogramCell;
  readonly labels: MetricLabels;

  constructor(labels: MetricLabels) {
    this.labels = labels;
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
    const made = new Cell(extend(this.labels, { status }));
    this.statuses.set(status, made);
    return made;
  }

  *cells(): Iterable<readonly [PartKey, Cell]> {
    yield ['requests', this.requests];
    for (const [status, cell] of this.statuses) yield [`status ${status}`, cell];
  }

  cell(key: PartKey): Cell {
    return key === 'requests' ? this.requests : this.status(String(key).slice('status '.length));
  }

  histograms(): readonly (readonly [PartKey, HistogramCell])[] {
    return [this.requestSeconds, this.responseSeconds, this.requestFrames, this.responseFrames].entries().toArray();
  }

  histogram(key: PartKey): HistogramCell {
    return (this.histograms()[Number(key)] as readonly [PartKey, HistogramCell])[1];
  }

  get openHere(): number {
    return 0;
  }

  get elsewhere(): null {
    return null;
  }
}

function routeFamilies(families: Families, protocol: 'http' | 'grpc'): SeriesMap<RouteSeries> {
  const series = families.series(`inbound_${protocol}`, (labels) => new RouteSeries(labels));
  const all = () => Array.from(series.values());
  const what = protocol === 'http' ? 'HTTP' : 'gRPC';
  const counter = (rest: string, help: string, cells: (series: RouteSeries) => Iterable<Cell>) =>
    families.show({ name: `inbound_${protocol}_${rest}`, help, type: 'counter' }, () =>
      all().flatMap((one) => Array.from(cells(one), sample)),
    );
  const histogram = (rest: string, help: string, cell: (series: RouteSeries) => HistogramCell) => {
    const name = `inbound_${protocol}_${rest}`;
    families.show({ name, help, type: 'histogram' }, () => samplesOfEach(name, all().map(cell)));
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
  readonly #clients: SeriesMap<ClientSeries>;
  readonly #http: SeriesMap<RouteSeries>;
  readonly #grpc: SeriesMap<RouteSeries>;

  constructor(families: Families) {
    this.#clients = families.series('client', (labels) => new ClientSeries(labels), maxClientSeries);
    families.show(
      { name: 'sallyport_requests_in_flight', help: 'Requests let in whose response has not ended.', type: 'gauge' },
      () => this.#inFlight(),
    );
    const latency = 'response_latency_ms';
    families.show({ name: 'request_total', help: 'Requests forwarded to the app.', type: 'counter' }, () =>
      Array.from(this.#clients.values(), (series) => sample(series.requests)),
    );
    families.show(
      { name: 'response_total', help: 'Responses of the app that ended, by outcome.', type: 'counter' },
      () => Array.from(this.#clients.values()).flatMap((series) => Array.from(series.responses.values(), sample)),
    );
    families.show(
      { name: latency, help: 'Milliseconds from a request to the first piece of its response.', type: 'histogram' },
      () => samplesOfEach(latency, this.#latencies()),
    );
    this.#http = routeFamilies(families, 'http');
    this.#grpc = routeFamilies(families, 'grpc');
  }

  /** By Server: who asks is none of this figure's business, which is there to be held against a limit. */
  #inFlight(): Iterable<Sample> {
    const servers = new Map<string, { readonly labels: MetricLabels; open: number }>();
    for (const { labels, open, elsewhere } of this.#clients.values()) {
      const { srv_group = '', srv_kind = '', srv_name = '', srv_port = '' } = labels;
      const key = `${srv_group}/${srv_kind}/${srv_name}/${srv_port}`;
      const server = servers.get(key) ?? { labels: { srv_group, srv_kind, srv_name, srv_port }, open: 0 };
      server.open += open + elsewhere.total;
      servers.set(key, server);
    }
    return Array.from(servers.values(), ({ labels, open }) => gaugeSample(open, labels));
  }

  *#latencies(): Iterable<HistogramCell> {
    for (const { latencies } of this.#clients.values()) yield* latencies.values();
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
