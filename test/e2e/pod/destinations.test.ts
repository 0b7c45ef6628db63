import t, { type Test } from 'tap';
import { temporaryFolder } from '../../support/files.ts';
import { openServer, policyEnvironment } from '../../support/open-policy.ts';
import {
  address,
  applyRules,
  at,
  createPodNetwork,
  curl,
  mustRun,
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
  // Explicit listeners beside the redirection: a connection redirected from their port would be sent round in a circle.
  const sallyport = await startSidecar(t, net, {
    SALLYPORT_DEFAULT_INBOUND_POLICY: 'deny',
    SALLYPORT_INBOUND_PORTS: '8086=127.0.0.1:8085,[127.0.0.2]:8087=127.0.0.1:8085',
  });
  for (const host of [address.pod, address.pod6]) {
    t.match(await curl(node, at(host, 4191, '/live')), { status: 200 }, `${host}: the admin application`);
    for (const port of [4192, 8086, 8087, 4143]) {
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
  t.match(await sallyport.stop(), { code: 0 });
  for (const port of [4192, 8086, 8087]) {
    const told = sallyport.logs().filter((line) => line.level === 'warn' && line.port === port);
    t.match(told, [{ msg: /on which this proxy itself listens are redirected/ }], `port ${port}: said, and said once`);
  }
}

/**
 * A neighbour on the wire of the pod can send it packets for any address, and the redirect takes them all: the proxy must
 * not become the way to what only the pod reaches.
 */
async function relayed(t: Test): Promise<void> {
  const net = await createPodNetwork(t);
  const { pod, client, outsider } = net;
  await applyRules(pod, '--admin-port', 'off');
  const elsewhere = await startDriver(t, outsider.namespace.within);
  const inPod = await startDriver(t, pod.namespace.within);
  for (const port of [8085, 9229]) await elsewhere.startApp({ host: '::', port });
  for (const port of [8085, 9229]) await inPod.startApp({ host: '127.0.0.1', port });
  await mustRun(client, 'ip', 'route', 'add', `${address.outsider}/32`, 'via', address.pod);
  await mustRun(client, 'ip', '-6', 'route', 'add', `${address.outsider6}/128`, 'via', address.pod6);
  // As CVE-2020-8558: packets for loopback that come from a wire.
  for (const place of [pod, client]) {
    await mustRun(place, 'sysctl', '-q', '-w', 'net.ipv4.conf.eth0.route_localnet=1');
  }
  await mustRun(client, 'ip', 'addr', 'del', '127.0.0.1/8', 'dev', 'lo');
  await mustRun(client, 'ip', 'route', 'add', '127.0.0.1/32', 'via', address.pod);

  const env = {
    ...policyEnvironment(temporaryFolder(t), openServer('web', 8085)),
    SALLYPORT_DEFAULT_INBOUND_POLICY: 'all-unauthenticated',
  };
  for (const appHost of ['127.0.0.1', 'original']) {
    for (const podIps of ['', `${address.pod},${address.pod6}`]) {
      const sallyport = await startSidecar(t, net, { ...env, SALLYPORT_APP_HOST: appHost, SALLYPORT_POD_IPS: podIps });
      for (const host of [address.outsider, address.outsider6, '127.0.0.1']) {
        for (const port of [8085, 9229]) {
          const got = await curl(client, at(host, port), '--max-time', '4');
          // The port that is declared is the app's own, whatever it was called.
          const mayBeApp = appHost === '127.0.0.1' && podIps === '' && port === 8085 && host !== '127.0.0.1';
          if (!mayBeApp) t.match(got, { status: 0, body: '' }, `app ${appHost}, pod ${podIps}: ${host}:${port}`);
        }
        const admin = await curl(client, at(host, 4191, '/live'), '--max-time', '4');
        if (podIps !== '' || host === '127.0.0.1') t.match(admin, { status: 0 }, `${host}: the admin port`);
      }
      t.match(await sallyport.stop(), { code: 0 });
    }
  }
  for (const [port, { requests }] of Object.entries(await elsewhere.counts()))
    t.equal(requests, 0, `elsewhere:${port}`);
}

if (unavailable) {
  t.plan(0, unavailable);
} else {
  t.setTimeout(900_000);
  await t.test('SALLYPORT_APP_HOST=original', { timeout: 840_000 }, original);
  await t.test('addresses that are not of the pod', { timeout: 840_000 }, relayed);
  await t.test("the proxy's own ports, redirected", { timeout: 840_000 }, ownPorts);
}
