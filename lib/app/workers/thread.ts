/** The composition root of a further worker: a data plane of its own, for what the main thread has read and admitted. */
import { parentPort, workerData } from 'node:worker_threads';
import type { Config } from '../../config/config.ts';
import type { CodedLog } from '../../errors/complaint.ts';
import { restThreadWhenQuiet } from '../../ops/returned-memory.ts';
import { createAuthorizer } from '../../policy/authorizer.ts';
import type { PolicyDocument } from '../../policy/documents/types.ts';
import type { Workload } from '../../policy/workload.ts';
import { loadDescriptors } from '../../proxy/accept/descriptors.ts';
import { Doors } from '../../proxy/accept/doors.ts';
import { OwnEndpoints } from '../../proxy/accept/own-endpoints.ts';
import { internalFault, onInternalFault } from '../../proxy/guard.ts';
import type { TlsTermination } from '../../proxy/tls/termination.ts';
import { compileInSlices } from '../../reload/compiling.ts';
import { createAccessLog } from '../../telemetry/access-log.ts';
import { LineChannel } from '../../telemetry/line-channel.ts';
import { createLog } from '../../telemetry/log.ts';
import type { DecisionRecording } from '../../telemetry/recording.ts';
import { createWorkerTelemetry } from '../../telemetry/worker-telemetry.ts';
import type { Watched } from '../candidate/watched.ts';
import { createDataPlane } from '../data-plane.ts';
import { clientDoors } from '../open-doors.ts';
import { rehearse } from '../rehearsal.ts';
import { othersThan } from './balance.ts';
import {
  type Answers,
  type Calling,
  configOf,
  type IdentityChange,
  type Order,
  type PlainChange,
  type PodState,
  type ThreadStart,
  type WorkerReport,
  workloadWith,
} from './messages.ts';
import { RemoteAdmin } from './remote-admin.ts';
import { joinShared } from './shared.ts';
import { beatMs, Vitals } from './vitals.ts';

const port = parentPort;
if (port === null) throw new Error('a worker is started by the pool');
const start = workerData as ThreadStart;
const config = configOf(start.config);
const report = (message: WorkerReport): void => port.postMessage(message);

const underway = new Int32Array(start.linesUnderway);
const logLines = new LineChannel((batch) => report({ kind: 'lines', log: 'log', batch }), underway);
const accessLines = new LineChannel((batch) => report({ kind: 'lines', log: 'access', batch }), underway);
const decisionLines = new LineChannel((batch) => report({ kind: 'lines', log: 'decisions', batch }), underway);
const decisions = config.decisions === null ? undefined : await recorded(config.decisions);
async function recorded(wanted: NonNullable<Config['decisions']>): Promise<DecisionRecording> {
  const { sendDecisions } = await import('../decisions.ts');
  return sendDecisions(wanted, config, decisionLines);
}
function flushLines(): void {
  decisions?.records.flush();
  logLines.flush();
  accessLines.flush();
  decisionLines.flush();
}
process.on('exit', flushLines);

const shared = joinShared(start.memory, start.worker, config);
const log = createLog({
  level: start.logLevel,
  format: config.logFormat,
  destination: logLines,
});
const telemetry = createWorkerTelemetry({
  log: log.logger,
  decisions,
  accessLog:
    config.accessLog === 'off' ? null : createAccessLog({ format: config.accessLog, destination: accessLines }),
  gate: shared.gate,
  lineRules: shared.lineRules,
  slowMs: config.slowRequestMs,
  adminPort: config.adminListen?.port,
  droppedLogLines: () => logLines.dropped + accessLines.dropped,
});
onInternalFault((fault) => {
  telemetry.recorder.internalFault(fault);
  report({ kind: 'fault', ended: fault.ended });
});
// The last resort, as for the main thread.
process.on('uncaughtException', (error) => internalFault('an uncaught exception', null, error));
process.on('unhandledRejection', (reason) => internalFault('an unhandled rejection', null, reason));

const vitals = new Vitals(start.vitals);
vitals.beat(start.worker);
setInterval(() => vitals.beat(start.worker), beatMs);

const authorizer = createAuthorizer({ nowMs: shared.nowMs, buckets: shared.buckets });
let workload: Workload = config.workload;
let termination: TlsTermination | null = null;
const rehearsal = (when: 'start' | 'quiet'): Promise<number> => rehearse({ when, config, termination });
restThreadWhenQuiet(() => rehearsal('quiet'));
void rehearsal('start');
const own = new OwnEndpoints(() => workload.ips, config.inboundListen !== null);
const candidate = shared.candidate === null ? null : await beside();
const { recorder } = candidate ?? telemetry;
async function beside(): Promise<Watched> {
  const { watchBeside } = await import('../candidate/watched.ts');
  return watchBeside(authorizer, telemetry, shared);
}
const identity = { termination: () => termination };
const plane = createDataPlane({ config, recorder, authorizer, identity, own, shared });
const { live, http1 } = plane;
const doors = new Doors(plane.services, own, (fields, message) => log.logger.error(fields, message));
const others = othersThan({
  self: start.worker,
  vitals,
  connections: start.memory.connections,
  descriptors: loadDescriptors(),
  send: (to, door, fd) => report({ kind: 'connection', to, door, fd }),
});
const admin = new RemoteAdmin((asked, request) => report({ kind: 'admin', asked, request }));

/** Prepared, and put in force when it is called. */
type Commit = () => void;
const prepared = new Map<number, Commit>();
const documentsOf = new Map<number, PolicyDocument[]>();

async function prepare(change: number, what: PlainChange): Promise<Commit> {
  if (what.kind === 'identity') return prepareIdentity(what.identity);
  const documents = documentsOf.get(change) ?? [];
  documentsOf.delete(change);
  const { index } = await compileInSlices(documents, workloadWith(config.workload, what.pod));
  return () => (what.kind === 'policy' ? authorizer.swap(index) : candidate?.watch.swap(index, documents.length));
}

async function prepareIdentity({ files, bytes, context, anchorsRemoved }: IdentityChange): Promise<Commit> {
  // Loaded here alone: what reads certificates takes 3 MB of memory, and many sidecars have none.
  const { verifyCredentials } = await import('../../reload/credentials.ts');
  const { terminationOf } = await import('../termination.ts');
  const verified = verifyCredentials(files, bytes, context);
  if (verified.kind === 'faulty') throw new Error('the identity that the main thread has verified does not verify');
  const next = terminationOf(verified.credentials, anchorsRemoved);
  return () => {
    termination = next;
  };
}

const warn: CodedLog['warn'] = (fields, message) => report({ kind: 'warning', fields, message });

async function listen({ doors: given, own: listeners }: Extract<Order, { kind: 'listen' }>): Promise<void> {
  for (const { port, address } of listeners) own.add(port, address);
  const policy = { authorizer, podFacts: { current: () => workload } };
  const plans = clientDoors({ config, own, policy, admin, warn, recorder });
  for (const { door, fd } of given) {
    const plan = plans[door];
    if (plan === undefined) throw new Error(`there is no door ${door}`);
    await doors.listen(plan.variable, { fd }, plan.arrive, { number: door, others });
  }
}

/** Resolves to what is answered. */
async function obey(order: Extract<Order, { kind: Calling }>): Promise<Answers[Calling]> {
  switch (order.kind) {
    case 'prepare':
      prepared.set(order.change, await prepare(order.change, order.what));
      return null;
    case 'commit': {
      const commit = prepared.get(order.change);
      prepared.delete(order.change);
      if (commit === undefined) throw new Error('what comes into force was not prepared');
      commit();
      return null;
    }
    case 'listen':
      await listen(order);
      return null;
    case 'connections':
      return live.size;
    case 'figures':
      return telemetry.report();
    case 'compared':
      return candidate?.watch.compared() ?? null;
    case 'decided':
      return decisions?.records.tally() ?? null;
    case 'close-doors':
      await doors.close();
      return null;
    case 'empty':
      return live.empty(order.timeoutMs);
    case 'drain':
      return live.drain(order.timeoutMs);
    case 'release':
      await plane.close();
      telemetry.lines.tellLeftOut();
      flushLines();
      return null;
  }
}

function pod(state: PodState): void {
  workload = workloadWith(workload, state);
}

function take(order: Order): void {
  switch (order.kind) {
    case 'documents':
      documentsOf.set(order.change, [...(documentsOf.get(order.change) ?? []), ...order.documents]);
      return;
    case 'pod':
      pod(order.pod);
      return;
    case 'log-level':
      log.setLevel(order.level);
      return;
    case 'connection':
      vitals.take(start.worker);
      doors.take(order.door, order.fd);
      return;
    case 'admin':
      admin.answered(order.asked, order.answer);
      return;
    case 'announce':
      http1.drain();
      live.announceDrain();
      return;
    case 'close-idle':
      http1.closeIdle();
      return;
    default: {
      const { call } = order;
      obey(order).then(
        (value) => report({ kind: 'answer', call, value }),
        (error: unknown) =>
          report({ kind: 'failed', call, error: error instanceof Error ? error.message : String(error) }),
      );
    }
  }
}

port.on('message', take);
