import { now } from '../../moment.ts';
import type { PolicyAuthorizer } from '../../policy/authorizer.ts';
import type { Recorder } from '../../proxy/recorder.ts';
import type { Recording } from '../../telemetry/recording.ts';
import type { WorkerShare } from '../workers/shared.ts';
import { besideRecorder } from './beside-recorder.ts';
import { CandidateWatch } from './watch.ts';

/** The candidate policy in one thread. */
export interface Watched {
  readonly watch: CandidateWatch;
  /** For the data plane. */
  readonly recorder: Recorder;
  readonly lastMs: Float64Array;
  readonly nowMs: () => number;
}

/** @param shared null where one thread serves alone. */
export function watchBeside(
  enforced: PolicyAuthorizer,
  telemetry: Pick<Recording, 'recorder' | 'lines' | 'candidateCounts'>,
  shared: Pick<WorkerShare, 'nowMs' | 'candidate'> | null,
): Watched {
  const nowMs = shared?.nowMs ?? now;
  const lastMs = shared?.candidate?.lastMs ?? new Float64Array(1);
  const watch = new CandidateWatch({
    ...{ enforced, lines: telemetry.lines, nowMs, lastMs, counts: telemetry.candidateCounts() },
    buckets: shared?.candidate?.buckets,
  });
  enforced.onChange(() => watch.enforcedChanged());
  return { watch, recorder: besideRecorder(telemetry.recorder, watch), lastMs, nowMs };
}
