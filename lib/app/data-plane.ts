import type { Socket } from 'node:net';
import type { Config } from '../config/config.ts';
import type { PolicyAuthorizer } from '../policy/authorizer.ts';
import type { OwnEndpoints } from '../proxy/accept/own-endpoints.ts';
import type { ConnectionServices } from '../proxy/connection-services.ts';
import { BufferBudget } from '../proxy/fairness/buffer-budget.ts';
import { LiveConnections } from '../proxy/fairness/live-connections.ts';
import { guarded } from '../proxy/guard.ts';
import { RequestPipeline } from '../proxy/http/request-pipeline.ts';
import { FastLane } from '../proxy/http1/fast/lane.ts';
import { LibraryLane } from '../proxy/http1/library/lane.ts';
import { Http2Lane } from '../proxy/http2/lane.ts';
import { shareOf } from '../proxy/limits.ts';
import type { ProbeTls } from '../proxy/probe-tls.ts';
import type { Recorder } from '../proxy/recorder.ts';
import type { Endpoint } from '../proxy/upstream/endpoint.ts';
import { Upstreams } from '../proxy/upstream/upstreams.ts';
import { guardMemory } from './guard-memory.ts';
import type { FollowedIdentity } from './identity.ts';
import type { WorkerShare } from './workers/shared.ts';

interface PlaneParts {
  readonly config: Config;
  readonly recorder: Recorder;
  readonly authorizer: PolicyAuthorizer;
  readonly identity: Pick<FollowedIdentity, 'termination'>;
  readonly own: OwnEndpoints;
  /** Null where one worker serves alone. */
  readonly shared: WorkerShare | null;
}

export type DataPlane = ReturnType<typeof createDataPlane>;

/** Sockets → decisions → the app. */
export function createDataPlane({ config, recorder, authorizer, identity, own, shared }: PlaneParts) {
  const limits = shareOf(config.limits, config.workers);
  const budget = new BufferBudget(limits, recorder);
  const live = new LiveConnections(limits, recorder, shared?.counts);
  const isOwn = (endpoint: Endpoint, connected?: Socket): boolean =>
    connected === undefined ? own.has(endpoint) : own.isReachedBy(connected, endpoint.port);
  const toApp = { ...limits, maxConnections: Math.ceil(limits.maxConnections / config.workers) };
  const upstreams = new Upstreams({ connectTimeoutMs: config.connectTimeoutMs, limits: toApp, recorder, isOwn });
  const { policyChangeEnds } = config;
  const inFlight = shared?.inFlight;
  const pipeline = new RequestPipeline({ authorizer, recorder, limits, budget, inFlight, policyChangeEnds });
  const library = new LibraryLane({ pipeline, upstreams });
  const http1 = config.fastLane ? new FastLane({ pipeline, upstreams, library }) : library;
  const http2 = new Http2Lane({ pipeline, upstreams });
  const anchors = () => identity.termination()?.anchors ?? null;
  let probeTls: Promise<ProbeTls> | null = null;
  const services: ConnectionServices = {
    authorizer,
    recorder,
    http1,
    http2,
    upstreams,
    live,
    tls: identity.termination,
    probeTls: () => {
      probeTls ??= import('../proxy/probe-tls.ts').then((made) => new made.ProbeTls());
      return probeTls;
    },
    watch: { budget, limits, limitReached: recorder.limitReached, anchors },
    detectTimeoutMs: config.detectTimeoutMs,
  };
  const guard = guardMemory(config.workers, live, budget);
  authorizer.onChange(guarded('a change of policy', null, () => live.recheckAll()));
  return {
    services,
    live,
    http1,
    async close(): Promise<void> {
      const closed = http1.close();
      http2.close();
      guard.close();
      budget.close();
      live.close();
      await closed;
    },
  };
}
