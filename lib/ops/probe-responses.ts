/** What `/live` and `/ready` say; the admin and the health server say the same. */
import type { ReadyState } from './readiness.ts';

export interface ProbeResponse {
  readonly status: 200 | 503;
  readonly body: string;
}

/** @param sound false when this process is broken beyond what it can mend itself. */
export function liveResponse(sound: boolean): ProbeResponse {
  return sound ? { status: 200, body: 'live\n' } : { status: 503, body: 'not live: internal-errors\n' };
}

export function readyResponse(state: ReadyState): ProbeResponse {
  const doubts = state.doubts.map((doubt) => `${doubt}\n`).join('');
  if (state.ready) return { status: 200, body: `ready\n${doubts}` };
  return { status: 503, body: `not ready: ${state.missing.join(', ')}\n${doubts}` };
}
