import type { Config } from '../../config/config.ts';
import type { PolicyAuthorizer } from '../../policy/authorizer.ts';
import type { Recorder } from '../../proxy/recorder.ts';
import type { PodFactsSource } from '../../reload/pod-facts.ts';
import { createPolicySource } from '../../reload/policy-source.ts';
import { candidateMetrics } from '../../telemetry/candidate-metrics.ts';
import type { LoadListeners } from '../load-listeners.ts';
import { LoadReport } from '../load-report.ts';
import { podStateOf } from '../workers/messages.ts';
import type { WorkerShare } from '../workers/shared.ts';
import type { Workers } from '../workers/workers.ts';
import { type CandidatePage, pageOf, pageText } from './page.ts';
import { watchBeside } from './watched.ts';

/** The candidate policy of the process, with its part in the main thread. */
export interface FollowedCandidate {
  /** For the data plane of this thread. */
  readonly recorder: Recorder;
  /** For the admin server. */
  page(): Promise<CandidatePage>;
  text(): Promise<string>;
  podChanged(): void;
  /** Begins to load and to watch; nobody waits for it. */
  start(): void;
  reload(): void;
  stop(): Promise<void>;
}

export interface CandidateParts {
  readonly config: Pick<Config, 'candidatePath'>;
  readonly enforced: PolicyAuthorizer;
  readonly podFacts: Pick<PodFactsSource, 'current'>;
  readonly listeners: Pick<LoadListeners, 'telemetry' | 'logger'>;
  readonly workers: Pick<Workers, 'change' | 'compared'>;
  readonly shared: WorkerShare | null;
}

/** A second policy, which is loaded, watched, reloaded and kept as the policy is, and decides nothing. */
export function followCandidate({
  config,
  enforced,
  podFacts,
  listeners,
  workers,
  shared,
}: CandidateParts): FollowedCandidate {
  const { telemetry, logger } = listeners;
  const { watch, recorder, lastMs, nowMs } = watchBeside(enforced, telemetry, shared);
  let loadErrors = 0;
  /** Since when the two policies are what they are. */
  let sinceMs = 0;
  const report = new LoadReport({
    what: 'Candidate policy',
    codes: { notLoaded: 'candidate-not-loaded', stale: 'candidate-stale' },
    logger,
    generation: () => watch.generation,
    kept: () => (watch.isLoaded ? 'the last good one stays' : 'none is decided beside the policy in force'),
    failed: () => loadErrors++,
  });
  const begin = (): void => {
    sinceMs = nowMs();
  };
  enforced.onChange(begin);
  const source = createPolicySource({
    path: config.candidatePath,
    workload: () => podFacts.current(),
    swap: (next, documents, workload) =>
      workers.change({ kind: 'candidate', documents, pod: podStateOf(workload) }, () => {
        watch.swap(next, documents.length);
        begin();
      }),
    onProblems: (problems) => report.problems(problems),
    onLoaded: (load) => report.loaded(load),
    onFailed: (reason) => report.failed(reason),
    onRemoved: ({ files, documents }) => logger.info({ files, documents }, 'Candidate policy documents removed'),
    onOverdue: (waitingFor) => report.overdue(waitingFor),
    log: logger,
  });
  const agreementSeconds = (): number | null =>
    !watch.isLoaded ? null : Math.max(0, nowMs() - Math.max(sinceMs, lastMs[0] ?? 0)) / 1000;
  candidateMetrics(telemetry.registry, {
    get isLoaded() {
      return watch.isLoaded;
    },
    get isStale() {
      return report.isStale;
    },
    get loadErrors() {
      return loadErrors;
    },
    agreementSeconds,
  });
  const page = async (): Promise<CandidatePage> => {
    const compared = [watch.compared(), ...(await workers.compared())];
    return pageOf({
      path: config.candidatePath ?? '',
      load: report.view(),
      sinceMs: !watch.isLoaded ? null : Date.now() - (nowMs() - sinceMs),
      agreementSeconds: agreementSeconds(),
      compared,
    });
  };
  return {
    recorder,
    page,
    text: async () => pageText(await page()),
    podChanged: () => void source.workloadChanged(),
    reload: () => void source.reload(),
    start() {
      source.start().catch((error: unknown) => report.failed(error instanceof Error ? error.message : String(error)));
    },
    async stop() {
      report.stop();
      await source.stop();
    },
  };
}
