import type { BesideDecision } from '../../policy/beside.ts';
import { verdictOf } from '../../policy/beside.ts';
import type { PortPolicy } from '../../policy/decision.ts';
import type { ClientLines } from '../../telemetry/client-lines.ts';
import type { Round, Subject } from './round.ts';
import { TimeShare } from './time-share.ts';

/** What the policy in force has decided, and the candidate is to be asked about. */
export interface EnforcedDecision {
  readonly round: Round;
  readonly subject: Subject;
  readonly policy: PortPolicy;
  readonly decision: BesideDecision;
}

export interface ContainmentOptions {
  readonly lines: ClientLines;
  /** Something has not been compared. */
  readonly onUnknown: () => void;
}

/**
 * Two readings of a clock cost as much as the decision between them, so after one that took no time up to so many are not
 * timed: how many is left to chance, so that no client can choose which, and the next one stands for them.
 */
const mostUntimed = 14;

/** Whoever has asked. */
const anybody = { cause: '', client: '' };

/**
 * What surrounds the candidate whenever it is asked: no exception leaves, and no more than its share of time is taken. What it
 * could not be asked, or could not answer, is counted as such.
 */
export class Containment {
  readonly #options: ContainmentOptions;
  readonly #share = new TimeShare();
  #untimed = 0;
  /** As many decisions as the next timed one stands for. */
  #standsFor = 1;

  constructor(options: ContainmentOptions) {
    this.#options = options;
  }

  ask<Decided extends EnforcedDecision>(decided: Decided, work: (decided: Decided) => void): void {
    if (this.#untimed > 0) {
      this.#untimed--;
      this.#contain(decided, work);
      return;
    }
    const from = Date.now();
    const isLeft = this.#share.isLeft(from);
    this.#contain(decided, isLeft ? work : this.#omit);
    const to = Date.now();
    this.#share.spent(from, to, this.#standsFor);
    this.#untimed = isLeft && to === from ? Math.floor(Math.random() * (mostUntimed + 1)) : 0;
    this.#standsFor = 1 + this.#untimed;
  }

  #contain<Decided extends EnforcedDecision>(decided: Decided, work: (decided: Decided) => void): void {
    try {
      work(decided);
    } catch (error) {
      this.failed(decided, error);
    }
  }

  readonly #omit = (decided: EnforcedDecision): void => {
    this.#count(decided, 'unasked');
    const message = 'The candidate policy takes too long, and is not asked about everything';
    this.#options.lines.tell(message, anybody, () => ({ code: 'candidate-slow' }));
  };

  /** The exception is the candidate's alone: what was decided stands, and nobody else hears of it. */
  failed(decided: EnforcedDecision, error: unknown): void {
    try {
      this.#count(decided, 'error');
      this.tell(error);
    } catch {
      // The log has failed, too: there is nobody left to tell, and the request goes on.
    }
  }

  tell(error: unknown): void {
    const message = 'Deciding by the candidate policy failed; the policy in force is not concerned';
    this.#options.lines.tell(message, anybody, () => {
      if (!(error instanceof Error)) return { code: 'candidate-failed', error: String(error) };
      return { code: 'candidate-failed', error: error.stack ?? error.message };
    });
  }

  #count({ round, subject, policy, decision }: EnforcedDecision, candidate: 'error' | 'unasked'): void {
    round.count(subject, policy, verdictOf(decision), candidate, 'unknown').add();
    this.#options.onUnknown();
  }
}
