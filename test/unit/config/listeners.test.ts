import t from 'tap';
import { readConfig } from '../../../lib/config/config.ts';
import { faultText } from '../../../lib/config/variables.ts';
import { type IpAddress, parseIp } from '../../../lib/ip.ts';
import { OwnEndpoints } from '../../../lib/proxy/accept/own-endpoints.ts';

const addresses = ['192.0.2.7', '2001:db8::7'];
const ips = addresses.map((text) => parseIp(text) as IpAddress);
const redirected = { SALLYPORT_INBOUND_LISTEN: '0.0.0.0:4143' };
const elsewhere = { SALLYPORT_ADMIN_LISTEN: '[::1]:4191', SALLYPORT_HEALTH_LISTEN: '192.0.2.7:4192' };

const faultsOf = (env: Record<string, string>) => {
  const read = readConfig(env, { addresses: () => addresses });
  return read.ok ? [] : read.faults;
};

/** `by`: the variable of the listener that the app of the first port would be; null: it is none of ours, as far as is known. */
const rows: readonly (readonly [ports: string, by: string | null, more?: Record<string, string>])[] = [
  ['8080=127.0.0.1:3000', null],
  ['8080=127.0.0.1:8080', 'INBOUND_PORTS'],
  ['8080=127.9.9.9:8080', 'INBOUND_PORTS'],
  ['8080=localhost:8080', 'INBOUND_PORTS'],
  ['8080=LOCALHOST.:8080', 'INBOUND_PORTS'],
  ['8080=0.0.0.0:8080', 'INBOUND_PORTS'],
  ['8080=[::]:8080', 'INBOUND_PORTS'],
  ['8080=[::1]:8080', 'INBOUND_PORTS'],
  ['8080=[::ffff:127.0.0.1]:8080', 'INBOUND_PORTS'],
  ['8080=192.0.2.7:8080', 'INBOUND_PORTS'],
  ['8080=[2001:db8:0::7]:8080', 'INBOUND_PORTS'],
  ['8080=192.0.2.8:8080', null],
  ['8080=app:8080', null],
  ['0.0.0.0:8080=[::1]:8080', 'INBOUND_PORTS'],
  ['[::ffff:0.0.0.0]:8080=127.0.0.1:8080', 'INBOUND_PORTS'],
  ['[0::0]:8080=127.0.0.1:8080', 'INBOUND_PORTS'],
  ['8080=127.0.0.1:9090,9090=127.0.0.1:3000', 'INBOUND_PORTS'],
  ['[127.0.0.2]:8080=127.0.0.2:8080', 'INBOUND_PORTS'],
  ['[127.0.0.2]:8080=[::ffff:7f00:2]:8080', 'INBOUND_PORTS'],
  ['[127.0.0.2]:8080=0.0.0.0:8080', 'INBOUND_PORTS'],
  ['[127.0.0.2]:8080=127.0.0.1:8080', null],
  ['[127.0.0.2]:8080=localhost:8080', null],
  ['[127.0.0.2]:8080=127.0.0.1:8080', 'INBOUND_PORTS', redirected],
  ['[127.0.0.1]:8080=localhost:8080', 'INBOUND_PORTS'],
  ['[::1]:8080=localhost:8080', 'INBOUND_PORTS'],
  ['[0:0:0:0:0:0:0:1]:8080=[::1]:8080', 'INBOUND_PORTS'],
  ['8080=127.0.0.1:4191', 'ADMIN_LISTEN'],
  ['8080=127.0.0.1:4192', 'HEALTH_LISTEN'],
  ['8080=127.0.0.1:4191', 'ADMIN_LISTEN', elsewhere],
  ['8080=192.0.2.7:4192', 'HEALTH_LISTEN', elsewhere],
  ['8080=127.0.0.1:4191', null, { SALLYPORT_ADMIN_LISTEN: 'off' }],
  ['8080=127.0.0.1:4143', null],
  ['8080=127.0.0.1:4143', 'INBOUND_LISTEN', redirected],
];

for (const [ports, by, more = {}] of rows) {
  const env = { SALLYPORT_INBOUND_PORTS: ports, ...more };
  t.test(`${JSON.stringify(env)}: ${by ?? 'an app'}`, async (t) => {
    const faults = faultsOf(env).filter(({ code }) => code === 'own-app');
    const [fault] = faults;
    t.equal(faults.length, by === null ? 0 : 1);
    if (fault !== undefined) {
      t.match(faultText(fault), /^SALLYPORT_INBOUND_PORTS: \S+:\d+, the app of port 8080, is .+ \(let the app listen /);
      t.match(fault.message, `(SALLYPORT_${by})`);
    }
    // What is refused here would have been refused for each connection; where nothing has to be looked up, the other way round, too.
    const read = readConfig({ ...env, SALLYPORT_INBOUND_PORTS: '1=a:1' }, { addresses: () => addresses });
    if (!read.ok) throw new Error(read.faults.map(faultText).join());
    const own = new OwnEndpoints(() => ips, 'SALLYPORT_INBOUND_LISTEN' in more);
    const { adminListen, healthListen, inboundListen } = read.config;
    for (const listen of [adminListen, healthListen, inboundListen]) if (listen !== null) own.add(listen.port, null);
    const listeners = ports.split(',').map((each) => each.split('=') as [string, string]);
    for (const [listen] of listeners) {
      const [, host = '::', port] = /^(?:\[?(.+?)\]?:)?(\d+)$/.exec(listen) ?? [];
      own.add(Number(port), host);
    }
    const [, app = ''] = listeners[0] ?? [];
    const [, host = '', port] = /^\[?(.+?)\]?:(\d+)$/.exec(app) ?? [];
    t.equal(own.has({ host, port: Number(port) }), by !== null, 'as while running');
  });
}

t.test('listeners at one port, however their addresses are written', async (t) => {
  const rows: readonly (readonly [one: string, other: string, clash: boolean])[] = [
    ['[::1]:80', '[0:0:0:0:0:0:0:1]:80', true],
    ['127.0.0.1:80', '[::ffff:127.0.0.1]:80', true],
    ['[::ffff:0.0.0.0]:80', '127.0.0.1:80', true],
    ['[0::0]:80', '127.0.0.1:80', true],
    ['localhost:80', 'LOCALHOST.:80', true],
    ['127.0.0.1:80', '127.0.0.2:80', false],
    ['[fe80::1%eth0]:80', '[fe80::1%eth1]:80', false],
  ];
  for (const [one, other, clash] of rows) {
    const faults = faultsOf({ SALLYPORT_INBOUND_PORTS: `${one}=a:1,${other}=b:1` });
    t.match(faults, clash ? [{ code: 'listeners-clash', message: /port 80 is taken/ }] : [], `${one} and ${other}`);
    t.equal(faults.length, clash ? 1 : 0);
  }
});
