import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type Child, startChild } from '../../support/children.ts';
import { replaceFile, temporaryFolder } from '../../support/files.ts';
import { parseExposition } from '../../support/metrics.ts';
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
import { type PodApp, startPodApp } from '../../support/pod-programs.ts';
import { runSallyport, type Sallyport } from '../../support/sallyport.ts';
import { patience, until } from '../../support/until.ts';

// A shop whose namespace is isolated by NetworkPolicies, in a network where nothing but Sallyport enforces them. Linkerd's
// policy lets everyone in, so that what is refused here is refused by them.

const unavailable = await podNetworkUnavailable(t);

/** What an operator wrote: nobody but the same namespace, pods of the mesh, and the control plane. */
const sameNamespace = `---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny-other-namespaces, namespace: shop}
spec:
  podSelector: {}
  policyTypes: [Ingress]
  ingress: [{from: [{podSelector: {}}]}]
`;
const meshed = `---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: allow-meshed, namespace: shop}
spec:
  podSelector: {matchLabels: {app: web}}
  ingress:
    - from:
        - namespaceSelector: {}
          podSelector:
            matchExpressions: [{key: linkerd.io/control-plane-ns, operator: Exists}]
`;
const controlPlane = (peers: string): string => `---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: allow-control-plane, namespace: shop}
spec:
  podSelector: {}
  ingress:
    - from:
        - namespaceSelector: {matchLabels: {linkerd.io/is-control-plane: "true"}}
${peers}`;
/** The extension's namespace is not the control plane's: who forgets it has no metrics. */
const viz = `    - from:
        - namespaceSelector: {matchLabels: {linkerd.io/extension: viz}}
      ports: [{port: web}]
`;

interface Listed {
  readonly name: string;
  readonly namespace: string;
  readonly labels: string;
  readonly ips: readonly [four: string, six: string];
}
const meshLabel = 'linkerd.io/control-plane-ns: linkerd';
const pod = (name: string, namespace: string, labels: string, host: number): Listed => ({
  name,
  namespace,
  labels,
  ips: [`10.42.0.${host}`, `fd00:42::${host}`],
});
const web: Listed = { name: 'web-0', namespace: 'shop', labels: 'app: web', ips: [address.pod, address.pod6] };
const cart = pod('cart-0', 'shop', 'app: cart', 31);
const orders = pod('orders-0', 'orders', meshLabel, 32);
const batch = pod('batch-0', 'batch', 'app: batch', 33);
const identity = pod('identity-0', 'linkerd', 'app: identity', 34);
const prometheus = pod('prometheus-0', 'linkerd-viz', 'app: prometheus', 35);
const clients = [cart, orders, batch, identity, prometheus];

/** As `kubectl get pods,namespaces -A -o yaml` prints it. */
function listing(pods: readonly Listed[]): string {
  const namespaces: readonly [string, string][] = [
    ['shop', 'team: shop'],
    ['orders', 'team: orders'],
    ['batch', 'team: batch'],
    ['linkerd', 'linkerd.io/is-control-plane: "true"'],
    ['linkerd-viz', 'linkerd.io/extension: viz'],
  ];
  const items = [
    ...pods.map(
      ({ name, namespace, labels, ips: [four, six] }) => `- apiVersion: v1
  kind: Pod
  metadata:
    labels:
      ${labels}
    name: ${name}
    namespace: ${namespace}
  spec:
    nodeName: node-1
  status:
    hostIP: ${address.node}
    hostIPs:
    - ip: ${address.node}
    - ip: ${address.node6}
    phase: Running
    podIP: ${four}
    podIPs:
    - ip: ${four}
    - ip: ${six}
`,
    ),
    ...namespaces.map(
      ([name, label]) => `- apiVersion: v1
  kind: Namespace
  metadata:
    labels:
      ${label}
    name: ${name}
`,
    ),
  ];
  return `apiVersion: v1\nitems:\n${items.join('')}kind: List\nmetadata:\n  resourceVersion: ""\n`;
}

interface Scene {
  readonly net: PodNetwork;
  readonly app: PodApp;
  readonly sallyport: Sallyport;
  readonly policy: string;
  /** Puts these policies, and the listing if given, in force. */
  apply(policies: string, pods?: readonly Listed[]): Promise<void>;
}

async function startScene(t: Test): Promise<Scene> {
  const folder = join(temporaryFolder(t), 'policy');
  const [policies, cluster] = [join(folder, 'network-policies.yaml'), join(folder, 'cluster.yaml')];
  replaceFile(policies, sameNamespace + meshed + controlPlane(''));
  replaceFile(cluster, listing([web, ...clients]));
  const net = await createPodNetwork(t);
  for (const one of clients.flatMap(({ ips }) => ips)) await net.client.namespace.addAddress(one, 'eth0');
  const app = await startPodApp(t, net);
  await applyRules(net.pod, '--own-address');
  const sallyport = await startSidecar(t, net, podEnvironment(folder));
  const loads = (): number => sallyport.logs().filter(({ msg }) => msg === 'Policy loaded').length;
  return {
    net,
    app,
    sallyport,
    policy: folder,
    async apply(text, pods) {
      const before = loads();
      replaceFile(policies, text);
      if (pods !== undefined) replaceFile(cluster, listing(pods));
      await until('the policy to be loaded', () => loads() > before);
    },
  };
}

const podEnvironment = (policy: string): Record<string, string> => ({
  SALLYPORT_POLICY: policy,
  SALLYPORT_POD_NAME: 'web-0',
  SALLYPORT_POD_NAMESPACE: 'shop',
  SALLYPORT_POD_LABELS: 'app=web',
  SALLYPORT_POD_PORTS: 'web=8081,side=9090',
  SALLYPORT_DEFAULT_INBOUND_POLICY: 'all-unauthenticated',
  // So that a half-sent request is still waited for when the slowest machine gets to it.
  SALLYPORT_DETECT_TIMEOUT: '2m',
});

type Row = readonly [who: string, from: Place, source: string, target: string, port: number, reaches: boolean];

/** Who reaches what: answers, or a connection that is closed without a byte. */
async function expectTable(t: Test, app: PodApp, rows: readonly Row[]): Promise<void> {
  for (const [who, from, source, target, port, reaches] of rows) {
    const seen = app.connections().length;
    const answer = await curl(from, at(target, port), '--interface', source);
    const what = `${who} (${source}) to ${port}`;
    t.equal(answer.status, reaches ? 200 : 0, `${what}: ${answer.stderr}`);
    if (reaches) continue;
    t.match(String(answer.code), /^(52|55|56)$/, `${what}: closed, not timed out`);
    t.equal(app.connections().length, seen, `${what}: the app heard nothing`);
  }
}

function table({ net }: Scene, reaches: Readonly<Record<string, readonly number[]>>): Row[] {
  const rows: Row[] = [];
  const add = (who: string, from: Place, sources: readonly [string, string]): void => {
    const open = reaches[who] ?? [];
    const [four, six] = sources;
    for (const port of [8081, 9090]) rows.push([who, from, four, address.pod, port, open.includes(port)]);
    rows.push([who, from, six, address.pod6, 8081, open.includes(8081)]);
  };
  for (const { name, ips } of clients) add(name, net.client, ips);
  add('node', net.node, [address.node, address.node6]);
  add('outsider', net.outsider, [address.outsider, address.outsider6]);
  add('itself', net.pod, [address.pod, address.pod6]);
  return rows;
}

const all = [8081, 9090];
const forgotten = { 'cart-0': all, 'orders-0': all, 'identity-0': all, node: all, itself: all };

async function theForgottenNamespace(t: Test, scene: Scene): Promise<void> {
  const { app, net, sallyport, apply, policy } = scene;
  await expectTable(t, app, table(scene, forgotten));

  const refused = await sallyport.waitForLog('Prometheus refused', (line) => {
    const client = (line.client ?? {}) as Record<string, unknown>;
    return line.msg === 'Connection refused' && client.ip === prometheus.ips[0];
  });
  const policies = ['allow-control-plane', 'allow-meshed', 'deny-other-namespaces'].map((name) => ({
    group: 'networking.k8s.io',
    kind: 'NetworkPolicy',
    name,
  }));
  t.match(
    refused,
    { level: 'info', policies, target: { ip: address.pod, port: 8081 }, reason: /Pod linkerd-viz\/prometheus-0/ },
    'the log names the policies, and the pod that was forgotten',
  );
  const scrape = async () => parseExposition((await curl(net.pod, at('127.0.0.1', 4191, '/metrics'))).body);
  const counted = (await scrape()).sum('sallyport_network_policy_refused_total', {
    network_policy_name: 'allow-control-plane',
    target_port: '8081',
    connection: 'new',
  });
  t.equal(counted, 6, 'batch, Prometheus and the outsider, over IPv4 and IPv6');

  const ask = ['explain', '--policy', policy, '--port', '8081', '--client', prometheus.ips[0], '--json'];
  const explained = await runSallyport(t, ask, podEnvironment(policy));
  t.equal(explained.code, 1);
  t.match(JSON.parse(explained.stdout), {
    verdict: 'deny',
    tcp: 'close',
    networkPolicies: policies,
    candidates: [
      {
        authz: policies[0],
        failed: 'network',
        detail: /wanted pods of namespaces \(linkerd\.io\/is-control-plane=true\), was .*linkerd-viz\/prometheus-0/,
      },
      { authz: policies[1], failed: 'network' },
      { authz: policies[2], failed: 'network' },
    ],
  });

  const fixed = sameNamespace + meshed + controlPlane(viz);
  await apply(fixed);
  await expectTable(t, app, table(scene, { ...forgotten, 'prometheus-0': [8081] }));
  const nowExplained = await runSallyport(t, ask, podEnvironment(policy));
  t.match(JSON.parse(nowExplained.stdout), { verdict: 'permit', networkPolicies: [] });

  t.comment('a pod that comes back with another address');
  const moved = { ...prometheus, ips: ['10.42.0.36', 'fd00:42::36'] } as const;
  for (const one of moved.ips) await net.client.namespace.addAddress(one, 'eth0');
  await apply(fixed, [web, cart, orders, batch, identity, moved]);
  await expectTable(t, app, [
    ['Prometheus of before', net.client, prometheus.ips[0], address.pod, 8081, false],
    ['Prometheus', net.client, moved.ips[1], address.pod6, 8081, true],
  ]);
  await apply(fixed, [web, ...clients]);
}

async function aFaultChangesNothing(t: Test, scene: Scene): Promise<void> {
  const { app, sallyport, policy } = scene;
  replaceFile(
    join(policy, 'network-policies.yaml'),
    sameNamespace.replace('[{podSelector: {}}]', '[{podSelektor: {}}]'),
  );
  await sallyport.waitForLog('the fault', (line) => line.code === 'unknown-field' && line.level === 'error');
  await sallyport.waitForLog('the refusal to load it', (line) =>
    /^Policy not loaded; the last good/.test(String(line.msg)),
  );
  await expectTable(t, app, table(scene, { ...forgotten, 'prometheus-0': [8081] }));
}

/** Opens a connection from one of the client's addresses, says one thing, and stays; prints what it gets, then `ended`. */
const staying = `
const [host, port, localAddress, text] = process.argv.slice(1);
const socket = require('node:net').connect({ host, port: Number(port), localAddress });
socket.on('connect', () => socket.write(text));
socket.on('data', (chunk) => process.stdout.write(chunk));
socket.on('error', () => {});
socket.on('close', () => process.stdout.write('\\nended ' + Date.now() + '\\n'));
`;

async function stay(t: Test, { net }: Scene, source: string, port: number, text: string): Promise<Child> {
  const [command = '', ...within] = net.client.namespace.within;
  const args = [...within, process.execPath, '-e', staying, address.pod, String(port), source, text];
  return startChild(t, command, args);
}

async function openConnectionsEnd(t: Test, scene: Scene): Promise<void> {
  const { net, sallyport, apply } = scene;
  await apply(sameNamespace + meshed);
  const get = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: web\r\n\r\n`;
  const kinds: readonly [what: string, port: number, says: string, hears: RegExp | null][] = [
    ['idle HTTP', 8081, get('/'), /HTTP\/1\.1 200 OK/],
    ['HTTP in flight', 8081, get('/hold'), null],
    ['bytes', 7000, '\u0001hello', /hello/],
    ['a request line that is not finished', 8081, 'GET /never', null],
  ];
  const open: { what: string; child: Child; who: Listed }[] = [];
  for (const who of [orders, cart]) {
    for (const [what, port, says, hears] of kinds) {
      const child = await stay(t, scene, who.ips[0], port, says);
      if (hears !== null) await until(`${what} of ${who.name}`, () => hears.test(child.stdout()));
      open.push({ what, child, who });
    }
  }
  await until('both requests to be held', async () => {
    const established = await net.pod.run('ss', '-Htn', 'state', 'established', 'sport', '=', ':4143');
    return established.stdout.trim().split('\n').length >= open.length;
  });

  await apply(sameNamespace);
  const loadedAt = Date.parse(String(sallyport.logs().findLast(({ msg }) => msg === 'Policy loaded')?.time));
  for (const { what, child, who } of open) {
    if (who === cart) continue;
    const ended = await until(`the end of ${what}`, () => /ended (\d+)/.exec(child.stdout())?.[1]);
    t.ok(Number(ended) - loadedAt < 1_000 * patience(), `${what}: ended within a second of the policy`);
  }
  await sallyport.waitForLog('an open connection ended', (line) => {
    return line.msg === 'Connection terminated due to policy change' && 'policies' in line;
  });
  const held = open.filter(({ who }) => who === cart);
  await curl(net.client, at(address.pod, 8081, '/release'), '--interface', cart.ips[0]);
  for (const { what, child } of held) {
    if (what === 'HTTP in flight') await until('the held answer', () => /held and released/.test(child.stdout()));
    t.notMatch(child.stdout(), /ended/, `${what}: stays where it is still admitted`);
  }
}

if (unavailable) {
  t.plan(0, unavailable);
} else {
  t.setTimeout(900_000);
  await t.test('a shop whose namespace is isolated', { timeout: 840_000 }, async (t) => {
    const scene = await startScene(t);
    await t.test('a second namespace was forgotten, and the fix', (t) => theForgottenNamespace(t, scene));
    await t.test('a fault in a NetworkPolicy changes nothing', (t) => aFaultChangesNothing(t, scene));
    await t.test('open connections that are no longer admitted end', (t) => openConnectionsEnd(t, scene));
    await t.test('the health port is outside all policy', async (t) => {
      t.equal((await curl(scene.net.outsider, at(address.pod, 4192, '/live'))).status, 200);
      t.equal((await curl(scene.net.outsider, at(address.pod, 4191, '/live'))).status, 0, 'the admin port is not');
    });
  });
}
