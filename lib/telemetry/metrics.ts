/**
 * Telemetry of the whole process: the data plane's `Recorder`, and Linkerd's inbound metrics with their names, labels
 * and buckets, so that its dashboards and `viz` queries work unchanged.
 */

import { now as momentNow } from '../moment.ts';
import { expositionText } from './exposition-text.ts';
import { Families, type Figures } from './figures.ts';
import { type LoadMetrics, loadMetrics } from './load-metrics.ts';
import { ProcessMetrics } from './process-metrics.ts';
import { createRecording, type Recording, type RecordingOptions } from './recording.ts';
import { Registry } from './registry.ts';
import { gaugeSample, registerCollected } from './series.ts';

export interface Build {
  readonly version: string;
  /** Empty where unknown. */
  readonly gitSha: string;
  /** ISO date; empty where unknown. */
  readonly date: string;
}

export interface TelemetryOptions extends Omit<RecordingOptions, 'now'> {
  readonly build: Build;
  /** When the process started, in Unix seconds. */
  readonly processStart: number;
  /** Lines that the log had to drop so far; shown as a counter. */
  readonly droppedLogLines?: () => number;
  /** Writes of log lines that failed so far, by the system's code. */
  readonly failedLogWrites?: () => ReadonlyMap<string, number>;
  /** Lines that wait to be written now. */
  readonly waitingLogLines?: () => number;
  /** Monotonic milliseconds; tests bring their own. */
  readonly now?: () => number;
}

export interface Exposition {
  readonly contentType: string;
  readonly body: string;
}

export interface Telemetry
  extends LoadMetrics,
    Pick<Recording, 'recorder' | 'lines' | 'candidateCounts' | 'recordsLost'> {
  readonly registry: Registry;
  /** Also forgets what has been idle for ten minutes. */
  exposition(): Promise<Exposition>;
  /** What another thread has counted, see worker-telemetry.ts, is added to what this one has. */
  absorb(worker: number, figures: Figures): void;
  /** That thread is over: nothing is open there. What it has counted stays. */
  forget(worker: number): void;
}

export function createTelemetry(options: TelemetryOptions): Telemetry {
  const now = options.now ?? momentNow;
  const registry = new Registry();
  const families = new Families(registry);
  const recording = createRecording(families, { ...options, now });
  const processMetrics = new ProcessMetrics(registry, options.processStart, now);
  buildMetrics(registry, options.build);
  logMetrics(registry, options, recording.droppedLines);
  return {
    recorder: recording.recorder,
    lines: recording.lines,
    candidateCounts: recording.candidateCounts,
    recordsLost: recording.recordsLost,
    registry,
    async exposition() {
      await processMetrics.read();
      recording.expireIdle();
      return { contentType: registry.contentType, body: await expositionText(registry) };
    },
    absorb: (worker, figures) => families.absorb(worker, figures, recording.adopt),
    forget: (worker) => families.forget(worker),
    ...loadMetrics(registry),
  };
}

function logMetrics(
  registry: Registry,
  {
    droppedLogLines,
    failedLogWrites,
    waitingLogLines,
  }: Pick<TelemetryOptions, 'droppedLogLines' | 'failedLogWrites' | 'waitingLogLines'>,
  droppedElsewhere: { readonly value: number },
): void {
  registerCollected(
    registry,
    {
      name: 'sallyport_log_lines_dropped_total',
      help: 'Log lines dropped because their reader was too slow.',
      type: 'counter',
    },
    () => [gaugeSample((droppedLogLines?.() ?? 0) + droppedElsewhere.value)],
  );
  registerCollected(
    registry,
    {
      name: 'sallyport_log_waiting_lines',
      help: 'Log lines that wait for a reader that stands still, or for room.',
      type: 'gauge',
    },
    () => [gaugeSample(waitingLogLines?.() ?? 0)],
  );
  registerCollected(
    registry,
    {
      name: 'sallyport_log_write_failures_total',
      help: 'Writes of log lines that failed, by the code of the system; what was to be written waits.',
      type: 'counter',
    },
    () => Array.from(failedLogWrites?.() ?? [], ([errno, value]) => gaugeSample(value, { errno })),
  );
}

function buildMetrics(registry: Registry, build: Build): void {
  const linkerd = {
    date: build.date,
    git_sha: build.gitSha,
    profile: 'release',
    vendor: 'sallyport',
    version: build.version,
  };
  registerCollected(
    registry,
    { name: 'proxy_build_info', help: 'The build, under the name and labels that Linkerd uses.', type: 'gauge' },
    () => [gaugeSample(1, linkerd)],
  );
  const own = { version: build.version, git_sha: build.gitSha, node: process.version };
  registerCollected(
    registry,
    { name: 'sallyport_build_info', help: 'The build of Sallyport and the Node it runs on.', type: 'gauge' },
    () => [gaugeSample(1, own)],
  );
}
