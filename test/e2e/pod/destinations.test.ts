import t, { type Test } from 'tap';
import { temporaryFolder } from '../../support/files.ts';
import { openServer, policyEnvironment } from '../../support/open-policy.ts';
import {
  address,
  applyRules,
  at,
  createPodNetwork,
  curl,
  podNetworkUnavailable,
  startSidecar,
} from '../../support/pod-network.ts';
import { startDriver } from '../../support/wire-driver.ts';

// Where redirected connections end: the address that the client meant, the admin application, or nowhere.

const unavailable = await podNetworkUnavailable(t);

async function original(t: Test): Promise<void> {
  const net = await createPodNetwork(t);
  const { pod, client } = net;
  // An app that listens on the pod's addresses and not on loopback.
  const app = await startDriver(t, pod.namespace.within);
  for (const host of [address.pod, address.pod6]) await app.startApp({ host, port: 8085 });
  const env = policyEnvironment(temporaryFolder(t), openServer('web', 8085) + openServer('health', 4192));
  await applyRules(pod, '--own-address', '--health-port', 'off');

  const loopback = await startSidecar(t, net, env);
  t.match(await curl(client, at(address.pod, 8085)), { status: 502 }, 'the app is not on loopback');
  t.match(await loopback.stop(), { code: 0 });

  const sallyport = await startSidecar(t, net, { ...env, SALLYPORT_APP_HOST: 'original' });
  for (const host of [address.pod, address.pod6]) {
    t.match(await curl(client, at(host, 8085)), { status: 200 }, `${host}, as the client meant`);
    t.match(await curl(pod, at(host, 8085)), { status: 200 }, `${host} from inside the pod: through the proxy once`);
    t.match(await curl(client, at(host, 4192, '/ready')), { status: 0, body: '' }, `${host}: the health port is ours`);
  }
  t.match(await sallyport.stop(), { code: 0 });
}

async function ownPorts(t: Test): Promise<void> {
  const net = await createPodNetwork(t);
  const { pod, node, outsider } = net;
  await applyRules(pod, '--admin-port', 'off', '--health-port', 'off');
  // Explicit listeners beside the redirection: whoever is redirected from their port would be sent round in a circle.
  const sallyport = await startSidecar(t, net, {
    SALLYPORT_DEFAULT_INBOUND_POLICY: 'deny',
    SALLYPORT_INBOUND_PORTS: '8086=127.0.0.1:8085',
  });
  for (const host of [address.pod, address.pod6]) {
    t.match(await curl(node, at(host, 4191, '/live')), { status: 200 }, `${host}: the admin application`);
    for (const port of [4192, 8086, 4143]) {
      const closed = await curl(outsider, at(host, port, '/ready'));
      t.match(closed, { status: 0, body: '' }, `${host}:${port} is closed`);
      t.not(closed.code, 28, 'at once');
    }
  }
  t.match(await curl(outsider, at(address.pod, 4191, '/metrics')), { status: 403 });
  const denied = await sallyport.waitForLog('the denial', (line) => line.msg === 'Request denied');
  t.match(
    denied,
    { client: { ip: address.outsider }, target: { ip: address.pod, port: 4191 } },
    'with the real addresses',
  );
  for (const port of [4192, 8086]) {
    const told = sallyport.logs().filter((line) => line.level === 'warn' && line.port === port);
    t.match(told, [{ msg: /on which this proxy itself listens are redirected/ }], `port ${port}: said, and said once`);
  }
  t.match(await sallyport.stop(), { code: 0 });
}

if (unavailable) {
  t.plan(0, unavailable);
} else {
  t.setTimeout(90_000);
  await t.test('SALLYPORT_APP_HOST=original', { timeout: 40_000 }, original);
  await t.test("the proxy's own ports, redirected", { timeout: 40_000 }, ownPorts);
}
