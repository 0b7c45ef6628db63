import t from 'tap';
import { type Config, readConfig, readWorkload } from '../../../lib/config/config.ts';
import type { Host } from '../../../lib/config/host.ts';
import { readManifest } from '../../../lib/config/manifest.ts';
import { type Environment, faultText, variables } from '../../../lib/config/variables.ts';
import { portsOfServer } from '../../../lib/policy/workload.ts';
import { defaultLimits } from '../../support/limits.ts';
import { httpProbes } from '../../support/policy-fixtures.ts';

const files: Record<string, string> = {
  '/pod/labels': 'app="web"\ntier="front"\n\n',
  '/pod/bad-labels': 'app="web"\ntier=front\n',
  '/pod/manifest.yaml': `apiVersion: v1
kind: Pod
metadata:
  name: web-0
  namespace: shop
  labels: { app: manifest }
  annotations:
    config.linkerd.io/default-inbound-policy: all-authenticated
    config.linkerd.io/opaque-ports: "9000-9002"
    config.linkerd.io/proxy-require-identity-inbound-ports: "8080"
spec:
  containers:
    - name: web
      ports: [{ name: http, containerPort: 8080 }, { name: dns, containerPort: 53, protocol: UDP }]
      livenessProbe: { httpGet: { path: /live?x=1, port: http } }
status: { podIPs: [{ ip: 10.1.2.3 }] }
`,
  '/pod/bogus.yaml':
    'kind: Pod\napiVersion: v1\nmetadata: { annotations: { config.linkerd.io/default-inbound-policy: bogus } }\n',
  '/pod/bad-lists.yaml': `kind: Pod
apiVersion: v1
metadata:
  annotations: { config.linkerd.io/opaque-ports: "1,x", config.linkerd.io/proxy-require-identity-inbound-ports: "1,x" }
`,
  '/pod/broken.yaml': 'kind: Pod\nkind: Pod\n',
  '/pod/service.yaml': 'kind: Service\n',
};
const host: Host = {
  readFile(path) {
    const text = files[path];
    if (text === undefined) throw Object.assign(new Error('absent'), { code: 'ENOENT' });
    return text;
  },
  hostname: () => 'host-1',
  gateways: () => ['10.9.0.254', '10.9.0.1'],
  addresses: () => ['192.0.2.7', '2001:db8::7'],
  descriptors: () => 20_000,
  memoryBytes: () => 512 * 1024 * 1024,
  heapBytes: () => 4 * 2 ** 30,
  cpuLimit: () => null,
  parallelism: () => 2,
  readManifest,
  answersForSidecar: false,
};

function config(env: Environment): Config {
  const read = readConfig(env, host);
  if (!read.ok) throw new Error(read.faults.map(faultText).join('\n'));
  return read.config;
}
const faults = (env: Environment): string[] => {
  const read = readConfig(env, host);
  return read.ok ? [] : read.faults.map(faultText);
};
const texts = (config: Config): string[] => config.workload.ips.map(({ text }) => text);

t.test('the empty environment: every default of the contract', async (t) => {
  const { workload, ...rest } = config({});
  t.match(rest, {
    policyPath: null,
    inboundListen: { host: '0.0.0.0', port: 4143 },
    inboundPorts: [],
    appHost: '127.0.0.1',
    adminListen: { host: '0.0.0.0', port: 4191 },
    healthListen: { host: '0.0.0.0', port: 4192 },
    identity: null,
    detectTimeoutMs: 10_000,
    connectTimeoutMs: 1_000,
    shutdownGracePeriodMs: 120_000,
    logLevel: 'info',
    logFormat: 'json',
    accessLog: 'off',
    warnings: [],
  });
  t.match(workload, {
    podName: 'host-1',
    namespace: 'default',
    defaultPolicy: 'deny',
    clusterNetworks: ['10.0.0.0/8', '100.64.0.0/10', '172.16.0.0/12', '192.168.0.0/16', 'fd00::/8'],
    probeNetworks: ['0.0.0.0/0', '::/0'],
    authorizeLocalhost: true,
    controlPlaneNamespace: 'linkerd',
    trustDomain: 'cluster.local',
    detectTimeoutMs: 10_000,
  });
  t.same(workload.labels.size, 0);
  t.same(
    workload.ips.map(({ text }) => text),
    ['192.0.2.7', '2001:db8::7'],
  );
  t.same([[...workload.namedPorts], workload.adminPort], [[], 4191]);
  for (const name of ['linkerd-admin', 'admin']) t.same(portsOfServer(workload, name), [4191], name);
  t.same(portsOfServer(workload, 'http'), []);
  t.same([...workload.probes], [[4191, httpProbes('/live', '/ready')]]);
  for (const port of [25, 587, 3306, 4444, 5432, 6379, 9300, 11211]) t.ok(workload.opaquePorts.has(port), `${port}`);
  t.notOk(workload.opaquePorts.has(8080));
  t.ok(Object.isFrozen(config({})));
});

t.test('each variable, well written', async (t) => {
  const rows: [string, string, (config: Config) => unknown, unknown][] = [
    ['SALLYPORT_POLICY', '/etc/policy', (c) => c.policyPath, '/etc/policy'],
    ['SALLYPORT_DEFAULT_INBOUND_POLICY', 'audit', (c) => c.workload.defaultPolicy, 'audit'],
    ['SALLYPORT_INBOUND_LISTEN', ':5000', (c) => c.inboundListen, { host: null, port: 5000 }],
    ['SALLYPORT_INBOUND_LISTEN', '[::1]:0', (c) => c.inboundListen, { host: '::1', port: 0 }],
    ['SALLYPORT_APP_HOST', '[::1]', (c) => c.appHost, '::1'],
    ['SALLYPORT_ADMIN_LISTEN', 'off', (c) => [c.adminListen, c.workload.adminPort], [null, null]],
    ['SALLYPORT_ADMIN_LISTEN', '127.0.0.1:9', (c) => portsOfServer(c.workload, 'linkerd-admin'), [9]],
    ['SALLYPORT_HEALTH_LISTEN', 'off', (c) => c.healthListen, null],
    ['SALLYPORT_POD_NAME', 'web-0', (c) => c.workload.podName, 'web-0'],
    ['SALLYPORT_POD_NAMESPACE', 'shop', (c) => c.workload.namespace, 'shop'],
    ['SALLYPORT_POD_IPS', '10.1.2.3, ::ffff:10.1.2.4', texts, ['10.1.2.3', '10.1.2.4']],
    [
      'SALLYPORT_POD_LABELS',
      'app=web, empty=',
      (c) => [...c.workload.labels],
      [
        ['app', 'web'],
        ['empty', ''],
      ],
    ],
    [
      'SALLYPORT_POD_LABELS_FILE',
      '/pod/labels',
      (c) => [...c.workload.labels],
      [
        ['app', 'web'],
        ['tier', 'front'],
      ],
    ],
    ['SALLYPORT_POD_PORTS', 'http=8080,http=8081', (c) => c.workload.namedPorts.get('http'), [8080, 8081]],
    ['SALLYPORT_POD_PORTS', 'admin=9990', (c) => portsOfServer(c.workload, 'admin'), [9990, 4191]],
    [
      'SALLYPORT_PROBES',
      '8080/healthz,8080/r?full=1',
      (c) => c.workload.probes.get(8080),
      httpProbes('/healthz', '/r'),
    ],
    ['SALLYPORT_NODE_IPS', '10.9.0.1', (c) => c.workload.nodeIps.map(({ text }) => text), ['10.9.0.1', '10.9.0.254']],
    ['SALLYPORT_PROBES', 'grpc:9000,grpc:9000', (c) => c.workload.probes.get(9000), [{ kind: 'grpc' }]],
    ['SALLYPORT_WORKLOAD_KIND', 'external', (c) => c.workload.kind, 'external'],
    ['SALLYPORT_PROBES_WITH_ROUTES', 'true', (c) => c.workload.probesWithRoutes, true],
    ['SALLYPORT_PROBES', '4191/live', (c) => c.workload.probes.get(4191), httpProbes('/live', '/ready')],
    ['SALLYPORT_CLUSTER_NETWORKS', '10.1.2.3,fd00::/8', (c) => c.workload.clusterNetworks, ['10.1.2.3', 'fd00::/8']],
    ['SALLYPORT_PROBE_NETWORKS', '', (c) => c.workload.probeNetworks, []],
    ['SALLYPORT_AUTHORIZE_LOCALHOST', 'false', (c) => c.workload.authorizeLocalhost, false],
    [
      'SALLYPORT_OPAQUE_PORTS',
      '9000-9002',
      (c) => [25, 9000, 9002, 9003].map((p) => c.workload.opaquePorts.has(p)),
      [false, true, true, false],
    ],
    ['SALLYPORT_OPAQUE_PORTS', '', (c) => c.workload.opaquePorts.has(25), false],
    ['SALLYPORT_REQUIRE_IDENTITY_PORTS', '80,90-99', (c) => c.workload.requireIdentityPorts.has(95), true],
    ['SALLYPORT_REQUIRE_IDENTITY_PORTS', '', (c) => c.workload.requireIdentityPorts.has(80), false],
    ['SALLYPORT_TRUST_DOMAIN', 'example.org', (c) => c.workload.trustDomain, 'example.org'],
    ['SALLYPORT_CONTROL_PLANE_NAMESPACE', 'mesh', (c) => c.workload.controlPlaneNamespace, 'mesh'],
    ['SALLYPORT_DETECT_TIMEOUT', '250ms', (c) => [c.detectTimeoutMs, c.workload.detectTimeoutMs], [250, 250]],
    ['SALLYPORT_CONNECT_TIMEOUT', '1.5s', (c) => c.connectTimeoutMs, 1_500],
    ['SALLYPORT_SHUTDOWN_GRACE_PERIOD', '1h', (c) => c.shutdownGracePeriodMs, 3_600_000],
    ['SALLYPORT_LOG', 'debug', (c) => c.logLevel, 'debug'],
    ['SALLYPORT_LOG_FORMAT', 'plain', (c) => c.logFormat, 'plain'],
    ['SALLYPORT_ACCESS_LOG', 'apache', (c) => c.accessLog, 'apache'],
  ];
  for (const [name, value, read, expected] of rows)
    t.same(read(config({ [name]: value })), expected, `${name}=${value}`);
});

t.test('each variable, badly written: named, with a remedy', async (t) => {
  const rows: [string, string][] = [
    ['SALLYPORT_DEFAULT_INBOUND_POLICY', 'all-unauthenticatd'],
    ['SALLYPORT_DEFAULT_INBOUND_POLICY', 'Deny'],
    ['SALLYPORT_INBOUND_LISTEN', '4143'],
    ['SALLYPORT_INBOUND_LISTEN', '0.0.0.0:65536'],
    ['SALLYPORT_INBOUND_LISTEN', '::1:4143'],
    ['SALLYPORT_INBOUND_LISTEN', 'off'],
    ['SALLYPORT_INBOUND_PORTS', '8080'],
    ['SALLYPORT_INBOUND_PORTS', '8080=3000'],
    ['SALLYPORT_INBOUND_PORTS', '8080=:3000'],
    ['SALLYPORT_INBOUND_PORTS', '0=127.0.0.1:3000'],
    ['SALLYPORT_INBOUND_PORTS', '[::g]:8080=127.0.0.1:3000'],
    ['SALLYPORT_INBOUND_PORTS', '8080=127.0.0.1:3000,8080=127.0.0.1:3001'],
    ['SALLYPORT_INBOUND_PORTS', '4191=127.0.0.1:3000'],
    ['SALLYPORT_APP_HOST', '127.0.0.1:3000'],
    ['SALLYPORT_ADMIN_LISTEN', '127.0.0.1:0'],
    ['SALLYPORT_HEALTH_LISTEN', '0.0.0.0:4191'],
    ['SALLYPORT_POD_NAMESPACE', 'Shop'],
    ['SALLYPORT_POD_IPS', '10.1'],
    ['SALLYPORT_POD_LABELS', 'app'],
    ['SALLYPORT_POD_LABELS_FILE', '/pod/absent'],
    ['SALLYPORT_POD_LABELS_FILE', '/pod/bad-labels'],
    ['SALLYPORT_POD_PORTS', 'http=0'],
    ['SALLYPORT_PROBES', '/healthz'],
    ['SALLYPORT_POD_MANIFEST', '/pod/absent'],
    ['SALLYPORT_POD_MANIFEST', '/pod/broken.yaml'],
    ['SALLYPORT_POD_MANIFEST', '/pod/service.yaml'],
    ['SALLYPORT_CLUSTER_NETWORKS', '10.0.0.0/33'],
    ['SALLYPORT_PROBE_NETWORKS', '10.0.0.0/'],
    ['SALLYPORT_PROBE_NETWORKS', '::ffff:10.0.0.0/104'],
    ['SALLYPORT_CLUSTER_NETWORKS', '::ffff:10.1.2.3'],
    ['SALLYPORT_PROBE_NETWORKS', 'everywhere'],
    ['SALLYPORT_AUTHORIZE_LOCALHOST', 'ture'],
    ['SALLYPORT_OPAQUE_PORTS', '25,mysql'],
    ['SALLYPORT_OPAQUE_PORTS', '9100-9000'],
    ['SALLYPORT_OPAQUE_PORTS', '0'],
    ['SALLYPORT_REQUIRE_IDENTITY_PORTS', 'http'],
    ['SALLYPORT_IDENTITY_NAME', 'web shop'],
    ['SALLYPORT_TRUST_DOMAIN', '-x'],
    ['SALLYPORT_DETECT_TIMEOUT', '10'],
    ['SALLYPORT_CONNECT_TIMEOUT', '-1s'],
    ['SALLYPORT_SHUTDOWN_GRACE_PERIOD', '1000h'],
    ['SALLYPORT_LOG', 'loud'],
    ['SALLYPORT_LOG_FORMAT', 'xml'],
    ['SALLYPORT_ACCESS_LOG', 'on'],
  ];
  for (const [name, value] of rows) {
    const [fault = '', ...more] = faults({ [name]: value });
    t.match(fault, /^SALLYPORT_[A-Z_]+: .+ \(.+\) \[[a-z-]+\]$/, `${name}=${value}: ${fault}`);
    t.equal(more.length, 0, `${name}=${value}: one fault`);
    if (!/HEALTH|INBOUND_PORTS/.test(name)) t.match(fault, name);
  }
  t.match(faults({ SALLYPORT_DEFAULT_INBOUND_POLICY: 'all-unauthenticatd' })[0], 'did you mean all-unauthenticated?');
  t.match(faults({ SALLYPORT_POD_LABELS_FILE: '/pod/bad-labels' })[0], 'line 2');
  t.match(faults({ SALLYPORT_POD_MANIFEST: '/pod/broken.yaml' })[0], '2:1');
  t.match(faults({ SALLYPORT_INBOUND_PORTS: '8080=::1:3000' })[0], '8080=[::1]:3000', 'an app at an address of IPv6');
});

t.test('all faults together', async (t) => {
  const found = faults({ SALLYPORT_LOG: 'loud', SALLYPORT_DETECT_TIMEOUT: 'soon', SALLYPORT_IDENTITY_CERT: '/c.pem' });
  t.same(found.map((fault) => fault.split(':')[0]).sort(), [
    'SALLYPORT_DETECT_TIMEOUT',
    'SALLYPORT_IDENTITY_KEY',
    'SALLYPORT_IDENTITY_TRUST_ANCHORS',
    'SALLYPORT_LOG',
  ]);
});

t.test('explicit ports', async (t) => {
  const explicit = config({
    SALLYPORT_INBOUND_PORTS: '8080=127.0.0.1:3000,[::1]:8081=[::1]:3001,[10.0.0.1]:82=app:3002',
  });
  t.equal(explicit.inboundListen, null, 'then only these listen');
  t.same(explicit.inboundPorts, [
    { listen: { host: null, port: 8080 }, policyPort: 8080, app: { host: '127.0.0.1', port: 3000 } },
    { listen: { host: '::1', port: 8081 }, policyPort: 8081, app: { host: '::1', port: 3001 } },
    { listen: { host: '10.0.0.1', port: 82 }, policyPort: 82, app: { host: 'app', port: 3002 } },
  ]);
  const both = config({ SALLYPORT_INBOUND_PORTS: '8080=127.0.0.1:3000', SALLYPORT_INBOUND_LISTEN: '0.0.0.0:4143' });
  t.same(both.inboundListen, { host: '0.0.0.0', port: 4143 });
  const sameOnTwoAddresses = '[127.0.0.1]:80=a:1,[127.0.0.2]:80=b:1';
  t.equal(config({ SALLYPORT_INBOUND_PORTS: sameOnTwoAddresses }).inboundPorts.length, 2, 'one port, two addresses');
});

t.test('absolute names of apps, which no search domain is tried for', async (t) => {
  const { inboundPorts } = config({ SALLYPORT_INBOUND_PORTS: '80=app.shop.svc.cluster.local.:3000,[::1]:81=a.:1' });
  t.same(
    inboundPorts.map(({ app }) => app),
    [
      { host: 'app.shop.svc.cluster.local.', port: 3000 },
      { host: 'a.', port: 1 },
    ],
  );
  t.equal(config({ SALLYPORT_APP_HOST: 'app.shop.svc.cluster.local.' }).appHost, 'app.shop.svc.cluster.local.');
});

t.test('identity', async (t) => {
  const env = { SALLYPORT_IDENTITY_CERT: 'c', SALLYPORT_IDENTITY_KEY: 'k', SALLYPORT_IDENTITY_TRUST_ANCHORS: 'a' };
  t.same(config(env).identity, { certFile: 'c', keyFile: 'k', trustAnchorsFile: 'a', names: null });
  t.same(config({ ...env, SALLYPORT_IDENTITY_NAME: 'a.b,c.d' }).identity?.names, ['a.b', 'c.d']);
  t.equal(faults({ ...env, SALLYPORT_IDENTITY_KEY: '' }).length, 1, 'an empty one is a missing one');
});

t.test('the Pod manifest, and what wins over it', async (t) => {
  const manifest = { SALLYPORT_POD_MANIFEST: '/pod/manifest.yaml' };
  const { workload } = config(manifest);
  t.match(workload, { podName: 'web-0', namespace: 'shop', defaultPolicy: 'all-authenticated' });
  t.same(texts(config(manifest)), ['10.1.2.3']);
  t.same([...workload.labels], [['app', 'manifest']]);
  t.same(workload.namedPorts.get('http'), [8080]);
  t.equal(workload.namedPorts.has('dns'), false, 'UDP is none of ours');
  t.same(portsOfServer(workload, 'linkerd-admin'), [4191]);
  t.same(workload.probes.get(8080), httpProbes('/live'));
  t.same(
    [25, 9001].map((port) => workload.opaquePorts.has(port)),
    [false, true],
  );
  t.ok(workload.requireIdentityPorts.has(8080));

  const over = config({
    ...manifest,
    SALLYPORT_POD_NAME: 'other',
    SALLYPORT_POD_NAMESPACE: 'ns',
    SALLYPORT_POD_IPS: '10.9.9.9',
    SALLYPORT_POD_LABELS: 'x=y',
    SALLYPORT_POD_PORTS: 'p=1',
    SALLYPORT_PROBES: '1/p',
  });
  t.match(over.workload, { podName: 'other', namespace: 'ns' });
  t.same([texts(over), [...over.workload.labels]], [['10.9.9.9'], [['x', 'y']]]);
  t.same([over.workload.namedPorts.get('http'), over.workload.namedPorts.get('p')], [undefined, [1]]);
  t.same([over.workload.probes.get(8080), over.workload.probes.get(1)], [undefined, httpProbes('/p')]);
});

t.test(
  "the cluster's defaults yield to the pod's own annotations, and to nothing when those are invalid",
  async (t) => {
    const clusterDefault = { SALLYPORT_DEFAULT_INBOUND_POLICY: 'cluster-unauthenticated' };
    const annotated = config({ ...clusterDefault, SALLYPORT_POD_MANIFEST: '/pod/manifest.yaml' });
    t.equal(annotated.workload.defaultPolicy, 'all-authenticated');
    const bogus = config({ ...clusterDefault, SALLYPORT_POD_MANIFEST: '/pod/bogus.yaml' });
    t.equal(bogus.workload.defaultPolicy, 'cluster-unauthenticated');
    const lists = { SALLYPORT_OPAQUE_PORTS: '9000', SALLYPORT_REQUIRE_IDENTITY_PORTS: '8080' };
    const bad = config({ ...lists, SALLYPORT_POD_MANIFEST: '/pod/bad-lists.yaml' });
    t.ok(bad.workload.requireIdentityPorts.has(8080) && !bad.workload.requireIdentityPorts.has(1));
    t.ok(bad.workload.opaquePorts.has(9000) && !bad.workload.opaquePorts.has(1));
    t.match(bad.warnings, [{ code: 'annotation' }, { code: 'annotation' }]);
    t.equal(bogus.warnings.length, 1);

    const manifest = { SALLYPORT_POD_MANIFEST: '/pod/manifest.yaml' };
    const flag = { flag: '--default-policy', value: 'audit' };
    const asked = readWorkload(manifest, host, new Map([['SALLYPORT_DEFAULT_INBOUND_POLICY', flag]]));
    t.equal(asked.ok && asked.workload.defaultPolicy, 'audit', 'a flag asks about exactly this policy');
    const wrong = readWorkload({}, host, new Map([['SALLYPORT_PROBES', { flag: '--probe', value: 'x' }]]));
    t.match(wrong, { ok: false, faults: [{ variable: '--probe' }] });
  },
);

t.test('a port with an HTTP probe is not opaque by a mere default', async (t) => {
  const opaque = (env: Environment): boolean => config(env).workload.opaquePorts.has(5432);
  t.equal(opaque({}), true);
  t.equal(opaque({ SALLYPORT_PROBES: '5432/up' }), false);
  t.equal(opaque({ SALLYPORT_PROBES: '5432/up', SALLYPORT_OPAQUE_PORTS: '5432' }), true, 'what is written stands');
});

t.test('every default in the table can be read by its own parser', async (t) => {
  for (const [name, { fallback, parse, meaning }] of Object.entries(variables)) {
    if (fallback !== null) t.ok('value' in parse(fallback), name);
    t.not(meaning, '', name);
  }
});

t.test('limits: their defaults, and what of the machine they are derived from', async (t) => {
  const { limits } = config({});
  t.same(limits, {
    ...defaultLimits,
    maxConnections: 9968,
    maxConnectionsPerClient: 4984,
    maxConnectionBytes: Math.floor(468 * 0.3 * 2 ** 20),
    maxInFlight: 11_980,
    maxHandshakes: 528,
    maxBufferedBytes: Math.floor(468 * 0.175 * 2 ** 20),
  });
  const on = (machine: Partial<Host>): Config['limits'] => {
    const read = readConfig({}, { ...host, ...machine });
    if (!read.ok) throw new Error('the empty environment is refused');
    return read.config.limits;
  };
  t.equal(on({ descriptors: () => 64 }).maxConnections, 8, 'a few even where there is next to nothing');
  t.equal(on({ memoryBytes: () => 64 * 2 ** 30 }).maxBufferedBytes, 256 * 2 ** 20);
  t.equal(on({ memoryBytes: () => 16 * 2 ** 20 }).maxBufferedBytes, 2 * 2 ** 20);
  t.match(config({ SALLYPORT_MAX_CONNECTIONS: '100' }).limits, { maxConnections: 100, maxConnectionsPerClient: 50 });
  t.match(config({ SALLYPORT_MAX_BUFFERED_BYTES: '64Mi', SALLYPORT_MAX_HEADER_BYTES: '8192' }).limits, {
    maxBufferedBytes: 64 * 2 ** 20,
    maxHeaderBytes: 8192,
  });
  t.match(config({ SALLYPORT_REQUEST_TIMEOUT: '90s', SALLYPORT_STALL_TIMEOUT: 'off' }).limits, {
    requestTimeoutMs: 90_000,
    stallTimeoutMs: Number.POSITIVE_INFINITY,
  });
  for (const [name, value, fault] of [
    ['SALLYPORT_MAX_CONNECTIONS', '0', '"0" is out of range'],
    ['SALLYPORT_MAX_STREAMS', 'many', '"many" is not a count'],
    ['SALLYPORT_MAX_STREAMS', '-1', '"-1" is not a count'],
    ['SALLYPORT_MAX_BUFFERED_BYTES', '64MB', '"64MB" is not a size'],
    ['SALLYPORT_MAX_HEADER_BYTES', '10', '"10" is not from 1KiB to 1024GiB'],
    [
      'SALLYPORT_STALL_TIMEOUT',
      'never',
      '"never" is not a duration (write a number with its unit: 10s, 2m, 1h; or off)',
    ],
  ] as const) {
    t.match(faults({ [name]: value }), [`${name}: ${fault}`], `${name}=${value}`);
  }
});
