import t, { type Test } from 'tap';
import { missing, runToEnd } from '../support/children.ts';
import { temporaryFolder } from '../support/files.ts';
import { connectNamespaces, createNamespace, type Namespace, namespacesUnavailable } from '../support/namespace.ts';
import { openServer, policyEnvironment } from '../support/open-policy.ts';
import { startSallyport } from '../support/sallyport.ts';
import { startDriver } from '../support/wire-driver.ts';
import type { Exchange } from '../support/wire-exchange.ts';

// A pod as Linkerd's init container leaves it: whatever arrives is redirected to 4143, and the port that a client meant
// is known to the kernel alone.

const pod4 = '10.42.0.7';
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

if (unavailable) t.plan(0, unavailable);
else await t.test('redirected connections', { timeout: 60_000 }, redirected);
