import type { Complaint } from '../lib/errors/complaint.ts';
import { authorizerOf } from '../lib/policy/authorizer.ts';
import type { Authorizer } from '../lib/policy/decision.ts';
import type { DecisionRecord, GivenQuestion } from '../lib/records/record.ts';
import { answerTo } from '../lib/replay/answer.ts';
import { questionOfRecord, WantedValues } from '../lib/replay/hashed.ts';
import type { ExplainedPolicy } from './explain-policy.ts';
import { portOf } from './replay.ts';

/** Lines of a log as questions, so that `explain` answers them as `replay` does. */
export class LoggedQuestions {
  /** Beside the one that answers: what is asked of this one spends no rate limit of that. */
  readonly #authorizer: Authorizer;
  readonly #wanted: WantedValues;
  readonly #policy: ExplainedPolicy;
  readonly #port: string | null;

  /** @param port for lines that do not say theirs. */
  constructor(policy: ExplainedPolicy, port: string | null) {
    let nowMs = 0;
    this.#authorizer = authorizerOf(policy.index, () => (nowMs += 3_600_000));
    this.#wanted = new WantedValues(policy.documents);
    this.#policy = policy;
    this.#port = port;
  }

  questionOf(record: DecisionRecord): GivenQuestion {
    const question = questionOfRecord(record, this.#wanted);
    // Of a connection that was refused at once nobody knows what would have come on it: asked is whether it would be, still.
    return question.protocol === 'accept' ? { ...question, protocol: 'tcp' } : question;
  }

  /** What the answer lacks. */
  notesOf(record: DecisionRecord): readonly Complaint[] {
    if (record.question.protocol === 'accept') return [];
    const answer = answerTo(
      this.#authorizer,
      record,
      (given) => portOf(given ?? this.#port, this.#policy.workload),
      this.#wanted,
    );
    if (answer.kind === 'decided') return [];
    const message = `the line does not hold ${answer.lacks}: this answer is a guess`;
    return [{ code: 'line-lacks', message, hint: 'record decisions with SALLYPORT_DECISIONS=all' }];
  }
}
