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
  const own = new OwnEndpoints(() => [parseIp(podIp) as IpAddress]);
  for (const port of ports) own.add(port);
  return own;
}

t.test('where a name has led is known of the connection', async (t) => {
  const rows: [name: string, remote: string | undefined, local: string | undefined, port: number, isOwn: boolean][] = [
    ['loopback', '127.0.0.1', '127.0.0.1', 4191, true],
    ['loopback of IPv6', '::1', '::1', 4191, true],
    ['an address of the pod', podIp, '10.0.0.8', 4191, true],
    ['an address of this host that is not the pod’s', '192.0.2.1', '192.0.2.1', 4191, true],
    ['another host', '192.0.2.2', '192.0.2.1', 4191, false],
    ['an app on loopback', '127.0.0.1', '127.0.0.1', 3000, false],
    ['one that has been reset already', undefined, undefined, 4191, true],
    ['an app that has reset it', undefined, undefined, 3000, false],
  ];
  for (const [name, remoteAddress, localAddress, port, isOwn] of rows)
    t.equal(ownPorts(4191).isReachedBy({ remoteAddress, localAddress }, port), isOwn, name);
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
