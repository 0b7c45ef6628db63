/**
 * Cells that the data plane increments, and the families that show them to prom-client.
 * A cell is found once and then is a plain number; only a scrape walks the families.
 */
import type { Metric, Registry } from 'prom-client';

export type MetricLabels = Readonly<Record<string, string>>;

/** Labels that travel together (all of a target, all of a server). Equal contents share one object and one id. */
export interface LabelGroup {
  readonly id: number;
  readonly pairs: MetricLabels;
}

function mergeLabels(groups: readonly LabelGroup[]): MetricLabels {
  return Object.assign(Object.create(null), ...groups.map((group) => group.pairs));
}

/** One time series that only grows. */
export class Cell {
  value = 0;
  readonly labels: MetricLabels;

  constructor(labels: MetricLabels) {
    this.labels = labels;
  }
}

/** One histogram series. Counts are kept per bucket and summed up when read. */
export class HistogramCell {
  readonly labels: MetricLabels;
  readonly bounds: readonly number[];
  readonly counts: Float64Array;
  sum = 0;
  /** How a bound is written. */
  readonly text: (bound: number) => string;

  constructor(labels: MetricLabels, bounds: readonly number[], text: (bound: number) => string = String) {
    this.labels = labels;
    this.bounds = bounds;
    this.text = text;
    this.counts = new Float64Array(bounds.length + 1);
  }

  /** A negative or undefined value (a clock that stepped) counts as zero, so that the sum stays a number. */
  observe(value: number): void {
    // Not Math.max, which passes NaN on.
    let seen = 0;
    if (value > 0) seen = value;
    let bucket = 0;
    while (bucket < this.bounds.length && seen > (this.bounds[bucket] as number)) bucket++;
    this.counts[bucket] = (this.counts[bucket] as number) + 1;
    this.sum += seen;
  }
}

/** What prom-client's Registry reads of one line; `labels` and `sharedLabels` are printed one after the other. */
export interface Sample {
  readonly metricName?: string;
  readonly labels: MetricLabels;
  readonly sharedLabels: MetricLabels;
  readonly value: number;
}

const none: MetricLabels = Object.freeze(Object.create(null));

export function sample(cell: Cell): Sample {
  return { labels: none, sharedLabels: cell.labels, value: cell.value };
}

export function gaugeSample(value: number, labels: MetricLabels = none): Sample {
  return { labels: none, sharedLabels: labels, value };
}

/** The cumulative buckets, sum and count of one histogram, as the text format wants them. */
export function histogramSamples(name: string, cell: HistogramCell): Sample[] {
  const samples: Sample[] = [];
  let total = 0;
  for (let bucket = 0; bucket < cell.counts.length; bucket++) {
    total += cell.counts[bucket] as number;
    const le = bucket < cell.bounds.length ? cell.text(cell.bounds[bucket] as number) : '+Inf';
    samples.push({ metricName: `${name}_bucket`, labels: { le }, sharedLabels: cell.labels, value: total });
  }
  samples.push({ metricName: `${name}_sum`, labels: none, sharedLabels: cell.labels, value: cell.sum });
  samples.push({ metricName: `${name}_count`, labels: none, sharedLabels: cell.labels, value: total });
  return samples;
}

export interface MetricDescription {
  readonly name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
}

/**
 * Registers a metric whose values are computed at scrape. prom-client types `registerMetric` for its own classes, but
 * its Registry asks of a metric only `name` and `get()`; that is the interface this object keeps.
 */
export function registerCollected(
  registry: Registry,
  description: MetricDescription,
  values: () => readonly Sample[],
): void {
  const metric = {
    ...description,
    aggregator: 'sum',
    get: () => ({ ...description, aggregator: 'sum', values: values() }),
    reset: () => {},
  };
  registry.registerMetric(metric as unknown as Metric<string>);
}

/**
 * How many series one family may hold. Label values are bounded one by one (see labels.ts); this bounds their product.
 * What comes after shares one series whose every label is `overflow`, so sums stay right.
 */
const maxSeries = 10_000;

export const overflowValue = 'overflow';

function overflowLabels(labels: MetricLabels): MetricLabels {
  const all: Record<string, string> = Object.create(null);
  for (const name of Object.keys(labels)) all[name] = overflowValue;
  return all;
}

/** Series of one shape by their label groups: at most `limit`, then one shared overflow series. */
export class SeriesMap<S> {
  readonly #series = new Map<string, S>();
  readonly #make: (labels: MetricLabels) => S;
  readonly #limit: number;

  constructor(make: (labels: MetricLabels) => S, limit = maxSeries) {
    this.#make = make;
    this.#limit = limit;
  }

  /** The order of the groups must be the same at every call: their ids make the key. */
  at(...groups: LabelGroup[]): S {
    let key = '';
    for (const group of groups) key += `${group.id} `;
    const known = this.#series.get(key);
    if (known !== undefined) return known;
    const labels = mergeLabels(groups);
    if (this.#series.size < this.#limit) {
      const made = this.#make(labels);
      this.#series.set(key, made);
      return made;
    }
    const shared = this.#series.get(overflowValue) ?? this.#make(overflowLabels(labels));
    this.#series.set(overflowValue, shared);
    return shared;
  }

  values(): Iterable<S> {
    return this.#series.values();
  }

  get size(): number {
    return this.#series.size;
  }

  /** Forgets the series for which `idle` holds. */
  expire(idle: (series: S) => boolean): void {
    for (const [key, series] of this.#series) if (idle(series)) this.#series.delete(key);
  }
}

/** A counter family by label groups that never expires. */
export function counterFamily(registry: Registry, name: string, help: string): SeriesMap<Cell> {
  const family = new SeriesMap((labels) => new Cell(labels));
  registerCollected(registry, { name, help, type: 'counter' }, () => Array.from(family.values(), sample));
  return family;
}

/** Notices at scrapes that a series has not moved for a while, so that the hot path never reads a clock for it. */
export class IdleWatch {
  #seen = -1;
  #since = 0;

  /** `activity` is any number that changes whenever the series is used. */
  idleFor(activity: number, nowMs: number): number {
    if (activity !== this.#seen) {
      this.#seen = activity;
      this.#since = nowMs;
    }
    return nowMs - this.#since;
  }
}
