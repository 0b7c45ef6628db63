import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { missing, runToEnd } from '../support/children.ts';
import { temporaryFolder } from '../support/files.ts';
import { connectNamespaces, createNamespace, type Namespace, namespacesUnavailable } from '../support/namespace.ts';
import { openServer, policyEnvironment } from '../support/open-policy.ts';
import { type LogLine, type Sallyport, startSallyport } from '../support/sallyport.ts';
import { startDriver } from '../support/wire-driver.ts';
import type { Exchange } from '../support/wire-exchange.ts';

// A pod as Linkerd's init container leaves it: whatever arrives is redirected to 4143, and the port that a client meant
// is known to the kernel alone.

const pod4 = '10.42.0.7';
const second4 = '10.42.0.8';
const pod6 = 'fd00:42::7';
const client4 = '10.42.0.1';
const client6 = 'fd00:42::1';

const unavailable = namespacesUnavailable() ?? (await missing(t, 'iptables', 'ip6tables'));

async function redirect(t: Test, pod: Namespace): Promise<void> {
  const [command = '', ...args] = pod.within;
  for (const tool of ['iptables', 'ip6tables']) {
    const rule = ['-t', 'nat', '-A', 'PREROUTING', '-p', 'tcp', '-j', 'REDIRECT', '--to-ports', '4143'];
    const done = await runToEnd(t, command, [...args, tool, '-w', ...rule]);
    if (done.code !== 0) throw new Error(`${tool}: ${done.stderr}`);
  }
}

async function redirected(t: Test): Promise<void> {
  const pod = await createNamespace(t);
  const outside = await createNamespace(t);
  const { oneDevice, twoDevice } = await connectNamespaces(
    t,
    { namespace: pod, address: `${pod4}/24` },
    { namespace: outside, address: `${client4}/24` },
  );
  await pod.addAddress(`${pod6}/64`, oneDevice);
  await outside.addAddress(`${client6}/64`, twoDevice);
  await redirect(t, pod);
  const inPod = await startDriver(t, pod.within);
  const client = await startDriver(t, outside.within);
  // Two ports of one app, on the wildcard address as most apps listen.
  for (const port of [8080, 9090]) await inPod.startApp({ host: '::', port });
  const sallyport = await startSallyport(t, {
    within: pod.within,
    health: async (path, port) => (await inPod.get(port, path)).status ?? undefined,
    env: {
      ...policyEnvironment(temporaryFolder(t), openServer('web', 8080)),
      SALLYPORT_INBOUND_LISTEN: '[::]:4143',
      SALLYPORT_ADMIN_LISTEN: '[::]:4191',
      SALLYPORT_HEALTH_LISTEN: '127.0.0.1:4192',
    },
  });

  const to = (localAddress: string, port: number, more: Partial<Exchange> = {}): Exchange => ({
    proto: 'http/1.1',
    host: localAddress.includes(':') ? pod6 : pod4,
    localAddress,
    port,
    path: '/',
    ...more,
  });
  for (const address of [client4, client6]) {
    t.match(
      await client.exchange(to(address, 8080)),
      { kind: 'http', status: 200 },
      `${address}: the port with a policy`,
    );
    t.match(await client.exchange(to(address, 8080, { proto: 'http/2' })), { status: 200 }, `${address}: HTTP/2`);
    const raw = { proto: 'tcp', payload: 'hello-not-http\n' } as const;
    t.match(await client.exchange(to(address, 8080, raw)), { kind: 'echo' }, `${address}: raw TCP`);
    t.match(await client.exchange(to(address, 9090)), { kind: 'http', status: 403 }, `${address}: the default is deny`);
    t.match(
      await client.exchange(to(address, 9090, raw)),
      { kind: 'closed', text: '' },
      `${address}: for raw TCP, too`,
    );
    t.match(
      await client.exchange(to(address, 4191, { path: '/metrics' })),
      { status: 200 },
      `${address}: the admin port`,
    );
    t.match(await client.exchange(to(address, 4143)), { kind: 'closed', text: '' }, `${address}: not 4143 itself`);
    t.match(await client.exchange(to(address, 7777)), { status: 403 }, `${address}: a port that nobody serves`);
  }
  const metrics = await inPod.scrape(4191);
  for (const [ip, addr] of [
    [pod4, `${pod4}:8080`],
    [pod6, `[${pod6}]:8080`],
  ] as const) {
    const labels = { target_ip: ip, target_addr: addr, target_port: '8080', srv_name: 'web', srv_port: '8080' };
    t.equal(metrics.sum('inbound_http_authz_allow_total', labels), 2, `${addr} is the target that the client meant`);
    t.equal(metrics.sum('inbound_tcp_authz_allow_total', labels), 1);
  }
  t.match(await sallyport.stop(), { code: 0 });
}

/** A debugger and the like: the redirect must not bring to the network what listens on loopback alone. */
async function loopbackOnly(t: Test): Promise<void> {
  const pod = await createNamespace(t);
  const outside = await createNamespace(t);
  const { oneDevice } = await connectNamespaces(
    t,
    { namespace: pod, address: `${pod4}/24` },
    { namespace: outside, address: `${client4}/24` },
  );
  await pod.addAddress(`${second4}/24`, oneDevice);
  await redirect(t, pod);
  const inPod = await startDriver(t, pod.within);
  const client = await startDriver(t, outside.within);
  for (const port of [8080, 8081, 8082, 8083, 8084, 9229]) await inPod.startApp({ host: '127.0.0.1', port });
  await inPod.startApp({ host: '0.0.0.0', port: 9090 });
  const folder = temporaryFolder(t);
  const manifest = join(folder, 'pod.yaml');
  writeFileSync(
    manifest,
    `kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  containers:
    - name: web
      ports: [{name: http, containerPort: 8080}, {containerPort: 8081}]
      livenessProbe: {httpGet: {path: /live, port: 8082}}
status: {podIP: ${pod4}}
`,
  );
  const start = (more: Record<string, string>): Promise<Sallyport> =>
    startSallyport(t, {
      within: pod.within,
      health: async (path, port) => (await inPod.get(port, path)).status ?? undefined,
      env: {
        ...policyEnvironment(folder, openServer('selected', 8083)),
        SALLYPORT_POD_MANIFEST: manifest,
        SALLYPORT_DEFAULT_INBOUND_POLICY: 'all-unauthenticated',
        SALLYPORT_ADMIN_LISTEN: '[::]:4191',
        SALLYPORT_HEALTH_LISTEN: '127.0.0.1:4192',
        ...more,
      },
    });
  const ask = (port: number, host = pod4): Promise<unknown> =>
    client.exchange({ proto: 'http/1.1', host, localAddress: client4, port, path: '/' });

  const sallyport = await start({ SALLYPORT_LOOPBACK_PORTS: '8084' });
  const rows: readonly (readonly [port: number, status: number, why: string])[] = [
    [8080, 200, 'a named container port'],
    [8081, 200, 'one without a name'],
    [8082, 200, 'a probed port'],
    [8083, 200, 'a port that a Server selects'],
    [8084, 200, 'a port that is listed'],
    [9090, 200, 'a port that nothing declares, and an app that the network reaches anyway'],
    [9229, 502, 'a debugger on loopback'],
  ];
  for (const [port, status, why] of rows) t.match(await ask(port), { kind: 'http', status }, why);
  t.match(await ask(9229), { status: 502 });
  const told = ({ level, port, msg }: LogLine): boolean =>
    level === 'warn' && port === 9229 && /SALLYPORT_LOOPBACK_PORTS/.test(String(msg));
  t.match(await sallyport.waitForLog('the warning', told), { msg: /SALLYPORT_LOOPBACK_PORTS/ });
  t.match(await ask(8080, second4), { kind: 'closed', text: '' }, "an address that is not the pod's");
  await sallyport.waitForLog('another warning', (line) => line.level === 'warn' && line.ip === second4);
  t.match(await sallyport.stop(), { code: 0 });
  t.equal(sallyport.logs().filter(told).length, 1, 'each is said once');

  const asked = await start({ SALLYPORT_LOOPBACK_PORTS: 'all' });
  t.match(await ask(9229), { kind: 'http', status: 200 }, 'unless asked otherwise');
  t.match(await asked.stop(), { code: 0 });
}

if (unavailable) {
  t.plan(0, unavailable);
} else {
  await t.test('redirected connections', { timeout: 840_000 }, redirected);
  await t.test('what listens on loopback alone', { timeout: 840_000 }, loopbackOnly);
}
