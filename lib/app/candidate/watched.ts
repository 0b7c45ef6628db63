import { now } from '../../moment.ts';
import type { PolicyAuthorizer } from '../../policy/authorizer.ts';
import type { Recorder } from '../../proxy/recorder.ts';
import type { CodedLogger } from '../../telemetry/log.ts';
import type { Recording } from '../../telemetry/recording.ts';
import { openGate } from '../../telemetry/repeats.ts';
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
  telemetry: Pick<Recording, 'recorder' | 'candidateCounts'>,
  log: CodedLogger,
  shared: Pick<WorkerShare, 'nowMs' | 'gate' | 'candidate'> | null,
): Watched {
  const nowMs = shared?.nowMs ?? now;
  const lastMs = shared?.candidate?.lastMs ?? new Float64Array(1);
  const watch = new CandidateWatch({
    ...{ enforced, log, nowMs, lastMs, counts: telemetry.candidateCounts() },
    ...{ gate: shared?.gate ?? openGate, buckets: shared?.candidate?.buckets },
  });
  enforced.onChange(() => watch.enforcedChanged());
  return { watch, recorder: besideRecorder(telemetry.recorder, watch), lastMs, nowMs };
}
