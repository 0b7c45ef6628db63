/** What has been compared since either policy became what it is. */

import { type Agreement, agreementOf, type BesideDecision, verdictOf } from '../../policy/beside.ts';
import type { PortPolicy } from '../../policy/decision.ts';
import type { CandidateCounts } from '../../telemetry/candidate-counts.ts';
import type { Cell } from '../../telemetry/series.ts';
import type { DisagreementRow } from './disagreements.ts';

/** What was compared: `open`: a connection that carries bytes, once more, since either policy has changed. */
export type Subject = 'request' | 'connection' | 'open';

/** How often two verdicts met on one port. Plain, so that it can be sent from one thread to another. */
export interface Meeting {
  readonly port: number;
  readonly subject: Subject;
  readonly enforced: string;
  readonly candidate: string;
  readonly agreement: Agreement;
  readonly times: number;
}

/** One pair of decisions: counted without a look at either where the same request comes again. */
export class DecisionPair {
  readonly round: Round;
  readonly enforced: BesideDecision;
  readonly agreement: Agreement;
  readonly #count: MeetingCount;

  constructor(round: Round, enforced: BesideDecision, agreement: Agreement, count: MeetingCount) {
    this.round = round;
    this.enforced = enforced;
    this.agreement = agreement;
    this.#count = count;
  }

  /** Null until it is known, and where nothing disagrees. */
  row: DisagreementRow | null = null;

  /** All that can be known of it is. */
  get isKnown(): boolean {
    return this.row !== null || this.agreement !== 'differs';
  }

  add(): void {
    this.#count.cell.value++;
    this.#count.times++;
  }
}

interface MeetingCount extends Omit<Meeting, 'times'> {
  readonly cell: Cell;
  times: number;
}

/** Decisions of a port are few and stable objects; where these pairs are more, they are found anew each time. */
const maxTallies = 4096;
/** A port scan through the redirect reaches all of them; those beyond are counted in metrics alone. */
const maxPorts = 1024;

export class Round {
  readonly #counts: CandidateCounts;
  readonly #byPort = new Map<PortPolicy, Map<string, MeetingCount>>();
  #tallies = newTallies();
  #held = 0;

  constructor(counts: CandidateCounts) {
    this.#counts = counts;
  }

  tally(subject: Subject, policy: PortPolicy, enforced: BesideDecision, candidate: BesideDecision): DecisionPair {
    const known = this.#tallies[subject].get(enforced)?.get(candidate);
    if (known !== undefined) return known;
    const agreement = agreementOf(enforced, candidate);
    const count = this.count(subject, policy, verdictOf(enforced), verdictOf(candidate), agreement);
    const tally = new DecisionPair(this, enforced, agreement, count);
    if (lasts(enforced) && lasts(candidate)) this.#hold(subject, candidate, tally);
    return tally;
  }

  count(subject: Subject, policy: PortPolicy, enforced: string, candidate: string, agreement: Agreement): MeetingCount {
    let counts = this.#byPort.get(policy);
    if (counts === undefined) {
      counts = new Map();
      if (this.#byPort.size < maxPorts) this.#byPort.set(policy, counts);
    }
    const key = `${subject} ${enforced} ${candidate} ${agreement}`;
    let count = counts.get(key);
    if (count === undefined) {
      const labels = { subject, enforced, candidate, agreement };
      count = { port: policy.port, ...labels, cell: this.#counts.at(policy, labels), times: 0 };
      counts.set(key, count);
    }
    return count;
  }

  meetings(): Meeting[] {
    return [...this.#byPort.values()].flatMap((counts) =>
      Array.from(counts.values(), ({ cell: _cell, ...meeting }) => meeting),
    );
  }

  #hold(subject: Subject, candidate: BesideDecision, tally: DecisionPair): void {
    if (++this.#held > maxTallies) {
      this.#tallies = newTallies();
      this.#held = 1;
    }
    const tallies = this.#tallies[subject];
    let others = tallies.get(tally.enforced);
    if (others === undefined) {
      others = new Map();
      tallies.set(tally.enforced, others);
    }
    others.set(candidate, tally);
  }
}

type Tallies = Record<Subject, Map<BesideDecision, Map<BesideDecision, DecisionPair>>>;

function newTallies(): Tallies {
  return { request: new Map(), connection: new Map(), open: new Map() };
}

/** The others are made anew for each request. */
function lasts({ kind }: BesideDecision): boolean {
  return kind === 'permit' || kind === 'deny' || kind === 'no-route';
}
