/**
 * Telemetry of the whole process: the data plane's `Recorder`, and Linkerd's inbound metrics with their names, labels
 * and buckets, so that its dashboards and `viz` queries work unchanged.
 */

import { Registry } from 'prom-client';
import { now as momentNow } from '../moment.ts';
import type { ConnectionFacts } from '../proxy/connection-facts.ts';
import type { AccessRecord, ByteCounter, Recorder, TransportScope } from '../proxy/recorder.ts';
import { Connection, type Shared, Views } from './connection-scope.ts';
import { DecisionLog } from './decision-log.ts';
import { DecisionMetrics } from './decision-metrics.ts';
import { FaultLog } from './fault-log.ts';
import { HandshakeLog } from './handshake-log.ts';
import { LabelStore } from './labels.ts';
import { LimitMetrics } from './limit-metrics.ts';
import type { CodedLogger } from './log.ts';
import { ProcessMetrics } from './process-metrics.ts';
import { RequestMetrics } from './request-metrics.ts';
import { Cell, gaugeSample, type LabelGroup, registerCollected, sample } from './series.ts';
import { TransportMetrics, type TransportSeries } from './transport-metrics.ts';

export interface Build {
  readonly version: string;
  /** Empty where unknown. */
  readonly gitSha: string;
  /** ISO date; empty where unknown. */
  readonly date: string;
}

export interface TelemetryOptions {
  readonly log: CodedLogger;
  /** From access-log.ts; null when the access log is off. */
  readonly accessLog: ((facts: ConnectionFacts, record: AccessRecord) => void) | null;
  readonly build: Build;
  /** When the process started, in Unix seconds. */
  readonly processStart: number;
  /** Lines that the log had to drop so far; shown as a counter. */
  readonly droppedLogLines?: () => number;
  /** Writes of log lines that failed so far, by the system's code. */
  readonly failedLogWrites?: () => ReadonlyMap<string, number>;
  /** Monotonic milliseconds; tests bring their own. */
  readonly now?: () => number;
}

export interface Exposition {
  readonly contentType: string;
  readonly body: string;
}

export interface Telemetry {
  readonly recorder: Recorder;
  readonly registry: Registry;
  /** Also forgets what has been idle for ten minutes. */
  exposition(): Promise<Exposition>;
  /** `timeSeconds`: Unix time of the load. */
  policyLoaded(generation: number, timeSeconds: number): void;
  policyLoadFailed(): void;
  /** The files are being waited for, or read, for longer than they should be. */
  policyOverdue(overdue: boolean): void;
  /** The files of the pod's facts are not what is believed of the pod. */
  podFactsRefused(refused: boolean): void;
  identityLoaded(identity: { readonly expiresAt: Date; readonly refreshedAt: Date }): void;
  identityLoadFailed(): void;
  /** As `policyOverdue`, of the identity's files. */
  identityOverdue(overdue: boolean): void;
}

export function createTelemetry(options: TelemetryOptions): Telemetry {
  const now = options.now ?? momentNow;
  const registry = new Registry();
  const labels = new LabelStore();
  const shared: Shared = {
    labels,
    decisions: new DecisionMetrics(registry),
    requests: new RequestMetrics(registry),
    transport: new TransportMetrics(registry),
    log: new DecisionLog(options.log),
    views: new Views(),
    inbound: fixedGroup('inbound', { direction: 'inbound' }),
    source: fixedGroup('source', { direction: 'inbound', peer: 'src' }),
    now,
  };
  const destination = fixedGroup('destination', { direction: 'inbound', peer: 'dst' });
  const policy = policyMetrics(registry);
  const identity = identityMetrics(registry);
  const processMetrics = new ProcessMetrics(registry, options.processStart, now);
  buildMetrics(registry, options.build);
  const limits = new LimitMetrics(registry, options.log, now);
  const handshakes = new HandshakeLog(registry, options.log, now);
  const faults = new FaultLog(options.log, registry, now);
  const dropped = options.droppedLogLines ?? (() => 0);
  registerCollected(
    registry,
    {
      name: 'sallyport_log_lines_dropped_total',
      help: 'Log lines given up because their reader was too slow.',
      type: 'counter',
    },
    () => [gaugeSample(dropped())],
  );
  registerCollected(
    registry,
    {
      name: 'sallyport_log_write_failures_total',
      help: 'Writes of log lines that failed, by the code of the system; what was to be written waits.',
      type: 'counter',
    },
    () => Array.from(options.failedLogWrites?.() ?? [], ([errno, value]) => gaugeSample(value, { errno })),
  );

  let appSeries: TransportSeries | null = null;
  const toApp = (): TransportSeries => {
    if (appSeries === null || appSeries.retired) appSeries = shared.transport.series(destination, labels.loopback);
    return appSeries;
  };
  const recorder: Recorder = {
    connection: (facts) => new Connection(shared, facts),
    networkRefused: (policy, refusal, reasons) => {
      const groups = [
        labels.target(refusal, policy),
        labels.networkPolicy(refusal.policies),
        labels.refused[refusal.connection],
      ];
      shared.decisions.networkRefused.at(...groups).value++;
      shared.log.networkRefused(refusal, reasons);
    },
    handshakeFailed: (client, serverName, failure) => {
      shared.decisions.tcpError('i/o', labels.target(client, null)).value++;
      handshakes.failed(client, serverName, failure);
    },
    helloNotForUs: (client, serverName, ours, outcome) => handshakes.notForUs(client, serverName, ours, outcome),
    limitReached: (limit, client) => limits.reached(limit, client?.text ?? null),
    internalFault: (fault) => faults.record(fault),
    openDestination: (bytes: ByteCounter): TransportScope => toApp().add(bytes),
    access: options.accessLog,
  };

  return {
    recorder,
    registry,
    async exposition() {
      await processMetrics.read();
      const nowMs = now();
      shared.requests.expireIdle(nowMs);
      shared.transport.expireIdle(nowMs);
      return { contentType: registry.contentType, body: await registry.metrics() };
    },
    ...policy,
    ...identity,
  };
}

/** Groups of constants, with ids that no interned group has. */
function fixedGroup(name: keyof typeof fixedIds, pairs: Record<string, string>): LabelGroup {
  return { id: fixedIds[name], pairs };
}
const fixedIds = { inbound: -101, source: -102, destination: -103 } as const;

function policyMetrics(
  registry: Registry,
): Pick<Telemetry, 'policyLoaded' | 'policyLoadFailed' | 'policyOverdue' | 'podFactsRefused'> {
  let generation = 0;
  let errors = 0;
  let lastLoad = 0;
  let refused = false;
  let late = false;
  let factsRefused = false;
  registerCollected(
    registry,
    {
      name: 'sallyport_pod_facts_refused',
      help: "1 while the files of the pod's labels or manifest are bad, and those of before count.",
      type: 'gauge',
    },
    () => [gaugeSample(Number(factsRefused))],
  );
  registerCollected(
    registry,
    {
      name: 'sallyport_policy_refused',
      help: '1 while the policy files hold what is not in force, because the last load of them was bad.',
      type: 'gauge',
    },
    () => [gaugeSample(Number(refused))],
  );
  registerCollected(
    registry,
    {
      name: 'sallyport_policy_reload_overdue',
      help: '1 while a load of the policy has not ended for 15 seconds.',
      type: 'gauge',
    },
    () => [gaugeSample(Number(late))],
  );
  registerCollected(
    registry,
    { name: 'sallyport_policy_generation', help: 'Policies loaded so far; 0 before the first.', type: 'gauge' },
    () => [gaugeSample(generation)],
  );
  registerCollected(
    registry,
    {
      name: 'sallyport_policy_load_errors_total',
      help: 'Policies that did not load; the one before each stayed in force.',
      type: 'counter',
    },
    () => [gaugeSample(errors)],
  );
  registerCollected(
    registry,
    {
      name: 'sallyport_policy_last_load_success_timestamp_seconds',
      help: 'When the policy in force was loaded, in Unix time; 0 before the first.',
      type: 'gauge',
    },
    () => [gaugeSample(lastLoad)],
  );
  return {
    policyLoaded(loaded, timeSeconds) {
      generation = loaded;
      lastLoad = timeSeconds;
      refused = false;
    },
    policyLoadFailed() {
      errors++;
      refused = true;
    },
    policyOverdue(overdue) {
      late = overdue;
    },
    podFactsRefused(bad) {
      factsRefused = bad;
    },
  };
}

function identityMetrics(
  registry: Registry,
): Pick<Telemetry, 'identityLoaded' | 'identityLoadFailed' | 'identityOverdue'> {
  let late = false;
  let expires: number | null = null;
  let refreshed: number | null = null;
  const ok = new Cell({ result: 'ok' });
  const failed = new Cell({ result: 'error' });
  const time = (value: number | null) => (value === null ? [] : [gaugeSample(value)]);
  registerCollected(
    registry,
    {
      name: 'control_identity_cert_expiration_timestamp_seconds',
      help: 'When the certificate in use expires, in Unix time.',
      type: 'gauge',
    },
    () => time(expires),
  );
  registerCollected(
    registry,
    {
      name: 'control_identity_cert_refresh_timestamp_seconds',
      help: 'When the certificate in use was loaded, in Unix time.',
      type: 'gauge',
    },
    () => time(refreshed),
  );
  registerCollected(
    registry,
    { name: 'control_identity_cert_refreshes_total', help: 'Loads of the certificate, by result.', type: 'counter' },
    () => [sample(ok), sample(failed)],
  );
  registerCollected(
    registry,
    {
      name: 'sallyport_identity_reload_overdue',
      help: "1 while a load of the identity's files has not ended for 15 seconds.",
      type: 'gauge',
    },
    () => [gaugeSample(Number(late))],
  );
  return {
    identityLoaded({ expiresAt, refreshedAt }) {
      expires = expiresAt.getTime() / 1000;
      refreshed = refreshedAt.getTime() / 1000;
      ok.value++;
    },
    identityLoadFailed() {
      failed.value++;
    },
    identityOverdue(overdue) {
      late = overdue;
    },
  };
}

function buildMetrics(registry: Registry, build: Build): void {
  const linkerd = {
    date: build.date,
    git_sha: build.gitSha,
    profile: 'release',
    vendor: 'sallyport',
    version: build.version,
  };
  registerCollected(
    registry,
    { name: 'proxy_build_info', help: 'The build, under the name and labels that Linkerd uses.', type: 'gauge' },
    () => [gaugeSample(1, linkerd)],
  );
  const own = { version: build.version, git_sha: build.gitSha, node: process.version };
  registerCollected(
    registry,
    { name: 'sallyport_build_info', help: 'The build of Sallyport and the Node it runs on.', type: 'gauge' },
    () => [gaugeSample(1, own)],
  );
}
