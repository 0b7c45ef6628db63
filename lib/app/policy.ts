import type { Config } from '../config/config.ts';
import type { Host } from '../config/host.ts';
import type { Environment } from '../config/variables.ts';
import { now } from '../moment.ts';
import { createAuthorizer, type PolicyAuthorizer } from '../policy/authorizer.ts';
import type { PolicyIndex } from '../policy/compile/compile.ts';
import { effectivePolicy } from '../policy/effective.ts';
import { createPodFacts, type PodFactsSource } from '../reload/pod-facts.ts';
import { createPolicySource } from '../reload/policy-source.ts';
import type { LoadListeners } from './load-listeners.ts';
import { PolicyReport } from './policy-report.ts';
import { PortLines } from './port-lines.ts';
import { podStateOf } from './workers/messages.ts';
import type { WorkerShare } from './workers/shared.ts';
import type { Workers } from './workers/workers.ts';

export interface FollowedPolicy {
  readonly authorizer: PolicyAuthorizer;
  readonly podFacts: PodFactsSource;
  /** For the admin server: the effective policy, without ports before there is one, and how its last load went. */
  effective(): object;
  start(): Promise<void>;
  /** The files of policy, and those of the pod's facts. */
  reload(): void;
  stop(): Promise<void>;
}

export interface PolicyOptions {
  readonly config: Config;
  readonly env: Environment;
  readonly host: Host;
}

/**
 * Policy: files → index → authorizer; and the pod's facts, for which it is compiled.
 *
 * @param onPod called when they have changed, for whatever else is compiled for them.
 */
export function followPolicy(
  { config, env, host }: PolicyOptions,
  listeners: LoadListeners,
  workers: Pick<Workers, 'change' | 'pod'>,
  shared: Pick<WorkerShare, 'nowMs' | 'buckets'> | null,
  onPod: () => void,
): FollowedPolicy {
  const { logger } = listeners;
  const authorizer = createAuthorizer(shared ?? { nowMs: now });
  let index: PolicyIndex | null = null;
  const lines = new PortLines(config, logger);
  const report = new PolicyReport(listeners, () => authorizer.generation);
  const podFacts = createPodFacts({
    env,
    initial: config.workload,
    warned: config.warnings,
    host,
    onChange: (workload) => {
      workers.pod(podStateOf(workload));
      void source.workloadChanged();
      onPod();
    },
    onRefused: (faults) => report.factsRefused(faults),
    onOverdue: (waitingFor) => report.factsOverdue(waitingFor),
    log: logger,
  });
  const source = createPolicySource({
    path: config.policyPath,
    workload: () => podFacts.current(),
    swap: (next, documents, workload) =>
      workers.change({ kind: 'policy', documents, pod: podStateOf(workload) }, () => {
        index = next;
        authorizer.swap(next);
        lines.tell(next, podFacts.current());
      }),
    onProblems: (problems) => report.policy.problems(problems),
    onLoaded: (load) => report.policy.loaded(load),
    onFailed: (reason) => report.policy.failed(reason),
    onRemoved: (removal) => logger.warn({ code: 'documents-removed', ...removal }, 'Policy documents removed'),
    onWaiting: (from, waitMs) =>
      logger.info({ from, waitMs }, 'Policy change seen: what is gone counts as removed once its folder is quiet'),
    onOverdue: (waitingFor) => report.policy.overdue(waitingFor),
    log: logger,
  });
  return {
    authorizer,
    podFacts,
    effective: () => ({ ...report.view(), ...(index === null ? {} : effectivePolicy(index, podFacts.current())) }),
    async start() {
      await source.start();
      podFacts.start();
    },
    reload() {
      void podFacts.refresh();
      void source.reload();
    },
    async stop() {
      report.stop();
      await Promise.allSettled([source.stop(), podFacts.stop()]);
    },
  };
}
