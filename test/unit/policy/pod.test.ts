import t from 'tap';
import { parse } from 'yaml';
import { probePath, readPod } from '../../../lib/policy/pod.ts';
import { noPorts, parsePortSet } from '../../../lib/policy/workload.ts';
import { workloadFromPod } from '../../support/pod-workload.ts';
import { httpProbes } from '../../support/policy-fixtures.ts';

const settings = {
  defaultPolicy: 'deny',
  opaquePorts: noPorts,
  clusterNetworks: ['10.0.0.0/8'],
  probeNetworks: ['0.0.0.0/0'],
  authorizeLocalhost: true,
  controlPlaneNamespace: 'linkerd',
  trustDomain: 'cluster.local',
  detectTimeoutMs: 10_000,
} as const;

t.test('port sets', async (t) => {
  const rows: readonly (readonly [text: string, inside: readonly number[], outside: readonly number[]])[] = [
    ['25', [25], [24, 26]],
    [' 25 , 9000-9002 ', [25, 9000, 9001, 9002], [8999, 9003]],
    ['1-65535', [1, 65535], [0]],
    ['', [], [25]],
  ];
  for (const [text, inside, outside] of rows) {
    const { ports, fault } = parsePortSet(text);
    t.equal(fault, null, text);
    t.ok(inside.every((port) => ports.has(port)) && !outside.some((port) => ports.has(port)), text);
  }
  for (const bad of ['0', '65536', 'http', '9-8', '80-', '-80', '1 2', '0x50', '80,x']) {
    const { ports, fault } = parsePortSet(`25,${bad}`);
    t.type(fault, 'string', `"${bad}" is named`);
    t.notOk(ports.has(25), `"${bad}" empties the whole set`);
  }
});

t.test('a Pod as Linkerd would read it', async (t) => {
  const { workload, problems } = workloadFromPod(
    parse(`
apiVersion: v1
kind: Pod
metadata:
  name: web-0
  namespace: shop
  labels: {app: web}
  annotations:
    config.linkerd.io/default-inbound-policy: all-authenticated
    config.linkerd.io/opaque-ports: 25,9000-9100
    config.linkerd.io/proxy-require-identity-inbound-ports: "8080"
spec:
  containers:
    - name: a
      ports: [{name: http, containerPort: 8080}, {name: udp, containerPort: 53, protocol: UDP}, {name: Case, containerPort: 81}]
      livenessProbe: {httpGet: {path: /live?full=1, port: HTTP}}
      readinessProbe: {httpGet: {port: 8080}}
      startupProbe: {tcpSocket: {port: 8080}}
    - name: b
      ports: [{name: http, containerPort: 8081}]
      livenessProbe: {httpGet: {path: /udp, port: udp}}
      readinessProbe: {httpGet: {path: "/bad path", port: 8081}}
  initContainers:
    - name: c
      ports: [{name: admin, containerPort: 4191}]
      readinessProbe: {httpGet: {path: /ready, port: admin}}
status: {podIP: 10.1.1.1, podIPs: [{ip: 10.1.1.1}, {ip: "fd00::1"}, {ip: nonsense}], hostIP: 10.9.0.1, hostIPs: [{ip: 10.9.0.1}, {ip: "fd00:9::1"}]}
`),
    settings,
  );
  t.match(workload, {
    podName: 'web-0',
    namespace: 'shop',
    defaultPolicy: 'all-authenticated',
    trustDomain: 'cluster.local',
  });
  t.same(
    [...(workload?.namedPorts ?? [])],
    [
      ['http', [8080, 8081]],
      ['Case', [81]],
      ['admin', [4191]],
    ],
  );
  t.same(
    [...(workload?.probes ?? [])],
    [
      [8080, [...httpProbes('/live', '/'), { kind: 'tcp' }]],
      [4191, httpProbes('/ready')],
    ],
  );
  t.same(
    workload?.ips.map(({ text }) => text),
    ['10.1.1.1', 'fd00::1'],
  );
  t.same(
    workload?.nodeIps.map(({ text }) => text),
    ['10.9.0.1', 'fd00:9::1'],
  );
  t.ok(workload?.opaquePorts.has(9050) && workload.requireIdentityPorts.has(8080));
  t.match(problems, [
    { code: 'probe-port', path: ['spec', 'containers', 1, 'livenessProbe', 'httpGet', 'port'] },
    { code: 'probe-path' },
    { code: 'pod-ip', path: ['status', 'podIPs', 2, 'ip'] },
  ]);
});

t.test('probes and hooks of every kind', async (t) => {
  const spec = parse(`
containers:
  - name: a
    ports: [{name: web, containerPort: 8080}, {name: tls, containerPort: 8443}]
    startupProbe: {grpc: {port: 9000, service: shop}}
    readinessProbe: {httpGet: {path: /ready, port: tls, scheme: HTTPS}}
    livenessProbe: {tcpSocket: {port: web}}
    lifecycle:
      postStart: {httpGet: {path: /warm, port: web}}
      preStop: {httpGet: {path: /stop?now, port: 8443, scheme: HTTPS}}
  - name: b
    livenessProbe: {exec: {command: ["true"]}}
    readinessProbe: {tcpSocket: {port: none}}
    lifecycle: {preStop: {sleep: {seconds: 3}}}
`);
  const { facts, problems } = readPod({ kind: 'Pod', metadata: {}, spec });
  t.same(
    [...(facts?.probes ?? [])],
    [
      [8080, [{ kind: 'tcp' }, { kind: 'hook', path: '/warm' }]],
      [
        8443,
        [
          { kind: 'https', path: '/ready' },
          { kind: 'https-hook', path: '/stop' },
        ],
      ],
      [9000, [{ kind: 'grpc' }]],
    ],
  );
  t.match(problems, [{ code: 'probe-port', path: ['spec', 'containers', 1, 'readinessProbe', 'tcpSocket', 'port'] }]);
});

t.test('a probe of another host is none of the pod', async (t) => {
  const kinds = {
    livenessProbe: 'httpGet: {port: 8080, path: /live, host: HOST}',
    readinessProbe: 'httpGet: {port: 8443, path: /ready, scheme: HTTPS, host: HOST}',
    startupProbe: 'tcpSocket: {port: 5432, host: HOST}',
    'lifecycle: {preStop': 'httpGet: {port: 8081, path: /stop, host: HOST}}',
  };
  for (const [name, kind] of Object.entries(kinds)) {
    const read = (host: string, more = '') => {
      const own = `${name}: {${kind.replace('HOST', host)}}`;
      return readPod(parse(`{kind: Pod, spec: {${more}containers: [{name: a, ${own}}]}}`));
    };
    for (const host of ['127.0.0.1', '192.0.2.1', 'web.example.com']) {
      const { facts, problems } = read(host);
      t.same([...(facts?.probes ?? [])], [], `${name}: ${host}`);
      t.match(problems, [{ severity: 'warning', code: 'probe-host', message: /in place of the pod/ }]);
      t.equal(problems[0]?.path.at(-1), 'host', 'with its place');
    }
    for (const [host, more] of [
      ['""', ''],
      ['null', ''],
      ['127.0.0.1', 'hostNetwork: true, '],
    ] as const) {
      const { facts, problems } = read(host, more);
      t.equal(facts?.probes.size, 1, `${name}: ${more}${host}`);
      t.same(problems, []);
    }
  }
});

t.test('a port without a protocol, or with an empty one, is of TCP', async (t) => {
  const { facts, problems } = readPod({
    kind: 'Pod',
    spec: {
      containers: [
        {
          ports: [{ name: 'web', containerPort: 8080, protocol: '' }],
          livenessProbe: { httpGet: { path: '/', port: 'web' } },
        },
      ],
    },
  });
  t.same(problems, []);
  t.same([...(facts?.namedPorts ?? [])], [['web', [8080]]]);
  t.same([...(facts?.probes ?? [])], [[8080, httpProbes('/')]]);
});

t.test("a probe's path is that of its URI reference, and none where it has none", async (t) => {
  const rows: readonly (readonly [text: string, path: string | undefined])[] = [
    ['/', '/'],
    ['/live', '/live'],
    ['/live?full=1', '/live'],
    ['/live#top', '/live'],
    ['/a%62', '/a%62'],
    ['http://web/x?y', '/x'],
    ['http://web', '/'],
    // The kubelet would ask for /live, yet Linkerd does not let it.
    ['live', undefined],
    ['', undefined],
    ['?', undefined],
    ['http://', undefined],
    ['/a b', undefined],
    ['/\u00e9', undefined],
  ];
  for (const [text, path] of rows) t.equal(probePath(text), path, `"${text}"`);
});

t.test('what a Pod leaves out comes from the settings, and what it says badly is reported', async (t) => {
  const { workload, problems } = workloadFromPod(
    {
      kind: 'Pod',
      metadata: {
        annotations: { 'config.linkerd.io/default-inbound-policy': 'deni', 'config.linkerd.io/opaque-ports': 'redis' },
      },
    },
    { ...settings, opaquePorts: { has: (port) => port === 25 } },
  );
  t.match(workload, { namespace: 'default', defaultPolicy: 'deny' });
  t.ok(workload?.opaquePorts.has(25), 'a bad list leaves the default, as a bad policy does');
  t.match(problems, [{ code: 'annotation', hint: /"deny"/ }, { code: 'annotation' }]);
  t.ok(
    workloadFromPod(
      { kind: 'Pod' },
      { ...settings, opaquePorts: { has: (port) => port === 25 } },
    ).workload?.opaquePorts.has(25),
  );
  const { facts } = readPod({ kind: 'Pod', metadata: { name: '', namespace: '' } });
  t.match(facts, { podName: null, namespace: null }, 'an empty text is none');
  for (const none of [null, 'Pod', [], { kind: 'Deployment' }, { kind: 'Pod', spec: { containers: 'x' } }]) {
    t.match(
      readPod(none),
      { facts: null, problems: [{ severity: 'error', code: 'invalid-pod' }] },
      JSON.stringify(none),
    );
  }
});
