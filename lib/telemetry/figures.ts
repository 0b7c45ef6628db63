/**
 * What several threads count, added up in one: a worker says what it has counted since it last said so, and the main thread adds
 * that to its own series. Both bound label values and series by the same rules, and those of the main thread hold for the sum.
 */
import type { Registry } from 'prom-client';
import {
  Cell,
  type HistogramCell,
  type LabelGroup,
  type MetricDescription,
  type MetricLabels,
  type PartKey,
  type Parts,
  registerCollected,
  type Sample,
  SeriesMap,
  sample,
} from './series.ts';

interface SeriesFigures {
  /** Places in `Figures.groups`. */
  readonly groups: readonly number[];
  /** Where it is the series of all that came too late: the labels that it has, and no groups. */
  readonly overflow: MetricLabels | null;
  readonly cells: readonly (readonly [PartKey, number])[];
  readonly histograms: readonly { readonly key: PartKey; readonly counts: readonly number[]; readonly sum: number }[];
  /** How many are open now. */
  readonly open: number;
}

/** Differences to the figures before; what has not changed is left out. Crosses by structured clone. */
export interface Figures {
  readonly groups: readonly Pick<LabelGroup, 'bound' | 'pairs'>[];
  readonly families: readonly { readonly name: string; readonly series: readonly SeriesFigures[] }[];
}

type Adopt = (group: Pick<LabelGroup, 'bound' | 'pairs'>) => LabelGroup;

/** The families of one thread. */
export class Families {
  readonly #registry: Registry | null;
  readonly #exchanged = new Map<string, SeriesMap<Parts & { readonly labels: MetricLabels }>>();

  /** @param registry shows them; null in a thread that only reports. */
  constructor(registry: Registry | null) {
    this.#registry = registry;
  }

  show(description: MetricDescription, values: () => Iterable<Sample>): void {
    if (this.#registry !== null) registerCollected(this.#registry, description, values);
  }

  /** `name`: the same in every thread. */
  series<S extends Parts & { readonly labels: MetricLabels }>(
    name: string,
    make: (labels: MetricLabels) => S,
    limit?: number,
  ): SeriesMap<S> {
    const series = new SeriesMap(make, limit);
    if (this.#registry === null) series.keepGroups();
    this.#exchanged.set(name, series as unknown as SeriesMap<Parts & { readonly labels: MetricLabels }>);
    return series;
  }

  /** A counter by label groups that never expires. */
  counter(name: string, help: string): SeriesMap<Cell> {
    const family = this.series(name, (labels) => new Cell(labels));
    this.show({ name, help, type: 'counter' }, () => Array.from(family.values(), sample));
    return family;
  }

  /** What has been counted since the last call. */
  report(): Figures {
    const places = new Map<LabelGroup, number>();
    const place = (group: LabelGroup): number => {
      const known = places.get(group) ?? places.size;
      places.set(group, known);
      return known;
    };
    const families = [];
    for (const [name, map] of this.#exchanged) {
      const changed: SeriesFigures[] = [];
      for (const series of map.values()) {
        const change = changeOf(series);
        if (change === null) continue;
        const groups = map.groupsOf(series);
        const overflow = groups === undefined ? series.labels : null;
        changed.push({ ...change, overflow, groups: (groups ?? []).map(place) });
      }
      if (changed.length > 0) families.push({ name, series: changed });
    }
    return { groups: Array.from(places.keys(), ({ bound, pairs }) => ({ bound, pairs })), families };
  }

  absorb(worker: number, figures: Figures, adopt: Adopt): void {
    const groups = figures.groups.map(adopt);
    for (const { name, series } of figures.families) {
      const map = this.#exchanged.get(name);
      if (map === undefined) throw new Error(`there is no family ${name}`);
      for (const each of series) {
        const found =
          each.overflow === null
            ? map.at(...each.groups.map((at) => groups[at] as LabelGroup))
            : map.overflow(each.overflow);
        add(found, worker, each);
      }
    }
  }

  /** The worker is no more: nothing is open there. What it has counted stays. */
  forget(worker: number): void {
    for (const map of this.#exchanged.values()) for (const { elsewhere } of map.values()) elsewhere?.tell(worker, 0);
  }
}

function changeOf(series: Parts): Pick<SeriesFigures, 'cells' | 'histograms' | 'open'> | null {
  const cells: (readonly [PartKey, number])[] = [];
  for (const [key, cell] of series.cells()) {
    if (cell.value === cell.reported) continue;
    cells.push([key, cell.value - cell.reported]);
    cell.reported = cell.value;
  }
  const histograms = [];
  for (const [key, cell] of series.histograms()) {
    const change = histogramChange(cell);
    if (change !== null) histograms.push({ key, ...change });
  }
  const open = series.openHere;
  const { elsewhere } = series;
  const isChanged = cells.length > 0 || histograms.length > 0 || (elsewhere !== null && elsewhere.reported !== open);
  if (elsewhere !== null) elsewhere.reported = open;
  return isChanged ? { cells, histograms, open } : null;
}

function histogramChange(cell: HistogramCell): { readonly counts: readonly number[]; readonly sum: number } | null {
  const before = cell.reported;
  const counts = Array.from(cell.counts, (count, bucket) => count - (before?.counts[bucket] ?? 0));
  if (counts.every((count) => count === 0)) return null;
  cell.reported = { counts: cell.counts.slice(), sum: cell.sum };
  return { counts, sum: cell.sum - (before?.sum ?? 0) };
}

function add(series: Parts, worker: number, { cells, histograms, open }: SeriesFigures): void {
  // First those: by them a series knows which statuses have labels of their own.
  for (const { key, counts, sum } of histograms) {
    const cell = series.histogram(key);
    counts.forEach((count, bucket) => {
      cell.counts[bucket] = (cell.counts[bucket] ?? 0) + count;
    });
    cell.sum += sum;
  }
  for (const [key, count] of cells) series.cell(key).value += count;
  series.elsewhere?.tell(worker, open);
}
