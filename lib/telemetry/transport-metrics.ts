/** `tcp_*` of open and closed connections, and HTTP detection. */
import type { ByteCounter, TransportScope } from '../proxy/recorder.ts';
import { Roster, type Rostered } from '../roster.ts';
import { errnoLabel } from './closed-labels.ts';
import type { Families } from './figures.ts';
import { retainIdleMs } from './request-metrics.ts';
import {
  Cell,
  Elsewhere,
  gaugeSample,
  HistogramCell,
  histogramSamples,
  IdleWatch,
  type LabelGroup,
  type MetricLabels,
  type PartKey,
  type Parts,
  type SeriesMap,
  sample,
} from './series.ts';

/** One peer, client and server. Bytes of open connections are read at each scrape, so that long ones show. */
export class TransportSeries implements Parts {
  readonly labels: MetricLabels;
  /** Set when forgotten as idle: a holder of this object must look the series up again. */
  retired = false;
  readonly opened: Cell;
  readonly closes = new Map<string, Cell>();
  readonly open = new Roster<OpenTransport>();
  readonly elsewhere = new Elsewhere();
  /** Of closed connections, and of those of other threads. */
  readonly #readClosed: Cell;
  readonly #writtenClosed: Cell;
  /** Of open ones too, for another thread. */
  #totals: { readonly read: Cell; readonly written: Cell } | null = null;
  readonly #idle = new IdleWatch();

  constructor(labels: MetricLabels) {
    this.labels = labels;
    this.opened = new Cell(labels);
    this.#readClosed = new Cell(labels);
    this.#writtenClosed = new Cell(labels);
  }

  add(bytes: ByteCounter): OpenTransport {
    const transport = new OpenTransport(this, bytes);
    this.open.add(transport);
    this.opened.value++;
    return transport;
  }

  remove(transport: OpenTransport, errno: string): void {
    if (!this.open.delete(transport)) return;
    this.#readClosed.value += transport.read();
    this.#writtenClosed.value += transport.written();
    this.#closed(errnoLabel(errno)).value++;
  }

  #closed(label: string): Cell {
    let cell = this.closes.get(label);
    if (cell === undefined) {
      cell = new Cell(Object.assign(Object.create(null), this.labels, { errno: label }));
      this.closes.set(label, cell);
    }
    return cell;
  }

  readTotal(): number {
    let total = this.#readClosed.value;
    for (const transport of this.open) total += transport.read();
    return total;
  }

  writtenTotal(): number {
    let total = this.#writtenClosed.value;
    for (const transport of this.open) total += transport.written();
    return total;
  }

  expired(nowMs: number): boolean {
    // A close after ten idle minutes starts the wait anew: both counts are activity.
    const open = this.open.size + this.elsewhere.total;
    const idle = this.#idle.idleFor(this.opened.value * 2 - open, nowMs);
    return open === 0 && idle >= retainIdleMs;
  }

  get openHere(): number {
    return this.open.size;
  }

  *cells(): Iterable<readonly [PartKey, Cell]> {
    this.#totals ??= { read: new Cell(this.labels), written: new Cell(this.labels) };
    const { read, written } = this.#totals;
    read.value = this.readTotal();
    written.value = this.writtenTotal();
    yield ['opened', this.opened];
    yield ['read', read];
    yield ['written', written];
    for (const [label, cell] of this.closes) yield [`closed ${label}`, cell];
  }

  cell(key: PartKey): Cell {
    switch (key) {
      case 'opened':
        return this.opened;
      case 'read':
        return this.#readClosed;
      case 'written':
        return this.#writtenClosed;
      default:
        return this.#closed(errnoLabel(String(key).slice('closed '.length)));
    }
  }

  histograms(): readonly [] {
    return [];
  }

  histogram(): HistogramCell {
    throw new Error('connections have no histogram');
  }
}

class OpenTransport implements TransportScope, Rostered {
  rosterPlace = -1;
  readonly #series: TransportSeries;
  readonly #bytes: ByteCounter;
  #read = 0;
  #written = 0;

  constructor(series: TransportSeries, bytes: ByteCounter) {
    this.#series = series;
    this.#bytes = bytes;
  }

  closed(errno: string): void {
    this.#series.remove(this, errno);
  }

  /** Never goes back: a destroyed socket's `bytesWritten` is undefined, and a counter must not fall. */
  read(): number {
    const now = this.#bytes.bytesRead;
    if (now > this.#read) this.#read = now;
    return this.#read;
  }

  written(): number {
    const now = this.#bytes.bytesWritten;
    if (now > this.#written) this.#written = now;
    return this.#written;
  }
}

const detectResults = ['http/1', 'http/2', 'not_http', 'read_timeout', 'error'] as const;
export type DetectResult = (typeof detectResults)[number];

export class DetectSeries implements Parts {
  readonly results: ReadonlyMap<DetectResult, Cell>;
  readonly seconds: HistogramCell;
  readonly labels: MetricLabels;

  constructor(labels: MetricLabels) {
    const cell = (result: DetectResult) => new Cell(Object.assign(Object.create(null), { result }, labels));
    this.labels = labels;
    this.results = new Map(detectResults.map((result) => [result, cell(result)]));
    this.seconds = new HistogramCell(labels, [0.001, 0.1]);
  }

  cells(): Iterable<readonly [PartKey, Cell]> {
    return this.results;
  }
  cell(key: PartKey): Cell {
    return this.results.get(key as DetectResult) ?? (this.results.get('error') as Cell);
  }
  histograms(): readonly (readonly [PartKey, HistogramCell])[] {
    return [['seconds', this.seconds]];
  }
  histogram(): HistogramCell {
    return this.seconds;
  }
  get openHere(): number {
    return 0;
  }
  get elsewhere(): null {
    return null;
  }
}

export class TransportMetrics {
  readonly #series: SeriesMap<TransportSeries>;
  readonly #detect: SeriesMap<DetectSeries>;

  constructor(families: Families) {
    this.#series = families.series('tcp', (labels) => new TransportSeries(labels));
    this.#detect = families.series('inbound_tcp_detect', (labels) => new DetectSeries(labels));
    const all = () => Array.from(this.#series.values());
    families.show(
      { name: 'tcp_open_total', help: 'Connections opened: by clients (src), to the app (dst).', type: 'counter' },
      () => all().map((series) => sample(series.opened)),
    );
    families.show({ name: 'tcp_open_connections', help: 'Connections that are open now.', type: 'gauge' }, () =>
      all().map((series) => gaugeSample(series.open.size + series.elsewhere.total, series.labels)),
    );
    families.show({ name: 'tcp_read_bytes_total', help: 'Bytes read from the peer, after TLS.', type: 'counter' }, () =>
      all().map((series) => gaugeSample(series.readTotal(), series.labels)),
    );
    families.show(
      { name: 'tcp_write_bytes_total', help: 'Bytes written to the peer, before TLS.', type: 'counter' },
      () => all().map((series) => gaugeSample(series.writtenTotal(), series.labels)),
    );
    families.show(
      {
        name: 'tcp_close_total',
        help: 'Connections closed, by error code; empty where there was none.',
        type: 'counter',
      },
      () => all().flatMap((series) => Array.from(series.closes.values(), sample)),
    );
    const detections = () => Array.from(this.#detect.values());
    families.show(
      {
        name: 'inbound_tcp_detect_http_results_total',
        help: 'Connections by the result of HTTP detection.',
        type: 'counter',
      },
      () => detections().flatMap((series) => Array.from(series.results.values(), sample)),
    );
    const duration = 'inbound_tcp_detect_http_duration_seconds';
    families.show({ name: duration, help: 'How long HTTP detection took.', type: 'histogram' }, () =>
      detections().flatMap((series) => histogramSamples(duration, series.seconds)),
    );
    // Declared, so that queries find it, and empty: connections to the inbound port itself, which alone carry the
    // header, are closed.
    families.counter(
      'inbound_tcp_transport_header_connections_total',
      'Connections that named their port in a transport header.',
    );
  }

  /** Groups in the order peer, target, tls, server (the last three for the client side only). */
  series(...groups: LabelGroup[]): TransportSeries {
    return this.#series.at(...groups);
  }

  /** The five results of a server, made at zero, so that rates over them are right from the first detection on. */
  detection(server: LabelGroup): DetectSeries {
    return this.#detect.at(server);
  }

  expireIdle(nowMs: number): void {
    this.#series.expire((series) => {
      series.retired = series.expired(nowMs);
      return series.retired;
    });
  }
}
