import type { Problem } from '../problem.ts';
import { systemClock } from '../reload/clock.ts';
import type { LoadedPolicy } from '../reload/policy-source.ts';
import { Standing } from '../reload/standing.ts';
import { type LoadListeners, standingView } from './load-listeners.ts';

/** What is said of loads of policy and of the pod's facts: to readiness, metrics and log, and to who asks for `/policy`. */
export class PolicyReport {
  readonly #listeners: LoadListeners;
  readonly #generation: () => number;
  readonly #policy: Standing;
  readonly #podFacts: Standing;
  #loadedAt: Date | null = null;
  /** Errors of the load under way. */
  #faults: readonly string[] = [];

  /** @param generation of the policy in force; 0 before the first. */
  constructor(listeners: LoadListeners, generation: () => number) {
    this.#listeners = listeners;
    this.#generation = generation;
    const { telemetry, logger: log } = listeners;
    this.#policy = new Standing({
      code: 'policy-stale',
      messages: { still: () => `Policy still not loaded; ${this.#kept()}`, again: 'Policy files are good again' },
      fields: () => ({ generation: generation() }),
      onChange: (stale) => telemetry.stale('policy', stale),
      log,
      clock: systemClock,
    });
    this.#podFacts = new Standing({
      code: 'pod-facts-stale',
      messages: {
        still: () => 'The facts of the pod still cannot be read; keeping those of before',
        again: 'The facts of the pod can be read again',
      },
      fields: () => ({}),
      onChange: (stale) => telemetry.stale('pod_facts', stale),
      log,
      clock: systemClock,
    });
  }

  problems(problems: readonly Problem[]): void {
    const { logger } = this.#listeners;
    this.#faults = problems.filter(({ severity }) => severity === 'error').map(problemText);
    for (const { severity, message, ...where } of problems) {
      logger[severity === 'error' ? 'error' : 'warn'](where, `Policy: ${message}`);
    }
  }

  loaded({ documents, changes }: LoadedPolicy): void {
    const { readiness, telemetry, logger } = this.#listeners;
    const generation = this.#generation();
    readiness.up('policy');
    this.#loadedAt = new Date();
    telemetry.policyLoaded(generation, this.#loadedAt.getTime() / 1000);
    this.#policy.accepted();
    if (changes === 'same') logger.debug({ documents, generation }, 'Policy loaded; no document says anything else');
    else logger.info({ documents, generation, ...(changes === 'first' ? {} : changes) }, 'Policy loaded');
  }

  failed(reason: string): void {
    const { telemetry, logger } = this.#listeners;
    telemetry.policyLoadFailed();
    logger.error({ code: 'policy-not-loaded', reason }, `Policy not loaded; ${this.#kept()}`);
    this.#policy.refused(reason, this.#faults);
    this.#faults = [];
  }

  overdue(waitingFor: string | null): void {
    const { telemetry, logger } = this.#listeners;
    telemetry.policyOverdue(waitingFor !== null);
    if (waitingFor !== null)
      logger.error({ code: 'load-overdue', waitingFor }, 'Policy load overdue: it has not ended for 15 s');
    else logger.info({}, 'Policy load ended after all');
    this.#policy.overdue(waitingFor);
  }

  /** No faults: they are good again. */
  factsRefused(faults: readonly string[]): void {
    this.#listeners.telemetry.podFactsRefused(faults.length > 0);
    if (faults.length === 0) this.#podFacts.accepted();
    else this.#podFacts.refused('the files cannot be used', faults);
  }

  factsOverdue(waitingFor: string | null): void {
    this.#podFacts.overdue(waitingFor);
  }

  view(): object {
    const loadedAt = this.#loadedAt?.toISOString() ?? null;
    return {
      load: { generation: this.#generation(), loadedAt, ...standingView(this.#policy.state) },
      podFacts: standingView(this.#podFacts.state),
    };
  }

  stop(): void {
    this.#policy.stop();
    this.#podFacts.stop();
  }

  #kept(): string {
    return this.#generation() === 0 ? 'nothing is authorized' : 'the last good policy stays in force';
  }
}

function problemText({ file, line, column, message, code }: Problem): string {
  return `${file}:${line}:${column}: ${message} [${code}]`;
}
