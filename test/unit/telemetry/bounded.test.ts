import { randomBytes } from 'node:crypto';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t, { type Test } from 'tap';
import type { ErrorLabel } from '../../../lib/proxy/recorder.ts';
import { limits } from '../../../lib/telemetry/labels.ts';
import { Cell, SeriesMap } from '../../../lib/telemetry/series.ts';
import * as fx from './fixtures.ts';

const defaultServer = { group: '', kind: 'default', name: 'all-unauthenticated' };
const inputs = 100_000;
const quiet = fx.requestLog();

function family(lines: readonly fx.Line[], name: string): fx.Line[] {
  return fx.find(lines, name);
}

function noSeriesTwice(t: Test, lines: readonly fx.Line[]): void {
  const seen = new Set<string>();
  let twice = '';
  for (const line of lines) {
    const key = `${line.name} ${JSON.stringify(Object.entries(line.labels).sort())}`;
    if (seen.has(key)) twice = key;
    seen.add(key);
  }
  t.equal(twice, '', 'no series twice');
}

t.test('100,000 identities make 1,000 series and one overflow', async (t) => {
  const { telemetry } = fx.fixture('json', 'off');
  const policy = fx.portPolicy();
  for (let i = 0; i < inputs; i++) {
    const scope = telemetry.recorder.connection(fx.facts({ tls: fx.mesh(`${randomBytes(6).toString('hex')}.ns`) }));
    scope.requestDecided(policy, fx.permit, fx.requestLog());
    const request = scope.requestStarted(policy, fx.permit, false);
    request.requestEnded();
    request.responseHead(200);
    request.responseEnded(null, '');
  }
  const lines = await fx.scrape(telemetry);
  const allowed = family(lines, 'inbound_http_authz_allow_total');
  t.equal(allowed.length, limits.clientIds + 1);
  t.equal(
    allowed.reduce((sum, line) => sum + line.value, 0),
    inputs,
    'nothing is lost',
  );
  t.equal(
    fx.find(allowed, 'inbound_http_authz_allow_total', { client_id: 'overflow' })[0]?.value,
    inputs - limits.clientIds,
  );
  t.equal(family(lines, 'request_total').length, limits.clientIds + 1);
  noSeriesTwice(t, lines);
});

t.test('a scrape of many series is written in slices, as a registry writes it at once', async (t) => {
  const { telemetry } = fx.fixture('json', 'off');
  const policy = fx.portPolicy();
  for (let i = 0; i < 300; i++) {
    const scope = telemetry.recorder.connection(fx.facts({ tls: fx.mesh(`a${i}.ns`) }));
    const request = scope.requestStarted(policy, fx.permit, false);
    request.requestEnded();
    request.responseHead(200);
    request.responseEnded(null, '');
  }
  let turns = 0;
  let isOver = false;
  const turned = (): void => {
    turns++;
    if (!isOver) setImmediate(turned);
  };
  setImmediate(turned);
  const { body } = await telemetry.exposition();
  isOver = true;
  const lines = body.split('\n');
  t.ok(turns > lines.length / 1000, `others had ${turns} turns while ${lines.length} lines were written`);
  // The runtime's own differ from one moment to the next.
  const lasting = (text: string): string[] => text.split('\n').filter((line) => !/^(nodejs|process)_/.test(line));
  t.same(lasting(body), lasting(await telemetry.registry.metrics()));
});

t.test('a scan of all ports', async (t) => {
  const { telemetry } = fx.fixture('json', 'off');
  for (let port = 1; port <= 65_535; port++) {
    const policy = fx.portPolicy({ port, server: defaultServer, protocol: 'detect' });
    const scope = telemetry.recorder.connection(fx.facts({ targetPort: port }));
    scope.connectionDecided(policy, { kind: 'deny', server: defaultServer });
    scope.tcpError('i/o', null);
  }
  const named = telemetry.recorder.connection(fx.facts({ targetPort: 9999, targetIp: '10.1.0.10' }));
  named.connectionDecided(fx.portPolicy({ port: 9999 }), fx.tcpDeny);
  const lines = await fx.scrape(telemetry);
  t.equal(family(lines, 'inbound_tcp_authz_deny_total').length, limits.unnamedTargets + 2);
  t.equal(family(lines, 'inbound_tcp_errors_total').length, limits.unnamedTargets + 1);
  t.equal(family(lines, 'inbound_tcp_detect_http_results_total').length, (limits.unnamedServerPorts + 1) * 5);
  const rest = fx.find(lines, 'inbound_tcp_authz_deny_total', { target_port: 'other' });
  t.same(
    rest.map((line) => [line.labels.srv_name, line.labels.srv_port, line.value]),
    [['all-unauthenticated', 'other', 65_535 - limits.unnamedTargets]],
  );
  t.equal(
    fx.find(lines, 'inbound_tcp_authz_deny_total', { target_addr: '10.1.0.10:9999', srv_name: 'web' })[0]?.value,
    1,
    'a port that a Server names keeps its own series after the scan',
  );
  noSeriesTwice(t, lines);
});

t.test('whatever a peer sends: SNI, statuses, codes, errors', async (t) => {
  const { telemetry } = fx.fixture('json', 'off');
  const policy = fx.portPolicy();
  const http = telemetry.recorder.connection(fx.facts());
  for (let i = 0; i < inputs; i++) {
    const noise = randomBytes(8).toString('latin1');
    const tls = { kind: 'passthrough', sni: noise } as const;
    if (i % 10 === 0) {
      const scope = telemetry.recorder.connection(fx.facts({ tls }));
      scope.connectionDecided(policy, fx.tcpPermit);
      scope.openSource(policy, { bytesRead: 1, bytesWritten: 1 }).closed(noise);
      scope.tcpError(noise as ErrorLabel, null);
    }
    const failure = {
      code: 'ERR_SALLYPORT_UNREACHABLE',
      label: noise as ErrorLabel,
      detail: noise,
      met: null,
    } as const;
    http.httpError(policy, failure, fx.requestLog({ path: noise, host: noise, method: noise }));
    const port = i % 2 === 0 ? fx.portPolicy({ protocol: 'grpc' }) : policy;
    const request = http.requestStarted(port, fx.permit, i % 2 === 0);
    request.responseHead((i % 5000) - 1000);
    request.responseEnded(noise, i % 3 === 0 ? noise : '');
  }
  const lines = await fx.scrape(telemetry);
  t.equal(family(lines, 'inbound_tcp_authz_allow_total').length, 33, '32 names and one for the rest');
  t.same([...new Set(family(lines, 'tcp_close_total').map((line) => line.labels.errno))], ['other']);
  t.same(
    family(lines, 'inbound_http_errors_total').map((line) => line.labels.error),
    ['unexpected'],
  );
  t.same(
    family(lines, 'inbound_tcp_errors_total').map((line) => line.labels.error),
    ['unexpected'],
  );
  t.same(
    family(lines, 'inbound_grpc_statuses_total').map((line) => line.labels.status),
    ['other'],
  );
  t.ok(family(lines, 'inbound_http_statuses_total').length <= 65);
  t.ok(
    family(lines, 'response_total').length <= 66 * 5,
    `response_total has ${family(lines, 'response_total').length} series`,
  );
  t.equal(family(lines, 'response_latency_ms_count').length, 64);
  t.equal(family(lines, 'request_total')[0]?.value, inputs);
  noSeriesTwice(t, lines);
});

t.test('beyond its limit a family keeps its sum in one series', async (t) => {
  const family = new SeriesMap((labels) => new Cell(labels), 3);
  const names = ['a', 'b', 'c', 'd', 'e', 'a', 'f'];
  const groups = new Map(names.map((name, id) => [name, { id, pairs: { name, tls: 'true' }, bound: null }]));
  for (const group of names.map((name) => groups.get(name))) if (group !== undefined) family.at(group).value++;
  t.same(
    Array.from(family.values(), (cell) => [cell.labels.name, cell.labels.tls, cell.value]),
    [
      ['a', 'true', 2],
      ['b', 'true', 1],
      ['c', 'true', 1],
      ['overflow', 'overflow', 3],
    ],
  );
  family.expire((cell) => cell.value === 1);
  t.equal(family.size, 2, 'room again');
  family.at({ id: 99, pairs: { name: 'g', tls: 'true' }, bound: null }).value++;
  t.equal(family.size, 3);
});

t.test('names that differ only in what labels cannot carry share a series', async (t) => {
  const { telemetry } = fx.fixture('json', 'off');
  const policy = fx.portPolicy();
  for (const name of ['a\n.ns', 'a\0.ns', 'a\ud800.ns', 'a\udfff.ns', 'b'.repeat(3000), 'c'.repeat(3000)]) {
    telemetry.recorder.connection(fx.facts({ tls: fx.mesh(name) })).connectionDecided(policy, fx.tcpDeny);
  }
  const lines = await fx.scrape(telemetry);
  t.same(
    family(lines, 'inbound_tcp_authz_deny_total').map((line) => [line.labels.client_id, line.value]),
    [
      ['a?.ns', 2],
      ['a\ufffd.ns', 2],
      ['other', 2],
    ],
  );
  noSeriesTwice(t, lines);
});

t.test('a million requests and a thousand policy swaps leave memory where it was', { skip: gcSkip() }, async (t) => {
  const { telemetry } = fx.fixture('json', 'off');
  const scope = telemetry.recorder.connection(fx.facts());
  const run = (swaps: number) => {
    for (let swap = 0; swap < swaps; swap++) {
      // After a swap every object is new, and the names are the old ones.
      const policy = fx.portPolicy({ server: { ...fx.server } });
      const permit = { ...fx.permit, route: { ...fx.route }, authz: { ...fx.authz } };
      for (let i = 0; i < 1000; i++) {
        scope.requestDecided(policy, permit, quiet);
        const request = scope.requestStarted(policy, permit, false);
        request.requestEnded();
        request.responseHead(200);
        request.responseFrame(100);
        request.responseEnded(null, '');
      }
    }
    collect();
    return process.memoryUsage().heapUsed;
  };
  run(50);
  // The runtime's own figures come and go with garbage collection.
  const count = async (): Promise<number> =>
    (await fx.scrape(telemetry)).filter(({ name }) => !name.startsWith('nodejs_')).length;
  const series = await count();
  const before = run(50);
  const after = run(1000);
  t.ok(after - before < 1_000_000, `${after - before} bytes more`);
  t.equal(await count(), series, 'no new series');
});

t.test('ports without a label of their own share what is kept of them', { skip: gcSkip() }, async (t) => {
  const { telemetry } = fx.fixture('json', 'off');
  const common = fx.portPolicy({ server: defaultServer, protocol: 'detect' });
  const policies = Array.from({ length: 65_535 }, (_, i) => ({ ...common, port: i + 1 }));
  const heapUsed = (): number => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const before = heapUsed();
  for (const policy of policies) {
    const scope = telemetry.recorder.connection(fx.facts({ targetPort: policy.port }));
    scope.connectionDecided(policy, fx.tcpDeny);
    scope.requestDecided(policy, fx.permit, quiet);
    scope.requestStarted(policy, fx.permit, false).requestEnded();
  }
  const bytes = (heapUsed() - before) / policies.length;
  t.equal(policies.at(-1)?.port, 65_535, 'they are in force until now');
  t.ok(bytes < 150, `${bytes.toFixed(1)} bytes a port`);
});

t.test('ports that share a decision and a label keep what else is theirs', async (t) => {
  const { telemetry } = fx.fixture('json', 'off');
  const policyOf = (port: number, protocol: 'detect' | 'opaque' = 'detect') =>
    fx.portPolicy({ port, server: defaultServer, protocol });
  const connect = (policy: ReturnType<typeof policyOf>) =>
    telemetry.recorder.connection(fx.facts({ targetPort: policy.port }));
  // They take all labels of servers, and none of parents.
  for (let port = 1; port <= limits.unnamedServerPorts; port++) {
    connect(policyOf(port, 'opaque')).connectionDecided(policyOf(port, 'opaque'), fx.tcpDeny);
  }
  const opaque = policyOf(5000, 'opaque');
  connect(opaque).connectionDecided(opaque, fx.tcpDeny);
  const detections = async () => family(await fx.scrape(telemetry), 'inbound_tcp_detect_http_results_total');
  const other = async () => (await detections()).filter(({ labels }) => labels.srv_port === 'other').length;
  t.equal(await other(), 0, 'nothing is detected on an opaque port');
  const policies = [policyOf(6001), policyOf(6002)];
  for (const policy of [...policies, ...policies]) {
    const scope = connect(policy);
    scope.requestDecided(policy, fx.permit, quiet);
    const request = scope.requestStarted(policy, fx.permit, false);
    request.requestEnded();
    request.responseHead(200);
    request.responseEnded(null, '');
  }
  t.not(await other(), 0, 'made with the first connection');
  const lines = await fx.scrape(telemetry);
  const allowed = fx.find(lines, 'inbound_http_authz_allow_total');
  t.same(
    allowed.map(({ labels, value }) => [labels.target_port, labels.srv_port, value]),
    [['other', 'other', 4]],
  );
  const ended = fx.find(lines, 'inbound_http_requests_total');
  t.same(
    ended.map(({ labels, value }) => [labels.parent_port, value]),
    [
      ['6001', 2],
      ['6002', 2],
    ],
  );
});

function collect(): void {
  (globalThis as { gc?: () => void }).gc?.();
}

function gcSkip(): string | false {
  setFlagsFromString('--expose-gc');
  (globalThis as { gc?: unknown }).gc ??= runInNewContext('gc');
  return typeof (globalThis as { gc?: unknown }).gc === 'function' ? false : 'needs a garbage collector to call';
}
