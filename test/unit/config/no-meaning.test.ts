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
  ['SALLYPORT_APP_HOST', 'Original', 'bad-host'],
  ['SALLYPORT_POD_LABELS', 'app=web,tier=front,app=api', 'bad-label'],
  ...['DETECT', 'CONNECT', 'HEADER', 'REQUEST', 'STALL', 'HTTP1_IDLE', 'HTTP2_IDLE', 'TUNNEL_IDLE'].flatMap(
    (each): [string, string, string][] => [
      [`SALLYPORT_${each}_TIMEOUT`, '0s', 'bad-duration'],
      [`SALLYPORT_${each}_TIMEOUT`, '0.4ms', 'bad-duration'],
    ],
  ),
  ['SALLYPORT_MAX_CONNECTION_AGE', '0h', 'bad-duration'],
  ['SALLYPORT_DECISIONS_INTERVAL', '0s', 'bad-duration'],
];

t.test('what is to change nothing, and what is written, is not read as policy', async (t) => {
  const rows: readonly (readonly [policy: string, candidate: string, refused: boolean])[] = [
    ['/etc/policy', '/etc/policy/candidate.yaml', true],
    ['/etc/policy/', '/etc/policy/../policy/candidate.json', true],
    ['/etc/policy', '/etc/policy', true],
    ['/etc/policy/web.yaml', '/etc/policy/web.yaml', true],
    ['/etc/policy', '/etc/policy/candidate', false],
    ['/etc/policy', '/etc/policy/.candidate.yaml', false],
    ['/etc/policy', '/etc/policy/candidate/web.yaml', false],
    ['/etc/policy/web.yaml', '/etc/policy/candidate.yaml', false],
  ];
  for (const [policy, path, refused] of rows) {
    for (const variable of ['SALLYPORT_CANDIDATE_POLICY', 'SALLYPORT_DECISIONS_FILE']) {
      const read = readConfig({ SALLYPORT_POLICY: policy, SALLYPORT_DECISIONS: 'all', [variable]: path });
      const fault = { variable, code: 'read-as-policy', message: new RegExp(`SALLYPORT_POLICY=${policy}`), hint: /\w/ };
      t.match(read, refused ? { ok: false, faults: [fault] } : { ok: true }, `${policy} and ${variable}=${path}`);
    }
  }
});

t.test('what is set, and does nothing or not what it says, is a warning', async (t) => {
  const machine = { descriptors: () => 1064, memoryBytes: () => 2 ** 30, heapBytes: () => 4 * 2 ** 30 };
  const identity = { SALLYPORT_IDENTITY_CERT: 'c', SALLYPORT_IDENTITY_KEY: 'k', SALLYPORT_IDENTITY_TRUST_ANCHORS: 'a' };
  const ports = { SALLYPORT_INBOUND_PORTS: '8080=127.0.0.1:3000' };
  const rows: readonly (readonly [
    variable: string,
    value: string,
    code: string | null,
    env?: Record<string, string>,
  ])[] = [
    ['SALLYPORT_IDENTITY_NAME', 'web.example', 'without-effect'],
    ['SALLYPORT_IDENTITY_NAME', 'web.example', null, identity],
    ['SALLYPORT_APP_HOST', 'app', 'without-effect', ports],
    ['SALLYPORT_APP_HOST', 'app', null],
    ['SALLYPORT_APP_HOST', 'app', null, { ...ports, SALLYPORT_INBOUND_LISTEN: ':4143' }],
    ['SALLYPORT_DECISIONS_FILE', '/d.jsonl', 'without-effect'],
    ['SALLYPORT_DECISIONS_FILE', '/d.jsonl', null, { SALLYPORT_DECISIONS: 'refused' }],
    ['SALLYPORT_MAX_CONNECTIONS', '1001', 'beyond-machine'],
    ['SALLYPORT_MAX_CONNECTIONS', '1000', null],
    ['SALLYPORT_MAX_BUFFERED_BYTES', '2GiB', 'beyond-machine'],
    ['SALLYPORT_MAX_BUFFERED_BYTES', '1GiB', null],
  ];
  for (const [variable, value, code, env = {}] of rows) {
    const read = readConfig({ ...env, [variable]: value }, machine);
    const warnings = read.ok ? read.config.warnings : null;
    t.match(
      warnings,
      code === null ? [] : [{ variable, code, hint: /\w/ }],
      `${variable}=${value} ${JSON.stringify(env)}`,
    );
    t.equal(warnings?.length, code === null ? 0 : 1);
  }
});

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
