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
  /** Which bound holds it (see labels.ts), and by what it is known there; null for constants of the program. */
  readonly bound: { readonly name: string; readonly key: string } | null;
}

let nextId = 0;

export function labelGroup(pairs: Record<string, string>, bound: LabelGroup['bound']): LabelGroup {
  return Object.freeze({ id: nextId++, pairs: Object.freeze(Object.assign(Object.create(null), pairs)), bound });
}

const constants = new Map<string, LabelGroup>();

/** Labels that the program itself chooses, and of which there are few. */
export function constantGroup(pairs: Record<string, string>): LabelGroup {
  const key = JSON.stringify(pairs);
  const known = constants.get(key) ?? labelGroup(pairs, null);
  constants.set(key, known);
  return known;
}

function mergeLabels(groups: readonly LabelGroup[]): MetricLabels {
  return Object.assign(Object.create(null), ...groups.map((group) => group.pairs));
}

/** Which of the numbers of a series; the same in every thread. */
export type PartKey = string | number;

/** A series by its parts, for figures.ts: those of a worker are added to those of the main thread, one by one. */
export interface Parts {
  cells(): Iterable<readonly [PartKey, Cell]>;
  /** Made where there is none; it may stand for several keys. */
  cell(key: PartKey): Cell;
  histograms(): Iterable<readonly [PartKey, HistogramCell]>;
  histogram(key: PartKey): HistogramCell;
  /** What is open in this thread now. */
  readonly openHere: number;
  /** Null where nothing can be open. */
  readonly elsewhere: Elsewhere | null;
}

/** What is open in other threads, and what they have been told of this one. */
export class Elsewhere {
  #byWorker: Map<number, number> | null = null;
  total = 0;
  reported = 0;

  tell(worker: number, open: number): void {
    this.#byWorker ??= new Map();
    this.total += open - (this.#byWorker.get(worker) ?? 0);
    if (open === 0) this.#byWorker.delete(worker);
    else this.#byWorker.set(worker, open);
  }
}

/** One time series that only grows. */
export class Cell implements Parts {
  value = 0;
  /** As much of it as another thread has been told. */
  reported = 0;
  readonly labels: MetricLabels;

  constructor(labels: MetricLabels) {
    this.labels = labels;
  }

  cells(): readonly (readonly [PartKey, Cell])[] {
    return [['', this]];
  }
  cell(): Cell {
    return this;
  }
  histograms(): readonly [] {
    return [];
  }
  histogram(): HistogramCell {
    throw new Error('a counter is no histogram');
  }
  get openHere(): number {
    return 0;
  }
  get elsewhere(): null {
    return null;
  }
}

/** One histogram series. Counts are kept per bucket and summed up when read. */
export class HistogramCell {
  /** As much of it as another thread has been told. */
  reported: { readonly counts: Float64Array; readonly sum: number } | null = null;
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

/** The same of many, one after the other: each is of the moment at which it is asked for. */
export function* samplesOfEach(name: string, cells: Iterable<HistogramCell>): Iterable<Sample> {
  for (const cell of cells) yield* histogramSamples(name, cell);
}

export interface MetricDescription {
  readonly name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
}

/** How a metric is shown whose values are computed at scrape. */
interface Collected {
  readonly description: MetricDescription;
  /** Walked while others have their turns. */
  values(): Iterable<Sample>;
}

const collected = new WeakMap<object, Collected>();

/** Undefined for a metric that is prom-client's own. */
export function collectedBy(metric: object): Collected | undefined {
  return collected.get(metric);
}

/**
 * Registers a metric whose values are computed at scrape. prom-client types `registerMetric` for its own classes, but
 * its Registry asks of a metric only `name` and `get()`; that is the interface this object keeps.
 */
export function registerCollected(
  registry: Registry,
  description: MetricDescription,
  values: () => Iterable<Sample>,
): void {
  const metric = {
    ...description,
    aggregator: 'sum',
    get: () => ({ ...description, aggregator: 'sum', values: [...values()] }),
    reset: () => {},
  };
  collected.set(metric, { description, values });
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
  /** Where somebody is to be told of each series by its groups. */
  #groups: Map<S, readonly LabelGroup[]> | null = null;
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
      this.#groups?.set(made, groups);
      return made;
    }
    return this.overflow(labels);
  }

  /** The series of all that come too late. `labels`: whose names it has. */
  overflow(labels: MetricLabels): S {
    const shared = this.#series.get(overflowValue) ?? this.#make(overflowLabels(labels));
    this.#series.set(overflowValue, shared);
    return shared;
  }

  /** From the first series on. */
  keepGroups(): void {
    this.#groups ??= new Map();
  }

  /** Undefined for the series of all that came too late. */
  groupsOf(series: S): readonly LabelGroup[] | undefined {
    return this.#groups?.get(series);
  }

  values(): Iterable<S> {
    return this.#series.values();
  }

  get size(): number {
    return this.#series.size;
  }

  /** Forgets the series for which `idle` holds. */
  expire(idle: (series: S) => boolean): void {
    for (const [key, series] of this.#series) {
      if (!idle(series)) continue;
      this.#series.delete(key);
      this.#groups?.delete(series);
    }
  }
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
