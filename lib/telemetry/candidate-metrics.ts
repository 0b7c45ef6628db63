import type { Registry } from 'prom-client';
import { gaugeSample, registerCollected } from './series.ts';

export interface CandidateView {
  /** A candidate is decided beside the policy in force. */
  readonly isLoaded: boolean;
  /** What it was made of is not what the files hold. */
  readonly isStale: boolean;
  readonly loadErrors: number;
  /** Seconds since the last disagreement, or since either policy became what it is, whichever is later; null while none is loaded. */
  agreementSeconds(): number | null;
}

/** How the candidate policy fares. Only where there is one. */
export function candidateMetrics(registry: Registry, view: CandidateView): void {
  registerCollected(
    registry,
    {
      name: 'sallyport_candidate_loaded',
      help: '1 while a candidate policy is decided beside the one in force.',
      type: 'gauge',
    },
    () => [gaugeSample(Number(view.isLoaded))],
  );
  registerCollected(
    registry,
    {
      name: 'sallyport_candidate_stale',
      help: '1 while the candidate policy is not what its files hold: a load was bad, or does not end.',
      type: 'gauge',
    },
    () => [gaugeSample(Number(view.isStale))],
  );
  registerCollected(
    registry,
    {
      name: 'sallyport_candidate_load_errors_total',
      help: 'Candidate policies that did not load.',
      type: 'counter',
    },
    () => [gaugeSample(view.loadErrors)],
  );
  registerCollected(
    registry,
    {
      name: 'sallyport_candidate_agreement_seconds',
      help: 'Seconds since the candidate last disagreed, or since either policy changed; none while no candidate is loaded.',
      type: 'gauge',
    },
    () => {
      const seconds = view.agreementSeconds();
      return seconds === null ? [] : [gaugeSample(seconds)];
    },
  );
}
