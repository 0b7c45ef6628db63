/** What has been compared since either policy became what it is. */

import { type Agreement, agreementOf, type BesideDecision, verdictOf } from '../../policy/beside.ts';
import type { PortPolicy } from '../../policy/decision.ts';
import type { CandidateCounts } from '../../telemetry/candidate-counts.ts';
import type { Cell } from '../../telemetry/series.ts';
import type { DisagreementRow } from './disagreements.ts';

/** What was compared: `open`: a connection that carries bytes, once more, since either policy has changed. */
export type Subject = 'request' | 'connection' | 'open';

/** `unknown`: the candidate was not asked, or could not answer. */
export type ComparedAs = Agreement | 'unknown';

/** How often two verdicts met on one port. Plain, so that it can be sent from one thread to another. */
export interface Meeting {
  readonly port: number;
  readonly subject: Subject;
  readonly enforced: string;
  readonly candidate: string;
  readonly agreement: ComparedAs;
  readonly times: number;
}

/** One pair of decisions: counted without a look at either where the same request comes again. */
export class DecisionPair {
  readonly round: Round;
  readonly enforced: BesideDecision;
  readonly agreement: Agreement;
  readonly count: MeetingCount;
  /** Null until it is known, and where nothing disagrees. */
  row: DisagreementRow | null = null;

  constructor(round: Round, enforced: BesideDecision, agreement: Agreement, count: MeetingCount) {
    this.round = round;
    this.enforced = enforced;
    this.agreement = agreement;
    this.count = count;
  }

  /** All that can be known of it is. */
  get isKnown(): boolean {
    return this.row !== null || this.agreement !== 'differs';
  }
}

/** Counts for the metrics, which go on, and for this round. */
class MeetingCount {
  readonly #labels: Omit<Meeting, 'times'>;
  readonly #cell: Cell;
  #times = 0;

  constructor(labels: Omit<Meeting, 'times'>, cell: Cell) {
    this.#labels = labels;
    this.#cell = cell;
  }

  add(): void {
    this.#cell.value++;
    this.#times++;
  }

  meeting(): Meeting {
    return { ...this.#labels, times: this.#times };
  }
}

/** Decisions of a port are few and stable objects; where these pairs are more, they are found anew each time. */
const maxPairs = 4096;
/** A port scan through the redirect reaches all of them; those beyond are counted in metrics alone. */
const maxPorts = 1024;

export class Round {
  readonly #counts: CandidateCounts;
  readonly #byPort = new Map<PortPolicy, Map<string, MeetingCount>>();
  #pairs = newPairs();
  #held = 0;
  /** Requests mostly end as the one before: one comparison instead of two look-ups. */
  #last: HeldPair | null = null;

  constructor(counts: CandidateCounts) {
    this.#counts = counts;
  }

  pair(subject: Subject, policy: PortPolicy, enforced: BesideDecision, candidate: BesideDecision): DecisionPair {
    const last = this.#last;
    if (
      last !== null &&
      last.pair.enforced === enforced &&
      last.candidate === candidate &&
      last.policy === policy &&
      last.subject === subject
    ) {
      return last.pair;
    }
    const known = this.#pairs[subject].get(policy)?.get(enforced)?.get(candidate);
    if (known !== undefined) {
      this.#last = { subject, policy, candidate, pair: known };
      return known;
    }
    const agreement = agreementOf(enforced, candidate);
    const count = this.count(subject, policy, verdictOf(enforced), verdictOf(candidate), agreement);
    const pair = new DecisionPair(this, enforced, agreement, count);
    if (lasts(enforced) && lasts(candidate)) this.#hold(subject, policy, candidate, pair);
    return pair;
  }

  count(
    subject: Subject,
    policy: PortPolicy,
    enforced: string,
    candidate: string,
    agreement: ComparedAs,
  ): MeetingCount {
    let counts = this.#byPort.get(policy);
    if (counts === undefined) {
      counts = new Map();
      if (this.#byPort.size < maxPorts) this.#byPort.set(policy, counts);
    }
    const key = `${subject} ${enforced} ${candidate} ${agreement}`;
    let count = counts.get(key);
    if (count === undefined) {
      const labels = { subject, enforced, candidate, agreement };
      count = new MeetingCount({ port: policy.port, ...labels }, this.#counts.at(policy, labels));
      counts.set(key, count);
    }
    return count;
  }

  meetings(): Meeting[] {
    return [...this.#byPort.values()].flatMap((counts) => Array.from(counts.values(), (count) => count.meeting()));
  }

  #hold(subject: Subject, policy: PortPolicy, candidate: BesideDecision, pair: DecisionPair): void {
    if (++this.#held > maxPairs) {
      this.#pairs = newPairs();
      this.#held = 1;
    }
    let pairs = this.#pairs[subject].get(policy);
    if (pairs === undefined) {
      pairs = new Map();
      this.#pairs[subject].set(policy, pairs);
    }
    let others = pairs.get(pair.enforced);
    if (others === undefined) {
      others = new Map();
      pairs.set(pair.enforced, others);
    }
    others.set(candidate, pair);
  }
}

interface HeldPair {
  readonly subject: Subject;
  readonly policy: PortPolicy;
  readonly candidate: BesideDecision;
  readonly pair: DecisionPair;
}

/** By port: what counts is its own, and decisions may be those of other ports as well. */
type Pairs = Record<Subject, Map<PortPolicy, Map<BesideDecision, Map<BesideDecision, DecisionPair>>>>;

function newPairs(): Pairs {
  return { request: new Map(), connection: new Map(), open: new Map() };
}

/** The others are made anew for each request. */
function lasts({ kind }: BesideDecision): boolean {
  return kind === 'permit' || kind === 'deny' || kind === 'no-route';
}
