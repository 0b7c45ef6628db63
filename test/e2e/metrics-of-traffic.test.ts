import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { testCertificate, workloadCertificate, workloadName } from '../support/certificates.ts';
import { missing } from '../support/children.ts';
import { identityEnvironment, temporaryFolder } from '../support/files.ts';
import { growth, scrape } from '../support/metrics.ts';
import { openServer, policyEnvironment } from '../support/open-policy.ts';
import { freePorts } from '../support/ports.ts';
import { startSallyport } from '../support/sallyport.ts';
import { startSniffingApp } from '../support/sniffing-app.ts';
import { until } from '../support/until.ts';
import { type Exchange, runBurst, runExchange } from '../support/wire-exchange.ts';

const ownName = workloadName('web', 'shop');

const routes = (port: number, limited: number): string => `---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: web, namespace: shop}
spec: {podSelector: {}, port: ${port}}
---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: open, namespace: shop}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]
  rules: [{matches: [{path: {type: PathPrefix, value: /open}}]}]
---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: closed, namespace: shop}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]
  rules: [{matches: [{path: {type: PathPrefix, value: /closed}}]}]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: open, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: HTTPRoute, name: open}
  requiredAuthenticationRefs: []
---
apiVersion: policy.linkerd.io/v1alpha1
kind: HTTPLocalRateLimitPolicy
metadata: {name: few, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: Server, name: limited}
  total: {requestsPerSecond: 5}
${openServer('limited', limited)}`;

/** Decisions on HTTP: each request moves exactly one of them. */
const httpDecisions = [
  'inbound_http_authz_allow_total',
  'inbound_http_authz_deny_total',
  'inbound_http_route_not_found_total',
  'inbound_http_local_ratelimit_total',
];

const route = ['route_group', 'route_kind', 'route_name'];
const authz = ['authz_group', 'authz_kind', 'authz_name'];
const server = ['srv_group', 'srv_kind', 'srv_name', 'srv_port'];
const target = ['target_addr', 'target_ip', 'target_port'];

/** What Linkerd's viz extension and Grafana dashboards query of the inbound side, with the labels they group or filter by. */
const consumed: readonly (readonly [name: string, labels: readonly string[]])[] = [
  ['response_total', ['direction', 'tls', 'status_code', 'classification', ...target, ...server, ...route, ...authz]],
  ['response_latency_ms_bucket', ['direction', 'tls', 'le', ...target, ...server, ...route, ...authz]],
  ['request_total', ['direction', 'tls', ...target, ...server, ...route, ...authz]],
  ['inbound_http_authz_allow_total', ['tls', ...target, ...server, ...route, ...authz]],
  ['inbound_http_authz_deny_total', ['tls', ...target, ...server, ...route]],
  ['tcp_open_connections', ['direction', 'peer', 'tls', ...target, ...server]],
  ['tcp_open_total', ['direction', 'peer', 'tls', ...target, ...server]],
  ['tcp_read_bytes_total', ['direction', 'peer', 'tls', ...target, ...server]],
  ['tcp_write_bytes_total', ['direction', 'peer', 'tls', ...target, ...server]],
  ['tcp_close_total', ['direction', 'peer', 'tls', 'errno', ...target, ...server]],
  ['process_start_time_seconds', []],
  ['process_cpu_seconds_total', []],
  ['process_resident_memory_bytes', []],
  ['process_virtual_memory_bytes', []],
  ['process_open_fds', []],
];

await t.test('metrics add up', { timeout: 840_000 }, metricsOfTraffic);

async function metricsOfTraffic(t: Test): Promise<void> {
  const folder = temporaryFolder(t);
  const app = await startSniffingApp(t);
  const [port = 0, limited = 0, opaque = 0, closed = 0] = await freePorts(4);
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(folder, routes(port, limited) + openServer('opaque', opaque, 'opaque')),
      SALLYPORT_INBOUND_PORTS: [port, limited, opaque, closed].map((p) => `${p}=127.0.0.1:${app.port}`).join(),
      ...identityEnvironment(join(folder, 'identity'), testCertificate({ dnsNames: [ownName] })),
    },
  });
  const orders = workloadCertificate('orders', 'shop');
  const mesh: Exchange['tls'] = {
    servername: ownName,
    ca: orders.trustAnchorsPem,
    cert: orders.certificatePem,
    key: orders.keyPem,
  };
  const before = await scrape(sallyport.adminPort);

  const rows: readonly { readonly path: string; readonly status: number; readonly counter: string }[] = [
    { path: '/open/a', status: 200, counter: 'inbound_http_authz_allow_total' },
    { path: '/closed/a', status: 403, counter: 'inbound_http_authz_deny_total' },
    { path: '/nowhere', status: 404, counter: 'inbound_http_route_not_found_total' },
  ];
  const grpcStatus: Readonly<Record<number, string>> = { 200: '0', 403: '7', 404: '5' };
  let sent = 0;
  const labels = { srv_name: 'web', srv_port: String(port) };
  for (const { path, status, counter } of rows) {
    const counted = await scrape(sallyport.adminPort);
    let here = 0;
    for (const tls of [undefined, mesh]) {
      for (const proto of ['http/1.1', 'http/2', 'grpc'] as const) {
        const method = proto === 'grpc' ? 'POST' : 'GET';
        const exchange = { host: '127.0.0.1', port, proto, path, method, ...(tls === undefined ? {} : { tls }) };
        for (let n = 0; n < 5; n++) {
          const result = await runExchange(exchange);
          const wanted = proto === 'grpc' ? { status: 200, grpcStatus: grpcStatus[status] } : { status };
          if (n === 0) t.match(result, wanted, `${path} over ${proto}${tls === undefined ? '' : ' in the mesh'}`);
          here += 1;
        }
      }
    }
    t.equal(growth(counted, await scrape(sallyport.adminPort), counter, labels), here, `${here} more in ${counter}`);
    sent += here;
  }
  const burst = await runBurst({ host: '127.0.0.1', port: limited, proto: 'http/1.1', path: '/' }, 12);
  sent += burst.statuses.length;
  const refused = burst.statuses.filter((status) => status === 429).length;
  t.ok(refused > 0, `${refused} of 12 were limited`);
  for (const [tcpPort, count] of [
    [opaque, 3],
    [closed, 2],
  ] as const) {
    for (let n = 0; n < count; n++) {
      await runExchange({ host: '127.0.0.1', port: tcpPort, proto: 'tcp', payload: 'hello-not-http\n' });
    }
  }

  const after = await scrape(sallyport.adminPort);
  const decided = (names: readonly string[]): number =>
    names.reduce(
      (total, name) =>
        total +
        [port, limited, opaque, closed].reduce(
          (sum, p) => sum + growth(before, after, name, { srv_port: String(p) }),
          0,
        ),
      0,
    );
  t.equal(decided(httpDecisions), sent, `allowed + denied + not found + limited is ${sent}`);
  t.equal(growth(before, after, 'inbound_http_local_ratelimit_total'), refused, 'limited');
  t.equal(decided(['inbound_tcp_authz_allow_total']), 3, 'connections allowed');
  t.equal(decided(['inbound_tcp_authz_deny_total']), 2, 'connections denied');
  t.equal(growth(before, after, 'response_total', labels), 30, 'only what was forwarded is in response_total');
  t.equal(growth(before, after, 'response_latency_ms_count', labels), 30, 'and in the latencies');
  const responses = after.find('response_total', { ...labels, classification: 'success' });
  t.equal(
    responses.reduce((sum, { value }) => sum + value, 0),
    30,
    'all of them successes',
  );

  await t.test('everything that viz and Grafana query is there', async (t) => {
    for (const [name, wanted] of consumed) {
      const series = after.find(name);
      const complete = series.filter((sample) => wanted.every((label) => sample.labels.has(label)));
      t.ok(complete.length > 0, `${name}{${wanted.join()}}`);
    }
    t.ok(after.find('response_total', { direction: 'inbound', tls: 'true' }).length > 0, 'meshed responses');
    t.ok(after.find('tcp_open_total', { direction: 'inbound', peer: 'src' }).length > 0, 'the client side');
    t.ok(
      after.find('tcp_open_total', { direction: 'inbound', peer: 'dst', no_tls_reason: 'loopback' }).length > 0,
      'the app side',
    );
  });

  await t.test('every connection that was opened is closed again in the books', async (t) => {
    const open = async (): Promise<number> =>
      (await scrape(sallyport.adminPort)).sum('tcp_open_connections', { peer: 'src', target_port: String(port) });
    await until('the gauge to fall to 0', async () => (await open()) === 0);
    const now = await scrape(sallyport.adminPort);
    for (const p of [port, limited, opaque]) {
      const mine = { peer: 'src', target_port: String(p) };
      t.equal(now.sum('tcp_close_total', mine), now.sum('tcp_open_total', mine), `port ${p}: as many closed as opened`);
    }
  });

  await t.test('promtool reads it', { skip: await missing(t, 'promtool') }, async (t) => {
    const checked = spawnSync('promtool', ['check', 'metrics'], { input: after.text, encoding: 'utf8' });
    const complaints = `${checked.stdout}${checked.stderr}`.split('\n').filter((line) => line !== '');
    // Linkerd's own names: milliseconds instead of the base unit seconds.
    const earned = complaints.filter(
      (line) => !/^response_latency_ms(_\w+)? .*(base unit|abbreviated units)/.test(line),
    );
    t.same(earned, [], 'no complaint but those that the names of Linkerd earn');
  });
  t.match(await sallyport.stop(), { code: 0 });
}
