import { MessageChannel, receiveMessageOnPort } from 'node:worker_threads';
import t from 'tap';
import type { RequestDecision } from '../../../lib/policy/decision.ts';
import type { ErrorLabel, Recorder } from '../../../lib/proxy/recorder.ts';
import type { Figures } from '../../../lib/telemetry/figures.ts';
import { limits } from '../../../lib/telemetry/labels.ts';
import { createWorkerTelemetry, type WorkerTelemetry } from '../../../lib/telemetry/worker-telemetry.ts';
import fc from '../../support/properties.ts';
import * as fx from './fixtures.ts';

const minutes = 60_000;

/** As it arrives in another thread. */
function sent(figures: Figures): Figures {
  const { port1, port2 } = new MessageChannel();
  port1.postMessage(figures);
  const received = receiveMessageOnPort(port2)?.message as Figures;
  port1.close();
  return received;
}

interface Stage {
  readonly main: fx.Fixture;
  readonly workers: readonly WorkerTelemetry[];
  /** Of the main thread, then those of the others. */
  readonly recorders: readonly Recorder[];
  gather(): void;
  advance(ms: number): void;
}

function stage(workers: number): Stage {
  const main = fx.fixture('json', 'off');
  const { log } = fx.memoryLog('json', 'off');
  let nowMs = 1000;
  const others = Array.from({ length: workers }, () =>
    createWorkerTelemetry({ log: log.logger, accessLog: null, droppedLogLines: () => 0, now: () => nowMs }),
  );
  return {
    main,
    workers: others,
    recorders: [main.telemetry.recorder, ...others.map(({ recorder }) => recorder)],
    gather() {
      for (const [at, each] of others.entries()) main.telemetry.absorb(at + 1, sent(each.report()));
    },
    advance(ms) {
      nowMs += ms;
      main.advance(ms);
    },
  };
}

/** Of the process, or of a thread whatever is recorded in it, and different from one moment to the next. */
const ofProcess = /^(process|nodejs|sallyport_event_loop)_/;

async function shown(stage: Stage): Promise<string[]> {
  const lines = (await fx.scrape(stage.main.telemetry)).filter(({ name }) => !ofProcess.test(name));
  return lines
    .map(({ name, labels, value }) => `${name} ${JSON.stringify(Object.entries(labels).sort())} ${value}`)
    .sort();
}

const policy = fx.portPolicy({ protocol: 'detect' });
const decisions: readonly RequestDecision[] = [fx.permit, fx.audited, fx.deny, fx.noRoute, fx.redirect, fx.limited];
const errors: readonly ErrorLabel[] = ['loadshed', 'i/o', 'unexpected'];
const quiet = fx.requestLog();

/** What happens on one connection, all of it at once. */
const event = fc.record({
  worker: fc.nat({ max: 2 }),
  client: fc.constantFrom(fx.plaintext, fx.mesh('a.ns'), fx.mesh('b.ns'), fx.mesh(null)),
  targetPort: fc.constantFrom(8080, 9090),
  decision: fc.constantFrom(...decisions),
  status: fc.constantFrom(0, 200, 204, 404, 503, 1000),
  grpc: fc.constantFrom(null, '0', '2', '13', 'odd'),
  error: fc.constantFrom('', 'h2(CANCEL)', 'strange'),
  failure: fc.constantFrom(...errors),
  closed: fc.constantFrom('', 'ECONNRESET', 'ESTRANGE', null),
  bytes: fc.nat({ max: 100_000 }),
  gathered: fc.boolean(),
});

type Event = typeof event extends fc.Arbitrary<infer E> ? E : never;

function record(recorder: Recorder, happened: Event): void {
  const { client, targetPort, decision, status, grpc, error, failure, closed, bytes } = happened;
  const scope = recorder.connection(fx.facts({ tls: client, targetPort }));
  const transport = scope.openSource(policy, { bytesRead: bytes, bytesWritten: bytes * 2 });
  const toApp = recorder.openDestination({ bytesRead: bytes, bytesWritten: 1 });
  scope.detected(policy, status === 200 ? 'http/1' : 'not_http', 0);
  scope.requestDecided(policy, decision, quiet);
  if (decision.kind === 'permit') {
    const request = scope.requestStarted(policy, decision, grpc !== null);
    request.requestFrame(bytes);
    if (status !== 1000) {
      request.requestEnded();
      request.responseHead(status);
      request.responseFrame(bytes);
      request.responseEnded(grpc, error);
    }
  }
  scope.connectionDecided(policy, bytes % 2 === 0 ? fx.tcpPermit : fx.tcpDeny);
  scope.tcpError(failure, null);
  recorder.strayed(status === 404 ? 'own_port' : 'not_redirected');
  recorder.limitReached(status === 404 ? 'max_in_flight' : 'stall_timeout', null);
  if (status === 503) recorder.internalFault({ where: 'a test', error: new Error('x'), ended: 'request' });
  if (closed === null) return;
  transport.closed(closed);
  toApp.closed(closed);
}

t.test('what three threads record is shown as what one would have recorded', async (t) => {
  await fc.assert(
    fc.asyncProperty(fc.array(event, { maxLength: 40 }), async (events) => {
      const [one, three] = [stage(0), stage(2)];
      for (const each of events) {
        record(one.recorders[0] as Recorder, each);
        record(three.recorders[each.worker] as Recorder, each);
        if (each.gathered) three.gather();
      }
      three.gather();
      const [expected, seen] = [await shown(one), await shown(three)];
      if (expected.join('\n') !== seen.join('\n')) t.same(seen, expected);
      return expected.join('\n') === seen.join('\n');
    }),
    { numRuns: 150 },
  );
  t.pass('in 150 histories');
});

async function value(stage: Stage, name: string, labels: Record<string, string> = {}): Promise<number | undefined> {
  const found = fx.find(await fx.scrape(stage.main.telemetry), name, labels);
  return found.length === 0 ? undefined : found.reduce((sum, line) => sum + line.value, 0);
}

t.test('a worker that is gone takes its open connections along, and none of its counts', async (t) => {
  const three = stage(2);
  const transports = [1, 1, 2].map((worker) => {
    const scope = (three.recorders[worker] as Recorder).connection(fx.facts());
    return scope.openSource(policy, { bytesRead: 10, bytesWritten: 0 });
  });
  three.gather();
  t.equal(await value(three, 'tcp_open_connections'), 3);
  three.main.telemetry.forget(1);
  t.equal(await value(three, 'tcp_open_connections'), 1);
  t.equal(await value(three, 'tcp_open_total'), 3, 'no counter goes back');
  t.equal(await value(three, 'tcp_read_bytes_total'), 30);
  transports[2]?.closed('');
  three.gather();
  t.equal(await value(three, 'tcp_open_connections'), 0);
});

t.test('bytes of a connection that stays open show at each scrape', async (t) => {
  const two = stage(1);
  const bytes = { bytesRead: 10, bytesWritten: 0 };
  const transport = (two.recorders[1] as Recorder).connection(fx.facts()).openSource(policy, bytes);
  two.gather();
  t.equal(await value(two, 'tcp_read_bytes_total'), 10);
  bytes.bytesRead = 25;
  two.gather();
  t.equal(await value(two, 'tcp_read_bytes_total'), 25);
  bytes.bytesRead = 30;
  transport.closed('');
  two.gather();
  two.gather();
  t.equal(await value(two, 'tcp_read_bytes_total'), 30);
  t.equal(await value(two, 'tcp_close_total'), 1);
});

t.test('label values are bounded over all workers, and nothing is lost', async (t) => {
  const three = stage(2);
  const each = 600;
  const total = each * 3;
  for (let i = 0; i < total; i++) {
    const recorder = three.recorders[i % 3] as Recorder;
    const client = fx.mesh(`client-${i}.ns`);
    const scope = recorder.connection(fx.facts({ tls: client, targetPort: 10_000 + (i % 200) }));
    scope.requestDecided(fx.portPolicy({ server: fx.defaultRoute }), fx.permit, quiet);
    if (i % 100 === 0) three.gather();
  }
  three.gather();
  const lines = fx.find(await fx.scrape(three.main.telemetry), 'inbound_http_authz_allow_total');
  const values = (label: string) => new Set(lines.map(({ labels }) => labels[label])).size;
  t.equal(values('client_id'), limits.clientIds + 1, 'those of one process, and one for the rest');
  t.equal(values('target_port'), limits.unnamedTargets + 1);
  t.equal(
    lines.reduce((sum, line) => sum + line.value, 0),
    total,
  );
  const names = lines.map(({ labels }) => JSON.stringify(Object.entries(labels).sort()));
  t.equal(new Set(names).size, names.length, 'no series twice');
});

t.test('a target is one series, whether a worker knew its port as named or not', async (t) => {
  const two = stage(1);
  const [main, other] = two.recorders as [Recorder, Recorder];
  main.connection(fx.facts()).tcpError('i/o', null);
  other.connection(fx.facts()).connectionDecided(policy, fx.tcpDeny);
  other.connection(fx.facts()).tcpError('i/o', null);
  two.gather();
  t.equal(fx.find(await fx.scrape(two.main.telemetry), 'inbound_tcp_errors_total').length, 1);
});

t.test('series stay for as long as a worker uses them, and go with their idleness', async (t) => {
  const two = stage(1);
  const other = two.recorders[1] as Recorder;
  const scope = other.connection(fx.facts());
  const transport = scope.openSource(policy, { bytesRead: 0, bytesWritten: 0 });
  const long = scope.requestStarted(policy, fx.permit, false);
  long.requestEnded();
  for (let i = 0; i < 3; i++) {
    two.gather();
    t.equal(await value(two, 'request_total'), 1, `after ${i * 11} minutes of one request`);
    t.equal(await value(two, 'tcp_open_connections'), 1);
    two.advance(11 * minutes);
  }
  long.responseHead(200);
  long.responseEnded(null, '');
  transport.closed('');
  two.gather();
  t.equal(await value(two, 'response_total'), 1);
  t.equal(await value(two, 'tcp_open_connections'), 0);
  two.advance(11 * minutes);
  two.gather();
  t.equal(await value(two, 'response_total'), undefined, 'forgotten');
  const again = other.connection(fx.facts()).requestStarted(policy, fx.permit, false);
  again.requestEnded();
  two.gather();
  t.equal(await value(two, 'request_total'), 1, 'and begun anew');
});

t.test('a report of many series is quick to make and to take in', async (t) => {
  const two = stage(1);
  const other = two.recorders[1] as Recorder;
  for (let i = 0; i < 1000; i++) {
    const scope = other.connection(fx.facts({ tls: fx.mesh(`client-${i}.ns`) }));
    const request = scope.requestStarted(policy, fx.permit, false);
    request.requestEnded();
    request.responseHead(200);
    request.responseEnded(null, '');
  }
  const report = (two.workers[0] as WorkerTelemetry).report();
  t.equal(report.families.find(({ name }) => name === 'client')?.series.length, 1000);
  t.ok(JSON.stringify(report).length < 600_000, 'half a kilobyte a client');
  two.main.telemetry.absorb(1, sent(report));
  const again = (two.workers[0] as WorkerTelemetry).report().families.filter(({ name }) => !ofProcess.test(name));
  t.same(again, [], 'and what has not changed is not sent again');
});
