/** How long the event loop served nobody: while it collected garbage, compiled, or did one thing for too long. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { cpuShareMeter } from '../cpu-share.ts';
import type { Families } from './figures.ts';
import { type Cell, HistogramCell, histogramSamples, type MetricLabels, type PartKey, type Parts } from './series.ts';

const name = 'sallyport_event_loop_pause_seconds';
const bounds = [0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 1];

/** A native timer is due as often, and its lateness is a pause, to within this time. */
const everyNanos = 1e6;
/**
 * Under this share of a processor the timer rests: a thousand turns a second for nothing would cost a sleeping process one
 * percent of a core. It is more than the timer's own share, or that would keep it going.
 */
const quietShare = 0.03;
const lookEveryMs = 1000;

interface Delays {
  enable(): boolean;
  disable(): boolean;
  reset(): void;
  readonly count: number;
  readonly mean: number;
  /** The share of samples up to so many nanoseconds. Node 26 has it; what an older one tells is too coarse to count with. */
  cdf?(nanos: number): number;
}

/** Of one thread, for as long as it runs. */
class PauseWatch {
  readonly cell = new HistogramCell({}, bounds);
  readonly #delays: Delays;
  #on = false;
  readonly #busy = cpuShareMeter();

  constructor(delays: Delays) {
    this.#delays = delays;
  }

  look(): void {
    const busy = this.#busy();
    if (this.#on) this.#take();
    if (busy < quietShare === this.#on) this.#switch();
  }

  #switch(): void {
    if (this.#on) this.#delays.disable();
    else this.#delays.enable();
    this.#on = !this.#on;
  }

  #take(): void {
    const { count, mean } = this.#delays;
    if (count === 0) return;
    const { cell } = this;
    let below = 0;
    for (const [bucket, bound] of bounds.entries()) {
      const upTo = Math.round((this.#delays.cdf?.(bound * 1e9 + everyNanos) ?? 1) * count);
      cell.counts[bucket] = (cell.counts[bucket] as number) + upTo - below;
      below = upTo;
    }
    cell.counts[bounds.length] = (cell.counts[bounds.length] as number) + count - below;
    cell.sum += Math.max(0, ((mean - everyNanos) * count) / 1e9);
    this.#delays.reset();
  }
}

let watch: PauseWatch | null = null;

/** Null where Node cannot tell. */
function watched(): PauseWatch | null {
  if (watch !== null) return watch;
  const delays: Delays = monitorEventLoopDelay({ resolution: everyNanos / 1e6 });
  if (delays.cdf === undefined) return null;
  const made = new PauseWatch(delays);
  setInterval(() => made.look(), lookEveryMs).unref();
  watch = made;
  return made;
}

/** The pauses of a thread, and of the others. */
class PauseSeries implements Parts {
  readonly labels: MetricLabels;
  readonly #cell: HistogramCell;

  constructor(cell: HistogramCell) {
    this.#cell = cell;
    this.labels = cell.labels;
  }

  cells(): readonly [] {
    return [];
  }
  cell(): Cell {
    throw new Error('pauses have no counter');
  }
  histograms(): readonly (readonly [PartKey, HistogramCell])[] {
    return [['', this.#cell]];
  }
  histogram(): HistogramCell {
    return this.#cell;
  }
  get openHere(): number {
    return 0;
  }
  get elsewhere(): null {
    return null;
  }
}

export function pauseMetrics(families: Families): void {
  const of = watched();
  if (of === null) return;
  families.series(name, () => new PauseSeries(of.cell)).at();
  const help = 'How late the event loop came to a timer that is due each millisecond, while the process is not idle.';
  families.show({ name, help, type: 'histogram' }, () => histogramSamples(name, of.cell));
}
