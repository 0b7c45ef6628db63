import { join } from 'node:path';
import t, { type Test } from 'tap';
import { testCertificate, workloadCertificate, workloadName } from '../../support/certificates.ts';
import { missing, startChild } from '../../support/children.ts';
import { identityEnvironment, replaceFile, temporaryFolder } from '../../support/files.ts';
import { parseExposition } from '../../support/metrics.ts';
import { guardedServer, openServer } from '../../support/open-policy.ts';
import {
  address,
  applyRules,
  at,
  createPodNetwork,
  curl,
  type Place,
  type PodNetwork,
  podNetworkUnavailable,
  startSidecar,
} from '../../support/pod-network.ts';
import { callEmojis, type PodApp, startPodApp } from '../../support/pod-programs.ts';
import type { LogLine, Sallyport } from '../../support/sallyport.ts';
import { until } from '../../support/until.ts';

// A pod whose app knows nothing of Sallyport, and clients that know nothing of it either: real programs on both sides.

const unavailable = (await podNetworkUnavailable(t)) || (await missing(t, 'openssl', 'redis-server', 'redis-cli'));

const ownName = workloadName('web', 'shop');
const redisPort = 6379;

/** A Server for meshed clients of one ServiceAccount. */
const meshedServer = (name: string, port: number, protocol: string): string =>
  guardedServer(name, port, protocol, '{kind: ServiceAccount, name: orders}');

/** A Server for all clients in the networks of the cluster. */
const clusterServer = (name: string, port: number, protocol: string): string =>
  guardedServer(name, port, protocol, '{group: policy.linkerd.io, kind: NetworkAuthentication, name: cluster}');

const networks = `---
apiVersion: policy.linkerd.io/v1alpha1
kind: NetworkAuthentication
metadata: {name: cluster, namespace: shop}
spec: {networks: [{cidr: 10.42.0.0/16}, {cidr: 'fd00:42::/64'}]}
`;

interface Scene {
  readonly net: PodNetwork;
  readonly app: PodApp;
  readonly sallyport: Sallyport;
  readonly folder: string;
  readonly metrics: () => Promise<ReturnType<typeof parseExposition>>;
}

async function startScene(t: Test): Promise<Scene> {
  const folder = temporaryFolder(t);
  const net = await createPodNetwork(t);
  const app = await startPodApp(t, net);
  const [command = '', ...within] = net.pod.namespace.within;
  const redis = ['redis-server', '--bind', '127.0.0.1', '--port', String(redisPort), '--save', '', '--dir', folder];
  await startChild(t, command, [...within, ...redis]);
  const documents = [
    networks,
    clusterServer('web', 8081, 'HTTP/1'),
    clusterServer('six', 8082, 'HTTP/1'),
    clusterServer('echo', 7000, 'opaque'),
    meshedServer('orders-api', 8080, 'unknown'),
    meshedServer('emoji', app.grpcPort, 'gRPC'),
    clusterServer('redis', redisPort, 'opaque'),
  ];
  replaceFile(join(folder, 'policy', 'policy.yaml'), documents.join(''));
  replaceFile(join(folder, 'ca.crt'), testCertificate({ dnsNames: [ownName] }).trustAnchorsPem);
  for (const account of ['orders', 'guest']) {
    const { certificatePem, keyPem } = workloadCertificate(account, 'shop');
    replaceFile(join(folder, `${account}.crt`), certificatePem);
    replaceFile(join(folder, `${account}.key`), keyPem);
  }
  await applyRules(net.pod, '--skip-inbound-ports', '9999');
  const sallyport = await startSidecar(t, net, {
    SALLYPORT_POLICY: join(folder, 'policy'),
    SALLYPORT_PROBES: '9090/healthz',
    SALLYPORT_CLUSTER_NETWORKS: '10.0.0.0/8',
    ...identityEnvironment(join(folder, 'identity'), testCertificate({ dnsNames: [ownName] })),
  });
  const metrics = async (): Promise<ReturnType<typeof parseExposition>> =>
    parseExposition((await curl(net.pod, at('127.0.0.1', 4191, '/metrics'))).body);
  return { net, app, sallyport, folder, metrics };
}

const clientOf = (line: LogLine): Readonly<Record<string, unknown>> => (line.client ?? {}) as Record<string, unknown>;
const targetOf = (line: LogLine): Readonly<Record<string, unknown>> => (line.target ?? {}) as Record<string, unknown>;

/** curl with a workload's certificate; the name of the pod's identity leads to its address. */
function meshed(folder: string, account: string, host: string, port: number): string[] {
  const file = (name: string): string => join(folder, name);
  const to = host.includes(':') ? `[${host}]` : host;
  return [
    ...['--cacert', file('ca.crt'), '--cert', file(`${account}.crt`), '--key', file(`${account}.key`)],
    ...['--resolve', `${ownName}:${port}:${to}`],
  ];
}

async function everyPortIsGuarded(t: Test, { net, app, sallyport, metrics }: Scene): Promise<void> {
  const rows: [from: Place, name: string, source: string, target: string, port: number, status: number][] = [
    [net.client, 'a pod of the cluster', address.client, address.pod, 8081, 200],
    [net.client, 'a pod of the cluster, IPv6', address.client6, address.pod6, 8081, 200],
    [net.client, 'an app on ::1 alone', address.client6, address.pod6, 8082, 200],
    [net.outsider, 'an outsider', address.outsider, address.pod, 8081, 403],
    [net.outsider, 'an outsider, IPv6', address.outsider6, address.pod6, 8081, 403],
    [net.client, 'without an identity', address.client, address.pod, 8080, 403],
    [net.client, 'a port without a Server', address.client, address.pod, 9090, 403],
    [net.client, 'a port that nobody serves', address.client, address.pod, 12345, 403],
    [net.node, 'the node itself, public address', address.nodePublic, address.pod, 8081, 403],
  ];
  for (const [from, name, source, target, port, status] of rows) {
    const path = `/as/${encodeURIComponent(name)}`;
    const answer = await curl(from, at(target, port, path), '--interface', source);
    t.equal(answer.status, status, `${name}: ${answer.stderr}`);
    if (status !== 403) continue;
    t.equal(answer.body, '', 'nothing tells the client why');
    const denied = await sallyport.waitForLog(name, (line) => line.msg === 'Request denied' && line.path === path);
    t.match(
      denied,
      { client: { ip: source }, target: { port: port } },
      `${name}: the log names the real client and port`,
    );
  }
  const allowed = { authz_name: 'web', target_port: '8081', tls: 'no_identity' };
  const books = await metrics();
  t.equal(books.sum('inbound_http_authz_allow_total', { ...allowed, target_ip: address.pod }), 1);
  t.equal(books.sum('inbound_http_authz_allow_total', { ...allowed, target_ip: address.pod6 }), 1);
  t.same(app.unguarded(), [], 'the app has seen its sidecar and nobody else');
}

async function theProxysOwnPorts(t: Test, { net, sallyport }: Scene): Promise<void> {
  const closed = await curl(net.client, at(address.pod, 4143));
  t.match(closed, { status: 0, body: '' }, 'the port of the redirection itself is closed');
  t.not(closed.code, 0);
  t.match(await curl(net.client, at(address.pod, 4192, '/ready')), { status: 200 }, 'the health port');
  t.match(
    await curl(net.outsider, at(address.pod, 4191, '/metrics')),
    { status: 403 },
    'admin: by the policy of its port',
  );
  await sallyport.waitForLog('admin', (line) => clientOf(line).ip === address.outsider && targetOf(line).port === 4191);
  const skipped = await curl(net.outsider, at(address.pod, 9999));
  t.match(skipped, { code: 7, status: 0 }, 'a skipped port is left to the app: refused by the kernel, not by policy');
  const inside = await curl(net.pod, at('127.0.0.1', 8080));
  t.match(inside, { status: 200 }, "the pod's own loopback is nobody else's traffic");
}

async function theMesh(t: Test, { net, folder, sallyport }: Scene): Promise<void> {
  const url = `https://${ownName}:8080/orders`;
  for (const host of [address.pod, address.pod6]) {
    t.match(await curl(net.client, url, ...meshed(folder, 'orders', host, 8080)), { status: 200 }, `orders, ${host}`);
    t.match(await curl(net.client, url, ...meshed(folder, 'guest', host, 8080)), { status: 403 }, `guest, ${host}`);
    t.match(
      await curl(net.outsider, url, ...meshed(folder, 'orders', host, 8080)),
      { status: 200 },
      'an identity counts wherever it calls from',
    );
  }
  t.match(await curl(net.client, url, '--http2', ...meshed(folder, 'orders', address.pod, 8080)), { status: 200 });
  const denied = await sallyport.waitForLog('guest', (line) => clientOf(line).id === workloadName('guest', 'shop'));
  t.match(denied, { msg: 'Request denied', client: { ip: address.client }, tls: 'true' });

  const shown = await net.client.run(
    'sh',
    '-c',
    'exec openssl s_client -connect "$1" -servername "$2" -CAfile "$3" -verify_return_error -brief </dev/null',
    ...['sh', `${address.pod}:8080`, ownName, join(folder, 'ca.crt')],
  );
  t.match(shown, { code: 0, stderr: /Verification: OK/ }, 'openssl s_client believes the pod');
}

async function grpcAndTcp(t: Test, { net, app, sallyport }: Scene): Promise<void> {
  const target = `${address.pod}:${app.grpcPort}`;
  const mesh = (account: string): { certificate: ReturnType<typeof workloadCertificate>; servername: string } => ({
    certificate: workloadCertificate(account, 'shop'),
    servername: ownName,
  });
  t.match(await callEmojis(net.client, { target, mesh: mesh('orders') }), { status: 'OK', emojis: 2 });
  t.match(await callEmojis(net.client, { target, mesh: mesh('guest') }), { status: 'PERMISSION_DENIED', emojis: 0 });
  t.match(await callEmojis(net.outsider, { target }), { status: 'PERMISSION_DENIED', emojis: 0 });
  t.match(await callEmojis(net.client, { target: `[${address.pod6}]:${app.grpcPort}`, mesh: mesh('orders') }), {
    status: 'OK',
  });

  const redis = (from: Place, host: string, ...args: string[]): ReturnType<Place['run']> =>
    from.run('redis-cli', '-h', host, '-p', String(redisPort), ...args);
  t.match(await redis(net.client, address.pod, 'set', 'k', 'v'), { stdout: 'OK\n' });
  t.match(await redis(net.client, address.pod6, 'get', 'k'), { stdout: 'v\n' });
  t.notMatch((await redis(net.outsider, address.pod, 'get', 'k')).stdout, /v/, 'an outsider is closed');
  const closed = await sallyport.waitForLog('the closed connection', (line) => line.msg === 'Connection denied');
  t.match(closed, {
    client: { ip: address.outsider },
    server: { kind: 'server', name: 'redis' },
    target: { port: redisPort },
  });
}

async function probes(t: Test, { net, sallyport }: Scene): Promise<void> {
  const from = ['--interface', address.nodePublic];
  const rows: [name: string, port: number, path: string, status: number][] = [
    ["the app's probe", 9090, '/healthz', 200],
    ['another path of that port', 9090, '/healthz/x', 403],
    ['readiness, on the health port', 4192, '/ready', 200],
    ['liveness, on the health port', 4192, '/live', 200],
    ['liveness, on the admin port', 4191, '/live', 200],
    ['what is no probe, on the admin port', 4191, '/metrics', 403],
  ];
  for (const [name, port, path, status] of rows) {
    t.match(await curl(net.node, at(address.pod, port, path), ...from), { status }, `${name}: ${status}`);
  }
  t.match(await curl(net.node, at(address.pod, 9090, '/healthz'), '--data', 'x', ...from), { status: 403 }, 'no POST');
  await sallyport.waitForLog('the refused scrape', (line) => clientOf(line).ip === address.nodePublic);
}

/** A client that may reach nothing must not be able to make the books grow without end either. */
async function portScan(t: Test, { net, metrics }: Scene): Promise<void> {
  const series = async (): Promise<number> => (await metrics()).samples.length;
  const scan = async (first: number, last: number): Promise<void> => {
    const url = `http://${address.pod}:[${first}-${last}]/`;
    const args = ['--silent', '--max-time', '50', '--noproxy', '*', '--output', '/dev/null', '--parallel', url];
    t.match(await net.outsider.run('curl', ...args), { code: 0 });
  };
  await scan(20_000, 20_299);
  const before = await series();
  await scan(21_000, 21_599);
  const after = await series();
  t.ok(after - before < 10, `600 more ports: ${before} series, then ${after}`);
}

/** The rules stay when the proxy does not: the ports are closed, and open again with it. */
async function killed(t: Test, { net, app, sallyport }: Scene): Promise<void> {
  const before = app.connections().length;
  t.match(await sallyport.child.end('SIGKILL'), { signal: 'SIGKILL' });
  for (const [from, host] of [
    [net.client, address.pod],
    [net.client, address.pod6],
    [net.outsider, address.pod],
  ] as const) {
    for (const port of [8080, 8081, 9090, 7000, redisPort]) {
      t.match(await curl(from, at(host, port)), { code: 7, status: 0 }, `${host}:${port} is closed`);
    }
  }
  t.match(await curl(net.pod, at('127.0.0.1', 8081)), { status: 200 }, 'though the app is up');
  t.equal(app.connections().length, before + 1, 'nobody else got through to it');
}

async function reopened(t: Test, { net, app, folder }: Scene): Promise<void> {
  replaceFile(join(folder, 'policy', 'policy.yaml'), openServer('web', 8081));
  const again = await startSidecar(t, net, { SALLYPORT_POLICY: join(folder, 'policy') });
  await until(
    'the port to be served again',
    async () => (await curl(net.client, at(address.pod, 8081))).status === 200,
  );
  t.same(app.unguarded(), [], 'from first to last the app has seen its sidecar and nobody else');
  t.match(await again.stop(), { code: 0 });
}

if (unavailable) {
  t.plan(0, unavailable);
} else {
  t.setTimeout(900_000);
  await t.test('a guarded pod', { timeout: 840_000 }, async (t) => {
    const scene = await startScene(t);
    await t.test('every port, both families, the real source', (t) => everyPortIsGuarded(t, scene));
    await t.test("the proxy's own ports", (t) => theProxysOwnPorts(t, scene));
    await t.test('meshed clients (curl, openssl)', (t) => theMesh(t, scene));
    await t.test('gRPC and Redis', (t) => grpcAndTcp(t, scene));
    await t.test('probes from a public address, under deny', (t) => probes(t, scene));
    await t.test('a port scan', (t) => portScan(t, scene));
    await t.test('killed: closed, not open', (t) => killed(t, scene));
    await t.test('started again', (t) => reopened(t, scene));
  });
}
