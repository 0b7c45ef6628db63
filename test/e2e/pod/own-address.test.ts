import { join } from 'node:path';
import t, { type Test } from 'tap';
import { replaceFile, temporaryFolder } from '../../support/files.ts';
import { parseExposition } from '../../support/metrics.ts';
import {
  address,
  applyRules,
  at,
  createPodNetwork,
  curl,
  podDevice,
  podNetworkUnavailable,
  startSidecar,
} from '../../support/pod-network.ts';
import { startPodApp, startPrometheus } from '../../support/pod-programs.ts';
import { until } from '../../support/until.ts';

// What containers of one pod send to the pod's own address goes through the proxy, too, and is known by that address.
// Neither the policy nor the environment says what the address is.

const unavailable = await podNetworkUnavailable(t, 'prometheus');

const appMetrics = 9090;

/** `/metrics` of a port, for the pod itself. */
const scrapeByOwnPod = (name: string, port: string | number): string => `---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: ${name}, namespace: shop}
spec: {podSelector: {}, port: ${port}, proxyProtocol: HTTP/1}
---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: ${name}-metrics, namespace: shop}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: ${name}}]
  rules: [{matches: [{path: {value: /metrics, type: Exact}, method: GET}]}]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: ${name}-own-pod, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: HTTPRoute, name: ${name}-metrics}
  requiredAuthenticationRefs: [{group: policy.linkerd.io, kind: NetworkAuthentication, name: own-pod}]
`;

const policy = `${scrapeByOwnPod('app-metrics', appMetrics)}${scrapeByOwnPod('proxy-admin', 'linkerd-admin')}---
apiVersion: policy.linkerd.io/v1alpha1
kind: NetworkAuthentication
metadata: {name: own-pod, namespace: shop}
spec: {networks: [podClusterIp]}
`;

async function ownAddress(t: Test): Promise<void> {
  const folder = temporaryFolder(t);
  replaceFile(join(folder, 'policy', 'policy.yaml'), policy);
  const net = await createPodNetwork(t);
  const { pod, client } = net;
  // As at the pod's start: first the rules, then everybody at once.
  await applyRules(pod, '--own-address');
  const [prometheus, app, sallyport] = await Promise.all([
    startPrometheus(t, net, folder),
    startPodApp(t, net),
    startSidecar(t, net, { SALLYPORT_POLICY: join(folder, 'policy') }),
  ]);
  const targets = (host: string): string[] => [`${host}:${appMetrics}`, `${host}:4191`];
  const scrapedAt = async (host: string): Promise<void> => {
    prometheus.target(...targets(host));
    for (const target of targets(host)) await prometheus.up(target);
  };
  const book = async (host: string): Promise<number> => {
    const { body } = await curl(pod, at(host, 4191, '/metrics'));
    return parseExposition(body).sum('inbound_http_authz_allow_total', {
      ...{ srv_name: 'app-metrics', route_name: 'app-metrics-metrics', authz_name: 'app-metrics-own-pod' },
      ...{ target_ip: host, target_port: String(appMetrics) },
    });
  };

  await t.test('Prometheus scrapes the app and the proxy at the address of its own pod', async (t) => {
    await scrapedAt(address.pod);
    t.ok((await book(address.pod)) > 0, 'and podClusterIp is what lets it');
    t.match(await curl(pod, at(address.pod6, appMetrics, '/metrics')), { status: 200, body: /app_up 1/ }, 'IPv6');
  });

  await t.test('that address is guarded like any other, and loopback is not', async (t) => {
    t.match(await curl(pod, at(address.pod, appMetrics, '/orders')), { status: 404 }, 'a path without a route');
    for (const host of [address.pod, address.pod6]) {
      t.match(await curl(pod, at(host, 8081, '/from-inside')), { status: 403 }, `${host}: a port without a policy`);
      const denied = await sallyport.waitForLog(
        'the denial',
        (line) => JSON.stringify(line).includes(`"${host}"`) && line.path === '/from-inside',
      );
      t.match(denied, { client: { ip: host }, target: { ip: host, port: 8081 } }, 'the source is the pod itself');
    }
    t.match(await curl(pod, at('127.0.0.1', 8081)), { status: 200 });
    t.match(await curl(pod, at('::1', 8082)), { status: 200 });
  });

  await t.test('for others that policy opens nothing', async (t) => {
    for (const port of [appMetrics, 4191]) {
      t.match(await curl(client, at(address.pod, port, '/metrics')), { status: 403 }, `port ${port}`);
    }
  });

  await t.test('at the new address of the pod, with everything as it was written', async (t) => {
    const moved = '10.42.0.99';
    // In this order: with the first address of a network its others go, too.
    await pod.namespace.removeAddress(`${address.pod}/24`, podDevice);
    await pod.namespace.addAddress(`${moved}/24`, podDevice);
    await pod.run('ip', 'route', 'replace', 'default', 'via', address.node);
    await scrapedAt(moved);
    t.ok((await book(moved)) > 0);
    // What was the pod's own address now belongs to another.
    await client.namespace.addAddress(`${address.pod}/24`, 'eth0');
    const asOld = ['--interface', address.pod];
    t.match(
      await curl(client, at(moved, appMetrics, '/metrics'), ...asOld),
      { status: 403 },
      'the old one means nothing',
    );
  });

  t.same(app.unguarded(), [], 'nothing has come to the app by another way');
  t.notMatch(policy, /\d+\.\d+\.\d+\.\d+/, 'no address is written in the policy');
  t.match(await sallyport.stop(), { code: 0 });
}

/** Without the flag, what is local stays local, as in Linkerd. */
async function withoutTheFlag(t: Test): Promise<void> {
  const net = await createPodNetwork(t);
  const app = await startPodApp(t, net);
  await applyRules(net.pod);
  const sallyport = await startSidecar(t, net, {});
  t.match(await curl(net.pod, at(address.pod, 8081)), { status: 200 }, 'straight to the app');
  await until('the app to have seen it', () => app.unguarded().length === 1);
  t.match(await curl(net.client, at(address.pod, 8081)), { status: 403 });
  t.equal(app.unguarded().length, 1);
  t.match(await sallyport.stop(), { code: 0 });
}

if (unavailable) {
  t.plan(0, unavailable);
} else {
  t.setTimeout(900_000);
  await t.test("the pod's own address", { timeout: 840_000 }, ownAddress);
  await t.test('without --own-address', { timeout: 840_000 }, withoutTheFlag);
}
