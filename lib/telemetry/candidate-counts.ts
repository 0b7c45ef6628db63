import type { PortPolicy } from '../policy/decision.ts';
import type { Families } from './figures.ts';
import type { LabelStore } from './labels.ts';
import { type Cell, constantGroup, type SeriesMap } from './series.ts';

/** Words of the program, of which there are few. */
export interface CandidateLabels {
  readonly subject: string;
  readonly enforced: string;
  readonly candidate: string;
  readonly agreement: string;
}

/** What the policy in force and the candidate have decided of the same things: counted by both verdicts. */
export class CandidateCounts {
  readonly #decisions: SeriesMap<Cell>;
  readonly #labels: LabelStore;

  constructor(families: Families, labels: LabelStore) {
    this.#labels = labels;
    this.#decisions = families.counter(
      'sallyport_candidate_decisions_total',
      'Decisions of the policy in force, beside what the candidate policy would have decided.',
    );
  }

  /** @param policy the port's, in force. */
  at(policy: PortPolicy, { subject, enforced, candidate, agreement }: CandidateLabels): Cell {
    return this.#decisions.at(constantGroup({ subject, enforced, candidate, agreement }), this.#labels.server(policy));
  }
}
