import type { Readiness } from '../ops/readiness.ts';
import type { StandingState } from '../reload/standing.ts';
import type { CodedLogger } from '../telemetry/log.ts';
import type { Telemetry } from '../telemetry/metrics.ts';

/** What is informed about each load of policy, credentials or the pod's facts. */
export interface LoadListeners {
  readonly readiness: Readiness;
  readonly telemetry: Telemetry;
  readonly logger: CodedLogger;
}

/** For `/policy`: since when, and why, what is in force is not what the files hold. */
export function standingView(state: StandingState): { readonly stale: object | null } {
  if (state.kind === 'current') return { stale: null };
  const { since, reason, faults } = state;
  const seconds = Math.max(0, Math.round((Date.now() - since.getTime()) / 1000));
  return { stale: { since: since.toISOString(), seconds, reason, faults } };
}
