import { adminOf } from './app/admin.ts';
import { startCandidate } from './app/candidate/start.ts';
import { createDataPlane } from './app/data-plane.ts';
import type { KeptDecisions } from './app/decisions.ts';
import { followIdentity } from './app/identity.ts';
import type { LoadListeners } from './app/load-listeners.ts';
import { type Addresses, openDoors, openHealth } from './app/open-doors.ts';
import { followPolicy } from './app/policy.ts';
import { rehearse } from './app/rehearsal.ts';
import { stopSequence } from './app/stop.ts';
import { warnOnce } from './app/warn-once.ts';
import { startSharing, startWorkers } from './app/workers/start.ts';
import type { Config } from './config/config.ts';
import type { Host } from './config/host.ts';
import { createHealthServer } from './ops/health-server.ts';
import { Readiness } from './ops/readiness.ts';
import { letGoOfProgram } from './ops/returned-memory.ts';
import { Soundness } from './ops/soundness.ts';
import { Doors } from './proxy/accept/doors.ts';
import { OwnEndpoints } from './proxy/accept/own-endpoints.ts';
import { onInternalFault } from './proxy/guard.ts';
import { checkNode } from './proxy/node-internals.ts';
import { createAccessLog } from './telemetry/access-log.ts';
import { LineRules } from './telemetry/line-rules.ts';
import type { Log } from './telemetry/log.ts';
import { type Build, createTelemetry } from './telemetry/metrics.ts';
import { bufferedOutput, droppedLines, failedWrites, waitingLines } from './telemetry/output.ts';
import { workerMetrics } from './telemetry/worker-metrics.ts';

export interface AppOptions {
  readonly config: Config;
  /** For what is re-read while running: labels file, manifest. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly host: Host;
  readonly log: Log;
  readonly build: Build;
}

export interface App {
  readonly addresses: Addresses;
  /** Resolves when a stop, begun by `stop` or by the admin server, is over: true when everything drained in time. */
  readonly stopped: Promise<boolean>;
  /** Has the code that requests run compiled again, where it was thrown away. Never rejects. */
  rehearse(): Promise<unknown>;
  /** Looks at all files that are followed, now rather than when their change is noticed. */
  reload(): void;
  /** Not ready, no new connections, finish what is in flight, then close. Later calls join the first. */
  stop(): Promise<boolean>;
}

/**
 * The composition root: everything is made, joined and started here, and nowhere else.
 *
 * @throws with a message for the user when a port cannot be bound or the first identity cannot be loaded; what had
 *   been started is stopped again.
 */
export async function startApp(options: AppOptions): Promise<App> {
  const { config, log, build } = options;
  const uses = { redirected: config.inboundListen !== null, secured: config.identity !== null };
  checkNode(uses, (fields, message) => log.logger.warn(fields, message));
  const soundness = new Soundness();
  const readiness = new Readiness(soundness);
  const sharing = await startSharing(config);
  const shared = sharing?.own ?? null;
  const accessLines = bufferedOutput(2);
  const decisions = await decisionsOf(config, log, (lines) => {
    telemetry.recordsLost.value += lines;
  });
  const telemetry = createTelemetry({
    ...{ log: log.logger, decisions: decisions?.recording, gate: shared?.gate, build },
    accessLog:
      config.accessLog === 'off' ? null : createAccessLog({ format: config.accessLog, destination: accessLines }),
    ...{ lineRules: new LineRules(config.logLines), slowMs: config.slowRequestMs, adminPort: config.adminListen?.port },
    processStart: Date.now() / 1000 - process.uptime(),
    droppedLogLines: droppedLines,
    failedLogWrites: failedWrites,
    waitingLogLines: waitingLines,
  });
  const ignoreFaults = onInternalFault((fault) => {
    soundness.fault(fault.ended);
    telemetry.recorder.internalFault(fault);
  });
  const loadListeners: LoadListeners = { readiness, telemetry, logger: log.logger };
  const warn = warnOnce((fields, message) => log.logger.warn(fields, message));
  const workers = await startWorkers(
    {
      ...{ config, build, log, accessLines, decisionLines: decisions?.lines ?? log, telemetry },
      admin: () => admin,
      warn,
      take: (door, fd) => doors.take(door, fd),
      fault: (ended) => soundness.fault(ended),
    },
    sharing,
  );
  workerMetrics(telemetry.registry, workers);
  const policy = followPolicy(options, loadListeners, workers, shared, () => candidate?.podChanged());
  const { podFacts, authorizer: enforced } = policy;
  const candidate = await startCandidate({
    ...{ config, enforced, podFacts, listeners: loadListeners, workers, shared },
  });
  const identity = await followIdentity(config.identity, loadListeners, workers);
  const own = new OwnEndpoints(() => policy.podFacts.current().ips, config.inboundListen !== null);
  const { recorder } = candidate ?? telemetry;
  const plane = createDataPlane({ config, recorder, authorizer: policy.authorizer, identity, own, shared });
  const doors = new Doors(plane.services, own, (fields, message) => log.logger.error(fields, message));
  const health = createHealthServer({ ready: () => readiness.state(), live: () => soundness.live });
  const release = async (): Promise<void> => {
    await Promise.allSettled([
      policy.stop(),
      candidate?.stop(),
      identity.source?.stop(),
      workers.release(),
      plane.close(),
      health.close(),
    ]);
    telemetry.lines.tellLeftOut();
    await decisions?.close();
    ignoreFaults();
  };
  const sequence = stopSequence({ config, plane, doors, workers, readiness, release, log: log.logger });
  const rehearsal = (when: 'start' | 'quiet') => rehearse({ when, config, termination: identity.termination() });
  const admin = adminOf({
    ...{ readiness, soundness, workers, telemetry, policy, identity, candidate, decisions, log },
    shutdown: () => void sequence.stop(),
  });
  try {
    const healthAddress = await openHealth(config, doors, health);
    await identity.source?.start();
    // Policy is read by another thread, and this one has nothing to do meanwhile.
    await Promise.all([policy.start(), rehearsal('start')]).then(letGoOfProgram);
    candidate?.start();
    const opened = await openDoors({ config, own, policy, admin, warn, recorder }, doors, workers.others);
    await workers.open(opened.listeners, own.listeners);
    readiness.up('listeners');
    return {
      addresses: { ...opened.addresses, health: healthAddress },
      stopped: sequence.stopped,
      rehearse: () => rehearsal('quiet'),
      reload() {
        for (const source of [policy, candidate, identity.source]) source?.reload();
      },
      stop: () => sequence.stop(),
    };
  } catch (error) {
    await Promise.all([workers.closeDoors(), doors.close()]);
    await release();
    throw error;
  }
}

/** Loaded only where decisions are recorded; null where none are. */
async function decisionsOf(
  config: Config,
  log: Log,
  onDropped: (lines: number) => void,
): Promise<KeptDecisions | null> {
  const { decisions } = config;
  if (decisions === null) return null;
  const { keepDecisions } = await import('./app/decisions.ts');
  return keepDecisions(decisions, config, log, onDropped);
}
