import type { CodedLog } from '../errors/complaint.ts';
import type { Readiness } from '../ops/readiness.ts';
import type { Telemetry } from '../telemetry/metrics.ts';

/** What is informed about each load of policy, credentials or the pod's facts. */
export interface LoadListeners {
  readonly readiness: Readiness;
  readonly telemetry: Telemetry;
  readonly logger: CodedLog;
}
