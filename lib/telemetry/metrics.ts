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
import { type LoadMetrics, loadMetrics } from './load-metrics.ts';
import type { CodedLogger } from './log.ts';
import { pauseMetrics } from './pause-metrics.ts';
import { ProcessMetrics } from './process-metrics.ts';
import { RequestMetrics } from './request-metrics.ts';
import { gaugeSample, type LabelGroup, registerCollected } from './series.ts';
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
  /** Lines that wait to be written now. */
  readonly waitingLogLines?: () => number;
  /** Monotonic milliseconds; tests bring their own. */
  readonly now?: () => number;
}

export interface Exposition {
  readonly contentType: string;
  readonly body: string;
}

export interface Telemetry extends LoadMetrics {
  readonly recorder: Recorder;
  readonly registry: Registry;
  /** Also forgets what has been idle for ten minutes. */
  exposition(): Promise<Exposition>;
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
    log: new DecisionLog(options.log, now),
    views: new Views(),
    inbound: fixedGroup('inbound', { direction: 'inbound' }),
    source: fixedGroup('source', { direction: 'inbound', peer: 'src' }),
    now,
  };
  const destination = fixedGroup('destination', { direction: 'inbound', peer: 'dst' });
  const processMetrics = new ProcessMetrics(registry, options.processStart, now);
  pauseMetrics(registry);
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
      name: 'sallyport_log_waiting_lines',
      help: 'Log lines that wait for a reader that stands still, or for room.',
      type: 'gauge',
    },
    () => [gaugeSample(options.waitingLogLines?.() ?? 0)],
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
    otherHttp: (client, policy, spoken) => handshakes.otherHttp(client, policy, spoken),
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
    ...loadMetrics(registry),
  };
}

/** Groups of constants, with ids that no interned group has. */
function fixedGroup(name: keyof typeof fixedIds, pairs: Record<string, string>): LabelGroup {
  return { id: fixedIds[name], pairs };
}
const fixedIds = { inbound: -101, source: -102, destination: -103 } as const;

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
