import t from 'tap';
import { readConfig } from '../../../lib/config/config.ts';

/* Values that read well, and mean nothing, or what nobody meant: who wrote them is told before any port opens. */

const rows: readonly (readonly [name: string, value: string, code: string])[] = [
  ['SALLYPORT_INBOUND_PORTS', '8080=0:3000', 'bad-inbound-port'],
  ['SALLYPORT_INBOUND_PORTS', '8080=127.1:3000', 'bad-inbound-port'],
  ['SALLYPORT_INBOUND_PORTS', '8080=127.1.:3000', 'bad-inbound-port'],
  ['SALLYPORT_INBOUND_PORTS', '8080=127.0.0.1.:3000', 'bad-inbound-port'],
  ['SALLYPORT_INBOUND_PORTS', '8080=0x7f.1.:3000', 'bad-inbound-port'],
  ['SALLYPORT_INBOUND_PORTS', '8080=.:3000', 'bad-inbound-port'],
  ['SALLYPORT_INBOUND_PORTS', '8080=app..:3000', 'bad-inbound-port'],
  ['SALLYPORT_INBOUND_PORTS', '8080=app/web:3000', 'bad-inbound-port'],
  ['SALLYPORT_INBOUND_LISTEN', '256.0.0.1:4143', 'bad-listener'],
  ['SALLYPORT_APP_HOST', '0x7f.1', 'bad-host'],
  ['SALLYPORT_APP_HOST', '10.1.2.300', 'bad-host'],
  ['SALLYPORT_APP_HOST', '10.1.2.3.', 'bad-host'],
  ['SALLYPORT_APP_HOST', 'app..', 'bad-host'],
  ['SALLYPORT_POD_LABELS', 'app="web"', 'bad-label'],
  ['SALLYPORT_POD_LABELS', 'app=web;tier=front', 'bad-label'],
  ['SALLYPORT_POD_LABELS', 'app==web', 'bad-label'],
  ['SALLYPORT_POD_LABELS', 'app!=web', 'bad-label'],
  ['SALLYPORT_POD_LABELS', 'app=wéb', 'bad-label'],
  ['SALLYPORT_POD_LABELS_FILE', '/pod/labels', 'bad-labels-file'],
  ['SALLYPORT_CLUSTER_NETWORKS', '10.0.0.0/08', 'bad-network'],
  ['SALLYPORT_CLUSTER_NETWORKS', 'fe80::1%eth0', 'bad-network'],
  ['SALLYPORT_PROBE_NETWORKS', 'fe80::%eth0/64', 'bad-network'],
  ['SALLYPORT_INBOUND_PORTS', ',', 'empty-list'],
  ['SALLYPORT_LOOPBACK_PORTS', ',', 'empty-list'],
  ['SALLYPORT_POD_LABELS', ' , ', 'empty-list'],
  ['SALLYPORT_POD_IPS', ',', 'empty-list'],
  ['SALLYPORT_NODE_IPS', ',,', 'empty-list'],
  ['SALLYPORT_POD_PORTS', ',', 'empty-list'],
  ['SALLYPORT_PROBES', ',', 'empty-list'],
  ['SALLYPORT_REQUIRE_IDENTITY_PORTS', ',', 'empty-list'],
  ['SALLYPORT_IDENTITY_NAME', ',', 'empty-list'],
];

t.test('a labels file says whether it is a line or a label that is none', async (t) => {
  const rows: readonly (readonly [line: string, message: RegExp, hint: RegExp])[] = [
    ['app=web', /line 2 is not key="value"$/, /keep the file as is/],
    ['app="web', /line 2 is not key="value"$/, /keep the file as is/],
    ['="web"', /line 2 is not key="value"$/, /keep the file as is/],
    ['app="a b"', /line 2: "a b" is no value that a label can have$/, /write one that/],
    ['app="wéb"', /line 2: "wéb" is no value that a label can have$/, /write one that/],
    ['-app="web"', /line 2: "-app" is no key that a label can have$/, /write one that/],
  ];
  for (const [line, message, hint] of rows) {
    const read = readConfig(
      { SALLYPORT_POD_LABELS_FILE: '/pod/labels' },
      { readFile: () => `tier="front"\n${line}\n` },
    );
    t.match(read, { ok: false, faults: [{ code: 'bad-labels-file', message, hint }] }, line);
  }
});

for (const [variable, value, code] of rows) {
  t.test(`${variable}=${value}`, async (t) => {
    const read = readConfig({ [variable]: value }, { readFile: () => 'app="a b"\n' });
    t.match(read, { ok: false, faults: [{ variable, code, hint: /\w/ }] });
  });
}
