import { join } from 'node:path';
import t, { type Test } from 'tap';
import { testCertificate, workloadCertificate, workloadName } from '../support/certificates.ts';
import { identityEnvironment, replaceFile, temporaryFolder } from '../support/files.ts';
import { createNamespace, namespacesUnavailable } from '../support/namespace.ts';
import { startSallyport } from '../support/sallyport.ts';
import { until } from '../support/until.ts';
import { startDriver } from '../support/wire-driver.ts';
import type { Exchange } from '../support/wire-exchange.ts';

const podAddress = '10.244.1.10';
const probeAddress = '45.79.3.202';
const adminPort = 4191;
const healthPort = 4192;
const ownName = workloadName('linkerd-gateway', 'linkerd-multicluster');

const server = `
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: proxy-admin, namespace: linkerd-multicluster}
spec: {podSelector: {matchLabels: {app: linkerd-gateway}}, port: linkerd-admin, proxyProtocol: HTTP/1}
`;

/** The three grants of a multicluster gateway: any mesh identity, the private networks, the pod itself. */
const grants = `
apiVersion: policy.linkerd.io/v1beta1
kind: ServerAuthorization
metadata: {name: admin-mesh, namespace: linkerd-multicluster}
spec:
  server: {name: proxy-admin}
  client:
    networks: [{cidr: 0.0.0.0/0}, {cidr: '::/0'}]
    meshTLS: {identities: ['*']}
---
apiVersion: policy.linkerd.io/v1beta1
kind: ServerAuthorization
metadata: {name: admin-private, namespace: linkerd-multicluster}
spec:
  server: {name: proxy-admin}
  client:
    networks: [{cidr: 10.0.0.0/8}, {cidr: 172.16.0.0/12}, {cidr: 192.168.0.0/16}]
    unauthenticated: true
---
apiVersion: policy.linkerd.io/v1beta1
kind: ServerAuthorization
metadata: {name: admin-localhost, namespace: linkerd-multicluster}
spec:
  server: {name: proxy-admin}
  client:
    networks: [{cidr: 127.0.0.1/32}, {cidr: '::1/128'}]
    unauthenticated: true
`;

const route = `
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: metrics, namespace: linkerd-multicluster}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: proxy-admin}]
  rules: [{matches: [{path: {type: Exact, value: /metrics}}]}]
`;

const unavailable = namespacesUnavailable();
if (unavailable !== null) t.plan(0, unavailable);
else await t.test('probes from anywhere', { timeout: 840_000 }, probesFromAnywhere);

async function probesFromAnywhere(t: Test): Promise<void> {
  const folder = temporaryFolder(t);
  const policyFile = join(folder, 'policy', 'policy.yaml');
  replaceFile(policyFile, `${server}---${grants}`);
  const namespace = await createNamespace(t, [podAddress, probeAddress, '10.1.2.3']);
  const driver = await startDriver(t, namespace.within);
  const own = testCertificate({ dnsNames: [ownName] });
  const sallyport = await startSallyport(t, {
    within: namespace.within,
    health: async (path, port) => (await driver.get(port, path)).status ?? undefined,
    env: {
      SALLYPORT_POLICY: join(folder, 'policy'),
      SALLYPORT_POD_NAMESPACE: 'linkerd-multicluster',
      SALLYPORT_POD_LABELS: 'app=linkerd-gateway',
      SALLYPORT_POD_IPS: podAddress,
      SALLYPORT_INBOUND_PORTS: `8080=127.0.0.1:${await driver.startApp()}`,
      SALLYPORT_ADMIN_LISTEN: `0.0.0.0:${adminPort}`,
      SALLYPORT_HEALTH_LISTEN: `0.0.0.0:${healthPort}`,
      ...identityEnvironment(join(folder, 'identity'), own),
    },
  });

  const get = async (from: string, port: number, path: string, more: Partial<Exchange> = {}): Promise<number> => {
    const host = from.startsWith('127.') ? '127.0.0.1' : podAddress;
    const result = await driver.exchange({ proto: 'http/1.1', host, port, path, localAddress: from, ...more });
    return result.kind === 'http' ? result.status : 0;
  };
  const probe = (port: number, path: string, more?: Partial<Exchange>): Promise<number> =>
    get(probeAddress, port, path, more);
  const apply = async (documents: string): Promise<void> => {
    const generation = async (): Promise<number> => (await driver.scrape(adminPort)).sum('sallyport_policy_generation');
    const before = await generation();
    replaceFile(policyFile, documents);
    await until('the new policy', async () => (await generation()) > before);
  };

  await t.test('the health port answers probes, and nothing else', async (t) => {
    t.equal(await probe(healthPort, '/live'), 200);
    t.equal(await probe(healthPort, '/ready'), 200);
    t.equal(await probe(healthPort, '/ready', { method: 'HEAD' }), 200);
    for (const [path, method] of [
      ['/metrics', 'GET'],
      ['/policy', 'GET'],
      ['/shutdown', 'POST'],
      ['/live', 'POST'],
    ] as const) {
      t.ok((await probe(healthPort, path, { method })) >= 400, `${method} ${path}`);
    }
  });

  await t.test('without a route, the admin port answers probes and refuses the rest', async (t) => {
    t.equal(await probe(adminPort, '/live'), 200);
    t.equal(await probe(adminPort, '/ready'), 200);
    t.equal(await probe(adminPort, '/live', { method: 'HEAD' }), 403, 'a probe is a GET');
    t.equal(await probe(adminPort, '/metrics'), 403);
    const denied = await sallyport.waitForLog(
      'the denial of /metrics',
      (line) => line.msg === 'Request denied' && JSON.stringify(line).includes('/metrics'),
    );
    t.match(denied, { level: /info/i, server: { kind: 'server', name: 'proxy-admin' }, client: { ip: probeAddress } });
    t.match(JSON.stringify(denied), /network|identity/, 'names the clause that failed');
  });

  await t.test('the three grants', async (t) => {
    const orders = workloadCertificate('orders', 'shop');
    const tls = { servername: ownName, ca: own.trustAnchorsPem };
    const meshed = { tls: { ...tls, cert: orders.certificatePem, key: orders.keyPem } };
    t.equal(await probe(adminPort, '/metrics', meshed), 200, 'any mesh identity, from anywhere');
    t.equal(await probe(adminPort, '/metrics', { tls }), 403, 'TLS without an identity is none');
    t.equal(await get('10.1.2.3', adminPort, '/metrics'), 200, 'a private network');
    t.equal(await get('127.0.0.1', adminPort, '/metrics'), 200, 'localhost');
  });

  await t.test('with a route attached, probes pass no longer', async (t) => {
    await apply(`${server}---${grants}---${route}`);
    t.equal(await probe(adminPort, '/live'), 404);
    t.equal(await probe(adminPort, '/ready'), 404);
    t.equal(await probe(adminPort, '/metrics'), 403);
    t.equal(await probe(healthPort, '/ready'), 200, 'the health port is behind no policy');
  });

  await t.test('without its Server, the admin port falls back to the default deny', async (t) => {
    await apply(grants);
    t.equal(await probe(adminPort, '/metrics'), 403);
    t.equal(await get('10.1.2.3', adminPort, '/metrics'), 403, 'the grants had the Server as their target');
    t.equal(await probe(adminPort, '/live'), 200, 'and probes pass as on any port under deny');
    t.equal(await probe(8080, '/'), 403);
  });

  t.match(await sallyport.stop(), { code: 0 });
}
