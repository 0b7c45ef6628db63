import type { Config } from '../config/config.ts';
import type { Host } from '../config/host.ts';
import type { Environment } from '../config/variables.ts';
import { createAuthorizer, type PolicyAuthorizer } from '../policy/authorizer.ts';
import type { PolicyIndex } from '../policy/compile/compile.ts';
import { effectivePolicy } from '../policy/effective.ts';
import { createPodFacts, type PodFactsSource } from '../reload/pod-facts.ts';
import { createPolicySource } from '../reload/policy-source.ts';
import type { LoadListeners } from './load-listeners.ts';
import { PortLines } from './port-lines.ts';

export interface FollowedPolicy {
  readonly authorizer: PolicyAuthorizer;
  readonly podFacts: PodFactsSource;
  /** The effective policy for the admin server; null before there is one. */
  effective(): unknown;
  start(): Promise<void>;
  stop(): Promise<void>;
}

export interface PolicyOptions {
  readonly config: Config;
  readonly env: Environment;
  readonly host: Host;
}

/** Policy: files → index → authorizer; and the pod's facts, for which it is compiled. */
export function followPolicy(
  { config, env, host }: PolicyOptions,
  { readiness, telemetry, logger }: LoadListeners,
): FollowedPolicy {
  const authorizer = createAuthorizer({ nowMs: () => performance.now() });
  let index: PolicyIndex | null = null;
  const lines = new PortLines(config, logger);
  const podFacts = createPodFacts({
    env,
    initial: config.workload,
    host,
    onChange: () => void source.workloadChanged(),
    onRefused: (refused) => telemetry.podFactsRefused(refused),
    log: logger,
  });
  const source = createPolicySource({
    path: config.policyPath,
    workload: () => podFacts.current(),
    swap: (next) => {
      index = next;
      authorizer.swap(next);
      lines.tell(next, podFacts.current());
    },
    onProblems: (problems) => {
      for (const { severity, message, ...where } of problems) {
        logger[severity === 'error' ? 'error' : 'warn'](where, `Policy: ${message}`);
      }
    },
    onLoaded: ({ documents, changed }) => {
      readiness.up('policy');
      telemetry.policyLoaded(authorizer.generation, Date.now() / 1000);
      if (changed) logger.info({ documents, generation: authorizer.generation }, 'Policy loaded');
    },
    onFailed: (reason) => {
      telemetry.policyLoadFailed();
      const kept = authorizer.generation === 0 ? 'nothing is authorized' : 'the last good policy stays in force';
      logger.error({ code: 'policy-not-loaded', reason }, `Policy not loaded; ${kept}`);
    },
    onRemoved: (removal) => logger.warn({ code: 'documents-removed', ...removal }, 'Policy documents removed'),
    onOverdue: (waitingFor) => {
      telemetry.policyOverdue(waitingFor !== null);
      if (waitingFor !== null)
        logger.error({ code: 'load-overdue', waitingFor }, 'Policy load overdue: it has not ended for 15 s');
      else logger.info({}, 'Policy load ended after all');
    },
    log: logger,
  });
  return {
    authorizer,
    podFacts,
    effective: () => (index === null ? null : effectivePolicy(index, podFacts.current())),
    async start() {
      await source.start();
      podFacts.start();
    },
    async stop() {
      await Promise.allSettled([source.stop(), podFacts.stop()]);
    },
  };
}
