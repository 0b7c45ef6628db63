import { join } from 'node:path';
import t, { type Test } from 'tap';
import { testCertificate, workloadCertificate, workloadName } from '../support/certificates.ts';
import { missing, startChild } from '../support/children.ts';
import { identityEnvironment, replaceFile, temporaryFolder } from '../support/files.ts';
import { connectNamespaces, createNamespace, type Namespace, namespacesUnavailable } from '../support/namespace.ts';
import { type Sallyport, startSallyport } from '../support/sallyport.ts';
import { until } from '../support/until.ts';
import { startDriver, type WireDriver } from '../support/wire-driver.ts';
import type { Exchange } from '../support/wire-exchange.ts';

const unavailable = namespacesUnavailable() ?? (await missing(t, 'prometheus'));

/** Written before any address of the pod is known. */
const scrapePolicy = `
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: proxy-admin, namespace: shop}
spec: {podSelector: {matchLabels: {app: web}}, port: linkerd-admin, proxyProtocol: HTTP/1}
---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: metrics, namespace: shop}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: proxy-admin}]
  rules: [{matches: [{path: {type: Exact, value: /metrics}, method: GET}]}]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: prometheus, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: HTTPRoute, name: metrics}
  requiredAuthenticationRefs: [{kind: ServiceAccount, name: prometheus, namespace: monitoring}]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: own-pod, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: HTTPRoute, name: metrics}
  requiredAuthenticationRefs: [{group: policy.linkerd.io, kind: NetworkAuthentication, name: own-pod}]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: NetworkAuthentication
metadata: {name: own-pod, namespace: shop}
spec:
  networks:
    - podClusterIp
`;

/** The longer example: the pod beside three private networks, less one exception for all of them. */
const privateNetworks = scrapePolicy.replace(
  '    - podClusterIp\n',
  `    - podClusterIp
    - cidr: 10.0.0.0/8
    - cidr: 172.16.0.0/12
    - cidr: 192.168.0.0/16
    - except: [10.66.0.0/16]
`,
);

const ownName = workloadName('web', 'shop');
const adminPort = 4191;

if (unavailable) {
  t.plan(0, unavailable);
} else {
  t.setTimeout(900_000);
  await t.test('a pod scrapes itself', { timeout: 840_000 }, podScrapesItself);
}

/** A pod with an interface of its own, and a second namespace that stands for the rest of the cluster. */
async function startPod(
  t: Test,
): Promise<{ pod: Namespace; device: string; inPod: WireDriver; elsewhere: WireDriver }> {
  const pod = await createNamespace(t);
  const cluster = await createNamespace(t, ['10.9.9.9', '10.66.0.7', '172.20.0.4', '192.168.7.7', '203.0.113.50']);
  const { oneDevice } = await connectNamespaces(
    t,
    { namespace: pod, address: '10.42.0.7/24' },
    { namespace: cluster, address: '10.42.0.1/24' },
  );
  return {
    pod,
    device: oneDevice,
    inPod: await startDriver(t, pod.within),
    elsewhere: await startDriver(t, cluster.within),
  };
}

async function podScrapesItself(t: Test): Promise<void> {
  const folder = temporaryFolder(t);
  const policyFile = join(folder, 'policy', 'policy.yaml');
  replaceFile(policyFile, scrapePolicy);
  const { pod, device, inPod, elsewhere } = await startPod(t);
  const own = testCertificate({ dnsNames: [ownName] });
  const prometheusCertificate = workloadCertificate('prometheus', 'monitoring');
  const appPort = await inPod.startApp();
  const sallyport = await startSallyport(t, {
    within: pod.within,
    health: async (path, port) => (await inPod.get(port, path)).status ?? undefined,
    env: {
      SALLYPORT_POLICY: join(folder, 'policy'),
      SALLYPORT_POD_NAMESPACE: 'shop',
      SALLYPORT_POD_LABELS: 'app=web',
      SALLYPORT_INBOUND_PORTS: `8080=127.0.0.1:${appPort}`,
      SALLYPORT_ADMIN_LISTEN: `0.0.0.0:${adminPort}`,
      SALLYPORT_HEALTH_LISTEN: '127.0.0.1:4192',
      ...identityEnvironment(join(folder, 'identity'), own),
    },
  });

  const ask = (localAddress: string, podAddress: string, tls?: Exchange['tls']): Exchange => ({
    proto: 'http/1.1',
    host: podAddress,
    port: adminPort,
    authority: `${podAddress}:${adminPort}`,
    localAddress,
    path: '/metrics',
    ...(tls === undefined ? {} : { tls }),
  });
  const mesh = {
    servername: ownName,
    ca: own.trustAnchorsPem,
    cert: prometheusCertificate.certificatePem,
    key: prometheusCertificate.keyPem,
  };
  const statusFrom = async (driver: WireDriver, exchange: Exchange): Promise<number | string> => {
    const result = await driver.exchange(exchange);
    return result.kind === 'http' ? result.status : result.kind;
  };

  const targetsFile = join(folder, 'targets.json');
  const target = (address: string): void =>
    replaceFile(targetsFile, JSON.stringify([{ targets: [`${address}:${adminPort}`] }]));
  target('10.42.0.7');
  await startPrometheus(t, pod, folder, targetsFile);

  await t.test('at its own address, by a real Prometheus', async (t) => {
    t.match(await targetState(inPod, '10.42.0.7'), { health: 'up', lastError: '' });
    t.equal(await statusFrom(inPod, ask('10.42.0.7', '10.42.0.7')), 200);
  });

  await t.test('not from another address without TLS', async (t) => {
    t.equal(await statusFrom(elsewhere, ask('10.9.9.9', '10.42.0.7')), 403);
    const denied = await sallyport.waitForLog('the denial', (line) => line.msg === 'Request denied');
    t.match(denied, { client: { ip: '10.9.9.9' }, server: { name: 'proxy-admin' }, route: { name: 'metrics' } });
  });

  await t.test('from anywhere with the identity of prometheus, and no other', async (t) => {
    t.equal(await statusFrom(elsewhere, ask('203.0.113.50', '10.42.0.7', mesh)), 200);
    const other = workloadCertificate('orders', 'shop');
    const wrong = { ...mesh, cert: other.certificatePem, key: other.keyPem };
    t.equal(await statusFrom(elsewhere, ask('203.0.113.50', '10.42.0.7', wrong)), 403);
    t.equal(await statusFrom(elsewhere, ask('203.0.113.50', '10.42.0.7', { ...mesh, servername: ownName })), 200);
  });

  await t.test('at its new address, with the policy as it was', async (t) => {
    await pod.replaceAddress('10.42.0.7/24', '10.42.0.99/24', device);
    target('10.42.0.99');
    t.match(await targetState(inPod, '10.42.0.99'), { health: 'up', lastError: '' });
    t.equal(await statusFrom(inPod, ask('10.42.0.99', '10.42.0.99')), 200);
    t.equal(await statusFrom(elsewhere, ask('10.9.9.9', '10.42.0.99')), 403);
    // The address that was the pod's is now anybody's.
    await pod.addAddress('10.42.0.7');
    await until(
      'the old address to mean nothing',
      async () => (await statusFrom(inPod, ask('10.42.0.7', '10.42.0.99'))) === 403,
    );
  });

  await t.test('beside three private networks with one exception', async (t) => {
    const before = await inPod.scrape(adminPort);
    replaceFile(policyFile, privateNetworks);
    await generationAfter(inPod, before.sum('sallyport_policy_generation'));
    const rows: [WireDriver, string, number][] = [
      [inPod, '10.42.0.99', 200],
      [elsewhere, '10.9.9.9', 200],
      [elsewhere, '172.20.0.4', 200],
      [elsewhere, '192.168.7.7', 200],
      [elsewhere, '10.66.0.7', 403],
      [elsewhere, '203.0.113.50', 403],
    ];
    for (const [driver, address, status] of rows) {
      t.equal(await statusFrom(driver, ask(address, '10.42.0.99')), status, `${address}: ${status}`);
    }
    t.equal(
      await statusFrom(elsewhere, ask('10.66.0.7', '10.42.0.99', mesh)),
      200,
      'the exception binds networks only',
    );
  });

  await stopsCleanly(t, sallyport);
}

async function generationAfter(driver: WireDriver, generation: number): Promise<void> {
  await until(
    'the new policy',
    async () => (await driver.scrape(adminPort)).sum('sallyport_policy_generation') > generation,
  );
}

async function stopsCleanly(t: Test, sallyport: Sallyport): Promise<void> {
  t.match(await sallyport.stop(), { code: 0 }, 'stops cleanly');
}

async function startPrometheus(t: Test, pod: Namespace, folder: string, targetsFile: string): Promise<void> {
  const config = join(folder, 'prometheus.yml');
  replaceFile(
    config,
    `
global: {scrape_interval: 500ms, scrape_timeout: 500ms}
scrape_configs:
  - job_name: linkerd-proxy
    file_sd_configs: [{files: ['${targetsFile}'], refresh_interval: 1s}]
`,
  );
  const [command = '', ...args] = [
    ...pod.within,
    'prometheus',
    `--config.file=${config}`,
    `--storage.tsdb.path=${join(folder, 'prometheus')}`,
    '--web.listen-address=127.0.0.1:9090',
  ];
  await startChild(t, command, args);
}

interface TargetState {
  readonly health: string;
  readonly lastError: string;
}

/** What Prometheus itself says of its scrapes of `address`, as soon as it calls them up. */
async function targetState(inPod: WireDriver, address: string): Promise<TargetState> {
  let seen = '';
  return until(
    `Prometheus to find ${address} up`,
    async () => {
      const { status, body } = await inPod.get(9090, '/api/v1/targets');
      seen = `${status} ${body}`;
      // It says 503 while it starts.
      if (status !== 200) return undefined;
      const { data } = JSON.parse(body) as { data: { activeTargets: (TargetState & { scrapeUrl: string })[] } };
      return data.activeTargets.find(({ scrapeUrl, health }) => scrapeUrl.includes(`//${address}:`) && health === 'up');
    },
    { timeoutMs: 20_000, everyMs: 200, lastSeen: () => seen },
  );
}
