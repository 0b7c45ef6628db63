import { systemClock } from '../reload/clock.ts';
import { Standing } from '../reload/standing.ts';
import { type LoadListeners, standingView } from './load-listeners.ts';
import { LoadReport } from './load-report.ts';

/** What is said of loads of policy and of the pod's facts: to readiness, metrics and log, and to who asks for `/policy`. */
export class PolicyReport {
  readonly #listeners: LoadListeners;
  readonly policy: LoadReport;
  readonly #podFacts: Standing;

  /** @param generation of the policy in force; 0 before the first. */
  constructor(listeners: LoadListeners, generation: () => number) {
    this.#listeners = listeners;
    const { readiness, telemetry, logger } = listeners;
    this.policy = new LoadReport({
      what: 'Policy',
      codes: { notLoaded: 'policy-not-loaded', stale: 'policy-stale' },
      logger,
      generation,
      kept: () => (generation() === 0 ? 'nothing is authorized' : 'the last good policy stays in force'),
      loaded(at) {
        readiness.up('policy');
        telemetry.policyLoaded(generation(), at.getTime() / 1000);
      },
      failed: () => telemetry.policyLoadFailed(),
      overdue: (overdue) => telemetry.policyOverdue(overdue),
      stale(stale) {
        telemetry.stale('policy', stale);
        readiness.stale('policy', stale);
      },
      restart: () =>
        generation() === 0
          ? null
          : 'A restart now would lose that policy, and authorize nothing while the files cannot be loaded.',
    });
    this.#podFacts = new Standing({
      code: 'pod-facts-stale',
      messages: {
        still: () => 'The facts of the pod still cannot be read; keeping the previous ones',
        again: 'The facts of the pod can be read again',
      },
      fields: () => ({}),
      onChange(stale) {
        telemetry.stale('pod_facts', stale);
        readiness.stale('pod_facts', stale);
      },
      log: logger,
      clock: systemClock,
    });
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
    return { load: this.policy.view(), podFacts: standingView(this.#podFacts.state) };
  }

  stop(): void {
    this.policy.stop();
    this.#podFacts.stop();
  }
}
