import { type AddressInfo, createServer } from 'node:net';
import t from 'tap';
import { type IpAddress, parseIp } from '../../../../lib/ip.ts';
import { OwnEndpoints } from '../../../../lib/proxy/accept/own-endpoints.ts';
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
  const rows: [name: string, remote: string, local: string, port: number, isOwn: boolean][] = [
    ['loopback', '127.0.0.1', '127.0.0.1', 4191, true],
    ['loopback of IPv6', '::1', '::1', 4191, true],
    ['an address of the pod', podIp, '10.0.0.8', 4191, true],
    ['an address of this host that is not the pod’s', '192.0.2.1', '192.0.2.1', 4191, true],
    ['another host', '192.0.2.2', '192.0.2.1', 4191, false],
    ['an app on loopback', '127.0.0.1', '127.0.0.1', 3000, false],
  ];
  for (const [name, remoteAddress, localAddress, port, isOwn] of rows)
    t.equal(ownPorts(4191).isReachedBy({ remoteAddress, localAddress }, port), isOwn, name);
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
