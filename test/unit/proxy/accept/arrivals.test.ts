import type { Socket } from 'node:net';
import t from 'tap';
import { type IpAddress, parseIp } from '../../../../lib/ip.ts';
import { adminArrivals, explicitArrivals, redirectedArrivals } from '../../../../lib/proxy/accept/arrivals.ts';
import { OwnEndpoints } from '../../../../lib/proxy/accept/own-endpoints.ts';
import type { Destination } from '../../../../lib/proxy/http/request-pipeline.ts';
import type { StrayReason } from '../../../../lib/proxy/recorder.ts';
import type { HasEnds, SocketEnd } from '../../../../lib/proxy/socket-calls.ts';

const ip = (text: string): IpAddress => {
  const parsed = parseIp(text);
  if (parsed === undefined) throw new Error(text);
  return parsed;
};
/** What the doors ask of a socket. */
const socketAt = (localAddress: string | undefined, localPort: number): HasEnds => ({
  descriptor: null,
  socket: { localAddress, localPort } as unknown as Socket,
});
const clientAt = (address = '10.0.0.1'): SocketEnd => ({ ip: ip(address), port: 40_000 });
const admin: Destination = {
  kind: 'in-process',
  application: { handle: async () => ({ status: 200, headers: [], body: '' }) },
};

t.test('an explicit door says where the connection arrived', async (t) => {
  const app = { host: '127.0.0.1', port: 3000 };
  const rows: [host: string | null, arrivedAt: string | undefined, targetIp: string][] = [
    [null, '::ffff:10.0.0.7', '10.0.0.7'],
    ['0.0.0.0', '10.0.0.8', '10.0.0.8'],
    ['::', 'fd00::7', 'fd00::7'],
    ['10.0.0.7', undefined, '10.0.0.7'],
    ['localhost', '127.0.0.1', '127.0.0.1'],
    [null, undefined, ''],
  ];
  for (const [host, arrivedAt, targetIp] of rows) {
    const arrival = explicitArrivals(host, 8080, app)(socketAt(arrivedAt, 18080), clientAt());
    const destination = { kind: 'app', endpoint: app };
    t.same(arrival, { targetIp, policyPort: 8080, destination }, `bound to ${host}, reached at ${arrivedAt}`);
  }
});

t.test('the door of the admin server', async (t) => {
  t.same(adminArrivals(null, 4191, admin)(socketAt('10.0.0.7', 4191), clientAt()), {
    targetIp: '0.0.0.0',
    policyPort: 4191,
    destination: admin,
  });
});

/** Why one is counted that is closed, by what is said of it. */
function strayOf(warned: RegExp | undefined): StrayReason {
  if (warned === undefined) return 'not_redirected';
  return warned.test('itself listens') ? 'own_port' : 'foreign_destination';
}

t.test('a redirected connection', async (t) => {
  interface Row {
    readonly name: string;
    /** Null: the kernel knows no other destination. */
    readonly meant: readonly [ip: string, port: number] | null;
    readonly client?: string;
    readonly ipsStated?: boolean;
    readonly appHost?: string;
    /** Where it goes; null: it is closed. */
    readonly to: string | null;
    readonly warned?: RegExp;
  }
  const rows: readonly Row[] = [
    { name: 'to the app', meant: ['10.0.0.7', 8080], to: '127.0.0.1:8080' },
    { name: 'not redirected', meant: null, to: null },
    { name: 'meant for the door itself', meant: ['10.0.0.7', 4143], to: null },
    { name: 'the admin server', meant: ['10.0.0.7', 4191], to: 'admin' },
    {
      name: 'an address of nobody, where all are named',
      meant: ['10.9.9.9', 8080],
      ipsStated: true,
      to: null,
      warned: /SALLYPORT_POD_IPS/,
    },
    { name: 'an address that nobody named', meant: ['10.9.9.9', 8080], to: '127.0.0.1:8080' },
    {
      name: 'loopback, where all are named',
      meant: ['127.0.0.1', 8080],
      client: '127.0.0.1',
      ipsStated: true,
      to: '127.0.0.1:8080',
    },
    { name: 'loopback, from a wire', meant: ['127.0.0.1', 8080], to: null, warned: /POD_IPS/ },
    { name: 'another loopback, from a wire', meant: ['127.9.9.9', 9229], to: null, warned: /POD_IPS/ },
    { name: 'as meant, to one of ours', meant: ['10.0.0.7', 8080], appHost: 'original', to: '10.0.0.7:8080' },
    {
      name: 'as meant, to an address of nobody',
      meant: ['10.9.9.9', 8080],
      appHost: 'original',
      to: null,
      warned: /POD_IPS/,
    },
    { name: 'a port that nobody declared, elsewhere', meant: ['10.9.9.9', 9229], to: null, warned: /POD_IPS/ },
    {
      name: 'the admin server, at an address of nobody, where all are named',
      meant: ['10.9.9.9', 4191],
      ipsStated: true,
      to: null,
      warned: /POD_IPS/,
    },
    {
      name: 'as meant, to an address that is named and on no interface',
      meant: ['10.0.0.8', 8080],
      ipsStated: true,
      appHost: 'original',
      to: '10.0.0.8:8080',
    },
    { name: 'a port of our own', meant: ['10.0.0.7', 4192], to: null, warned: /itself listens/ },
    {
      name: 'a port of our own, as meant',
      meant: ['10.9.9.9', 4192],
      appHost: 'original',
      to: null,
      warned: /itself listens/,
    },
    { name: 'the same port of another host', meant: ['10.0.0.7', 4192], appHost: '10.5.5.5', to: '10.5.5.5:4192' },
    {
      name: 'a port that nobody declared',
      meant: ['10.0.0.7', 9229],
      to: '10.0.0.7:9229',
      warned: /SALLYPORT_LOOPBACK_PORTS/,
    },
  ];
  for (const { name, meant, client, ipsStated = false, appHost = '127.0.0.1', to, warned } of rows) {
    const warnings: string[] = [];
    const strays: string[] = [];
    const ips = [ip('10.0.0.7'), ip('10.0.0.8')];
    const own = new OwnEndpoints(() => ips, true);
    // Whatever address a listener has, the rules of a redirection may lead there from another.
    for (const port of [4143, 4191, 4192]) own.add(port, '10.0.0.8');
    const arrive = redirectedArrivals({
      originalDestination: () => (meant === null ? null : { ip: ip(meant[0]), port: meant[1] }),
      appHost,
      admin: { port: 4191, destination: admin },
      pod: () => ({ ips, ipsStated }),
      isLocal: ({ text }) => text === '10.0.0.7',
      isDeclared: (port) => port !== 9229,
      own,
      warn: (_fields, message) => void warnings.push(message),
      strayed: (reason) => void strays.push(reason),
    });
    for (const time of ['first', 'second']) {
      const arrival = arrive(socketAt('127.0.0.1', 4143), clientAt(client));
      const destination = arrival?.destination;
      const went =
        destination === undefined
          ? null
          : destination.kind === 'app'
            ? `${destination.endpoint.host}:${destination.endpoint.port}`
            : 'admin';
      t.equal(went, to, `${name}, the ${time} time`);
      if (arrival !== null) t.match(arrival, { targetIp: meant?.[0], policyPort: meant?.[1] }, name);
    }
    t.match(warnings, warned === undefined ? [] : [warned], `${name}: said once`);
    t.equal(warnings.length, warned === undefined ? 0 : 1, name);
    t.same(strays, to === null ? [strayOf(warned), strayOf(warned)] : [], `${name}: counted each time`);
  }
});

t.test('where a connection is led may change with what declares its port', async (t) => {
  const declared = new Set([8080]);
  const options = {
    originalDestination: () => ({ ip: ip('10.0.0.7'), port: 8080 }),
    admin: null,
    pod: () => ({ ips: [], ipsStated: false }),
    isLocal: () => true,
    isDeclared: (port: number) => declared.has(port),
    own: new OwnEndpoints(() => [], true),
    warn: () => {},
    strayed: () => {},
  };
  const [toLoopback, asMeant] = ['127.0.0.1', 'original'].map((appHost) => {
    const arrive = redirectedArrivals({ ...options, appHost });
    return () => arrive(socketAt('127.0.0.1', 4143), clientAt());
  });
  const before = toLoopback?.();
  t.equal(before?.stillLeads?.(8080), true);
  declared.clear();
  t.equal(before?.stillLeads?.(8080), false);
  for (const arrive of [toLoopback, asMeant]) {
    t.match(arrive?.(), { destination: { endpoint: { host: '10.0.0.7' } } });
    t.equal(arrive?.()?.stillLeads, undefined, 'it was led nowhere else');
  }
});

t.test('warnings of redirected connections come to an end', async (t) => {
  let port = 0;
  let warnings = 0;
  const arrive = redirectedArrivals({
    originalDestination: () => ({ ip: ip('10.0.0.7'), port: port++ }),
    appHost: '127.0.0.1',
    admin: null,
    pod: () => ({ ips: [], ipsStated: false }),
    isLocal: () => true,
    isDeclared: () => false,
    own: new OwnEndpoints(() => [], true),
    warn: () => void warnings++,
    strayed: () => {},
  });
  for (let i = 0; i < 1000; i++) arrive(socketAt('127.0.0.1', 65_000), clientAt());
  t.equal(warnings, 256);
});
