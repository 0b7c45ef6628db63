import { type AddressInfo, createServer } from 'node:net';
import t from 'tap';
import { type IpAddress, parseIp } from '../../../../lib/ip.ts';
import { appEndpoint } from '../../../../lib/proxy/accept/original-destination.ts';
import { OwnEndpoints } from '../../../../lib/proxy/accept/own-endpoints.ts';
import { ByEndpoint } from '../../../../lib/proxy/upstream/endpoint.ts';
import type { Permission } from '../../../../lib/proxy/upstream/permission.ts';
import { Upstreams } from '../../../../lib/proxy/upstream/upstreams.ts';
import { defaultLimits } from '../../../support/limits.ts';
import { until } from '../../../support/until.ts';

const podIp = '10.0.0.7';

function ownPorts(...ports: number[]): OwnEndpoints {
  const own = new OwnEndpoints(() => [parseIp(podIp) as IpAddress], false);
  for (const port of ports) own.add(port, null);
  return own;
}

t.test('a listener at one address leaves its port at the others to the app', async (t) => {
  const rows: [bound: readonly (string | null)[], host: string, isOwn: boolean][] = [
    [[podIp], '127.0.0.1', false],
    [[podIp], '::1', false],
    [[podIp], podIp, true],
    [[podIp], `::ffff:${podIp}`, true],
    [[podIp], 'localhost', false],
    // It leads to this host, and not everywhere to loopback.
    [[podIp], '0.0.0.0', true],
    [[podIp], '::', true],
    [[podIp], '::ffff:0.0.0.0', true],
    [['192.0.2.10'], '192.0.2.11', false],
    [['192.0.2.10'], '192.0.2.10', true],
    [['192.0.2.10', '192.0.2.11'], '192.0.2.11', true],
    [['192.0.2.10', '192.0.2.11'], '192.0.2.10', true],
    [['127.0.0.2'], '127.0.0.1', false],
    [['127.0.0.2'], '127.0.0.2', true],
    [['127.0.0.2'], '::ffff:127.0.0.2', true],
    [['127.0.0.2'], '::FFFF:7f00:2', true],
    [['::ffff:127.0.0.2'], '127.0.0.2', true],
    [['::ffff:127.0.0.2'], '127.0.0.1', false],
    [['127.0.0.1'], 'localhost', true],
    [['127.0.0.1'], 'LOCALHOST.', true],
    [['::1'], 'localhost', true],
    [['::1'], '0:0:0:0:0:0:0:1', true],
    [['::1'], '127.0.0.1', false],
    [['fe80::1%2'], 'fe80::1%eth0', true],
    [['fe80::1%2'], 'fe80::2%eth0', false],
    ...['0.0.0.0', '::', '::ffff:0.0.0.0', 'what no parser reads', null].flatMap((everywhere) =>
      ['127.0.0.1', '127.9.9.9', '::1', 'localhost', 'localhost.', '0.0.0.0', '::', podIp].flatMap(
        (host): [(string | null)[], string, boolean][] => [
          [[everywhere], host, true],
          [[everywhere, '192.0.2.10'], host, true],
          [['192.0.2.10', everywhere], host, true],
        ],
      ),
    ),
    [[null], '192.0.2.11', false],
    [[null], 'myapp', false],
    [[podIp], 'myapp', false],
  ];
  for (const [bound, host, isOwn] of rows) {
    const own = new OwnEndpoints(() => [parseIp(podIp) as IpAddress], false);
    for (const address of bound) own.add(8080, address);
    t.equal(own.has({ host, port: 8080 }), isOwn, `${bound}: ${host}`);
    t.notOk(own.has({ host, port: 8081 }), 'another port');
    const workers = new OwnEndpoints(() => [parseIp(podIp) as IpAddress], false);
    for (const { port, address } of own.listeners) workers.add(port, address);
    t.equal(workers.has({ host, port: 8080 }), isOwn, `${bound}: ${host}, as workers are told`);
    // Who dials an address of this very host has the same at both ends.
    if (parseIp(host) === undefined) continue;
    const connected = { remoteAddress: host, localAddress: host };
    t.equal(own.isReachedBy(connected, 8080), isOwn || bound.includes(null), `${bound}: ${host}, connected`);
  }
});

t.test('where connections are redirected any address of an own port leads here', async (t) => {
  const own = new OwnEndpoints(() => [parseIp(podIp) as IpAddress], true);
  own.add(8080, '192.0.2.10');
  for (const host of ['127.0.0.1', '::1', 'localhost', podIp]) t.ok(own.has({ host, port: 8080 }), host);
  t.same(own.listeners, [{ port: 8080, address: null }]);
  t.ok(own.isReachedBy({ remoteAddress: '192.0.2.9', localAddress: '192.0.2.9' }, 8080));
  t.notOk(own.isReachedBy({ remoteAddress: '192.0.2.9', localAddress: '192.0.2.10' }, 8080), 'another host');
});

t.test('where a name has led is known of the connection', async (t) => {
  const rows: [name: string, remote: string | undefined, local: string | undefined, port: number, isOwn: boolean][] = [
    ['loopback', '127.0.0.1', '127.0.0.1', 4191, true],
    ['loopback of IPv6', '::1', '::1', 4191, true],
    ['an address of the pod', podIp, '10.0.0.8', 4191, true],
    ['an address of this host that is not the pod’s', '192.0.2.1', '192.0.2.1', 4191, true],
    ['another host', '192.0.2.2', '192.0.2.1', 4191, false],
    ['an app on loopback', '127.0.0.1', '127.0.0.1', 3000, false],
    ['one that has been reset already', undefined, undefined, 4191, true],
    ['one whose other end cannot be read', 'x', '192.0.2.1', 4191, true],
    ['one whose own end is not known', '192.0.2.2', undefined, 4191, true],
    ['an app that has reset it', undefined, undefined, 3000, false],
    ['a listener at one address', '127.0.0.2', '127.0.0.2', 8080, true],
    ['the same address, as IPv6 has it', '::ffff:127.0.0.2', '::ffff:127.0.0.1', 8080, true],
    ['an app on its port at another', '127.0.0.1', '127.0.0.1', 8080, false],
    ['an app on its port at an address of the pod', podIp, podIp, 8080, false],
    ['one at that port that has been reset already', undefined, undefined, 8080, true],
  ];
  const own = ownPorts(4191);
  own.add(8080, '127.0.0.2');
  for (const [name, remoteAddress, localAddress, port, isOwn] of rows)
    t.equal(own.isReachedBy({ remoteAddress, localAddress }, port), isOwn, name);
});

t.test('a name that leads to loopback leads to no port that nobody declared', async (t) => {
  let bytes = 0;
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', () => bytes++);
  });
  t.teardown(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const upstreams = new Upstreams({
    connectTimeoutMs: 60_000,
    limits: defaultLimits,
    recorder: { openDestination: () => ({ closed: () => {} }), limitReached: () => t.fail('a limit') } as never,
    isOwn: () => false,
  });
  const dialled = (isDeclared: boolean): Promise<Error | null> => {
    const target = { ip: parseIp(podIp) as IpAddress, port };
    // As the resolver has it in /etc/hosts, on the machines that have it.
    const endpoint = { ...appEndpoint('localhost.localdomain', target, () => isDeclared), host: '127.0.0.1' };
    return new Promise((resolve) => {
      upstreams.connect({} as Permission, endpoint, 'a client', (error, socket) => {
        socket.destroy();
        resolve(error);
      });
    });
  };
  t.match(await dialled(false), { code: 'ERR_SALLYPORT_LOOPBACK' });
  t.equal(await dialled(true), null, 'what is declared is there');
  t.equal(bytes, 0);
});

t.test('one and the same name has an application for each, declared or not', async (t) => {
  let made = 0;
  const each = new ByEndpoint(() => ++made);
  t.equal(each.at({ host: 'app', port: 1, notLoopback: true }), 1);
  t.equal(each.at({ host: 'app', port: 1 }), 2);
  t.equal(each.at({ host: 'app', port: 1, notLoopback: true }), 1);
});

t.test('an app by a name that leads to the proxy itself is never written to', async (t) => {
  let closed = 0;
  const server = createServer((socket) => {
    socket.on('data', () => t.fail('bytes'));
    socket.on('close', () => closed++);
  });
  t.teardown(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const own = ownPorts(port);
  const upstreams = new Upstreams({
    connectTimeoutMs: 60_000,
    limits: defaultLimits,
    recorder: { openDestination: () => t.fail('opened'), limitReached: () => t.fail('a limit') } as never,
    // The address stands for a name: nothing is known of it beforehand.
    isOwn: (endpoint, connected) => connected !== undefined && own.isReachedBy(connected, endpoint.port),
  });
  const error = await new Promise<Error | null>((resolve) => {
    upstreams.connect({} as Permission, { host: '127.0.0.1', port }, 'a client', (failed) => resolve(failed));
  });
  t.match(error, { code: 'ERR_SALLYPORT_LOOP' });
  await until('the connection has ended', () => closed === 1);
  t.notOk(upstreams.isFull);
});
