import { now as momentNow } from '../moment.ts';
import { Families, type Figures } from './figures.ts';
import { createRecording, type Recording, type RecordingOptions } from './recording.ts';

/** Telemetry of a further worker, whose figures the main thread shows. */
export interface WorkerTelemetry extends Pick<Recording, 'recorder' | 'lines' | 'candidateCounts'> {
  /** What has been counted since the last call: to be taken in by `Telemetry.absorb`, once. */
  report(): Figures;
}

export interface WorkerTelemetryOptions extends Omit<RecordingOptions, 'now'> {
  /** Lines of this thread dropped so far. */
  readonly droppedLogLines: () => number;
  /** Monotonic milliseconds; tests bring their own. */
  readonly now?: () => number;
}

export function createWorkerTelemetry(options: WorkerTelemetryOptions): WorkerTelemetry {
  const families = new Families(null);
  const recording = createRecording(families, { ...options, now: options.now ?? momentNow });
  return {
    recorder: recording.recorder,
    lines: recording.lines,
    candidateCounts: recording.candidateCounts,
    report() {
      recording.droppedLines.value = options.droppedLogLines();
      const figures = families.report();
      recording.expireIdle();
      return figures;
    },
  };
}
