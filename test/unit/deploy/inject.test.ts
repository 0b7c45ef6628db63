import t from 'tap';
import { parseCommandLine } from '../../../bin/arguments.ts';
import { main as iptables } from '../../../bin/iptables.ts';
import { type Config, readConfig } from '../../../lib/config/config.ts';
import { inject, uninject } from '../../../lib/deploy/inject.ts';
import { type FieldPath, valueAt } from '../../../lib/policy/field-path.ts';
import { readPod } from '../../../lib/policy/pod.ts';
import { httpProbes } from '../../support/policy-fixtures.ts';
import { type AnyPod, flagged, type Given, podsOf, settings, valuesOf, workloads } from './fixtures.ts';
import { podFaults } from './kubernetes-pod.ts';

const old = '10-injected-by-older.yaml';
const variants: readonly [string, Given][] = [
  ['plain', {}],
  [
    'with everything',
    {
      'identity-secret': '{serviceaccount}-identity',
      'policy-configmap': 'policy-{serviceaccount}',
      'candidate-configmap': 'candidate-{serviceaccount}',
      decisions: 'all',
      'decisions-interval': '60s',
      'decisions-hash': 'true',
      'image-pull-policy': 'IfNotPresent',
      'image-pull-secrets': 'registry,other',
      'default-inbound-policy': 'audit',
      'skip-inbound-ports': '25,9000-9100',
      'skip-subnets': '192.0.2.0/24,2001:db8::/32',
      'opaque-ports': '3306',
      'proxy-require-identity-inbound-ports': '8443',
      'cluster-networks': '10.0.0.0/8',
      'probe-networks': '10.0.0.0/24',
      'trust-domain': 'example.org',
      'control-plane-namespace': 'mesh',
      'admin-port': '14191',
      'health-port': '14192',
      'own-address': 'true',
      'detect-timeout': '5s',
      'proxy-inbound-connect-timeout': '250ms',
      'request-timeout': '1m',
      'shutdown-grace-period': '20s',
      'proxy-log-level': 'warn,linkerd=debug',
      'proxy-log-format': 'plain',
      'access-log': 'json',
      'proxy-cpu-request': '50m',
      'proxy-cpu-limit': '0.5',
      'proxy-memory-request': '128Mi',
      'proxy-memory-limit': '512Mi',
      'proxy-ephemeral-storage-request': '10Mi',
      'proxy-ephemeral-storage-limit': '1Gi',
      'init-cpu-request': '10m',
      'init-cpu-limit': 'none',
      'init-memory-request': '100Mi',
      'init-memory-limit': '100Mi',
      'init-ephemeral-storage-request': 'none',
      'init-ephemeral-storage-limit': '1G',
    },
  ],
];
/** How else the same file could have been saved. */
const spellings: readonly [string, (text: string) => string][] = [
  ['as it is', (text) => text],
  ['CRLF', (text) => text.replaceAll('\n', '\r\n')],
  ['no line end at the end', (text) => text.trimEnd()],
  ['with a byte order mark', (text) => `\ufeff${text}`],
];

for (const { file, text } of workloads) {
  for (const [variant, more] of variants) {
    const all = flagged(more);
    t.test(`${file}, ${variant}`, async (t) => {
      for (const [spelling, spell] of variant === 'plain' ? spellings : spellings.slice(0, 1)) {
        const written = spell(text);
        const { texts, workloads, problems } = inject([{ file, text: written }], all);
        const [injected = ''] = texts;
        const overUdp = text.match(/protocol: UDP/g) ?? [];
        const scraped = text.match(/prometheus\.io\/port/g) ?? [];
        t.same(
          problems.map(({ code }) => code).sort(),
          [...scraped.map(() => 'scrape'), ...overUdp.map(() => 'unguarded-port')],
          `${spelling}: no problems but ports over UDP, and what Prometheus no longer reaches`,
        );
        t.ok(
          workloads.every(({ outcome }) => outcome === (file === old ? 'updated' : 'injected')),
          `${spelling}: reported`,
        );
        t.not(injected, written, `${spelling}: something is injected`);
        const again = inject([{ file, text: injected }], all);
        t.equal(again.texts[0], injected, `${spelling}: twice is as once`);
        t.ok(
          again.workloads.every(({ outcome }) => outcome === 'unchanged'),
          `${spelling}: and is said to be`,
        );
        const [back = ''] = uninject([{ file, text: injected }], { namespace: 'default' }).texts;
        if (file !== old) t.equal(back, written, `${spelling}: taken out, byte for byte`);
        t.equal(
          uninject([{ file, text: back }], { namespace: 'default' }).texts[0],
          back,
          `${spelling}: taken out once`,
        );
        const comments = (stream: string) => stream.match(/#.*/g) ?? [];
        t.same(comments(injected), comments(back), `${spelling}: every comment is there, in order`);
      }
      const [injected = ''] = inject([{ file, text }], all).texts;
      const found = podsOf(injected);
      t.equal(found.length, podsOf(text).length);
      for (const { pod, claims } of found) t.same(podFaults(pod, claims), [], 'the API server would take it');
    });
  }
}

t.test('the judge of pods refuses what it should', async (t) => {
  const [, redis] = workloads;
  const { pod, claims } = podsOf(inject([redis as never], settings).texts[0] ?? '')[0] ?? {};
  const sidecar = ['spec', 'initContainers', 1];
  const broken: [string, FieldPath, unknown][] = [
    ['a container twice', ['spec', 'containers', 1, 'name'], 'redis'],
    ['a volume that is missing', ['spec', 'volumes'], []],
    ['a long port name', [...sidecar, 'ports', 0, 'name'], 'sixteen-letters-'],
    ['a port name twice', [...sidecar, 'ports', 0, 'name'], 'health'],
    ['an unknown field', [...sidecar, 'enviroment'], []],
    ['a quantity', [...sidecar, 'resources', 'limits', 'memory'], '256MB'],
    ['a limit below the request', [...sidecar, 'resources', 'limits', 'memory'], '1Mi'],
    ['a probe without its port', [...sidecar, 'livenessProbe', 'httpGet', 'port'], 'helth'],
    ['probes on an init container', [...sidecar, 'restartPolicy'], undefined],
    [
      'a field that variables cannot have',
      [...sidecar, 'env', 0, 'valueFrom', 'fieldRef', 'fieldPath'],
      'metadata.labels',
    ],
  ];
  t.same(podFaults(pod, claims), []);
  for (const [name, path, value] of broken) {
    const copy = structuredClone(pod);
    (valueAt(copy, path.slice(0, -1)) as Record<string | number, unknown>)[path.at(-1) as string] = value;
    t.not(podFaults(JSON.parse(JSON.stringify(copy)), claims).length, 0, name);
  }
});

t.test('nothing but the pods changes', async (t) => {
  for (const { file, text } of workloads) {
    const [injected = ''] = inject([{ file, text }], settings).texts;
    const before = valuesOf(text);
    for (const [index, value] of valuesOf(injected).entries()) {
      t.same(withoutPods(value), withoutPods(before[index]), `${file}, document ${index}`);
    }
  }
});

t.test('the environment is one that Sallyport accepts, and says what the pod says', async (t) => {
  for (const { file, text } of workloads) {
    for (const [variant, more] of variants) {
      const all = flagged(more);
      const before = podsOf(uninject([{ file, text }], { namespace: 'default' }).texts[0] ?? '');
      for (const [index, { pod }] of podsOf(inject([{ file, text }], all).texts[0] ?? '').entries()) {
        const name = `${file}, pod ${index}, ${variant}`;
        const config = configOf(pod);
        t.same(config.faults, [], `${name}: no faults`);
        if (config.value === null) continue;
        const { workload, warnings, identity, candidatePath, decisions } = config.value;
        t.same(warnings, [], `${name}: no warnings`);
        t.equal(identity !== null, all.given['identity-secret'] !== undefined);
        t.equal(candidatePath !== null, all.given['candidate-configmap'] !== undefined);
        t.match(decisions, all.given.decisions === undefined ? null : { which: 'all', intervalMs: 60_000, hash: true });
        const { facts } = readPod({ kind: 'Pod', metadata: {}, spec: before[index]?.pod.spec });
        const ports = new Map([...workload.namedPorts].filter(([port]) => port !== 'linkerd-admin'));
        t.same([...ports], [...(facts?.namedPorts ?? [])], `${name}: named ports`);
        t.same(workload.namedPorts.get('linkerd-admin'), [Number(all.given['admin-port'] ?? 4191)]);
        const probes = [...workload.probes].filter(([port]) => port !== Number(all.given['admin-port'] ?? 4191));
        t.same(probes, [...(facts?.probes ?? [])], `${name}: probes`);
        t.same(Object.fromEntries(workload.labels), pod.metadata?.labels ?? {}, `${name}: labels`);
        t.same(
          workload.ips.map(({ text }) => text),
          ['10.1.2.3', 'fd00::7'],
        );
        t.equal(workload.nodeIps[0]?.text, '10.9.0.1');
        t.equal(workload.namespace, 'shop');
      }
    }
  }
});

t.test('the arguments of the init container are ones that sallyport iptables takes', async (t) => {
  for (const { file, text } of workloads) {
    for (const [, more] of variants) {
      for (const { pod } of podsOf(inject([{ file, text }], flagged(more)).texts[0] ?? '')) {
        const [first] = pod.spec.initContainers ?? [];
        t.equal(first?.name, 'sallyport-init');
        const [command, ...args] = first?.args ?? [];
        t.equal(command, 'iptables');
        t.ok(args.includes('--apply'));
        let printed = '';
        const write = (chunk: string): void => {
          printed += chunk;
        };
        const stdout = { write } as never;
        const asked = args.map((arg) => (arg === '--apply' ? '--print' : arg));
        t.equal(
          await iptables(parseCommandLine('iptables', asked), {
            env: {},
            stdin: process.stdin,
            stdout,
            stderr: stdout,
          }),
          0,
        );
        t.match(printed, '--to-ports 4143');
      }
    }
  }
});

t.test('what annotations and flags become', async (t) => {
  const [emoji, redis, , , , ipv6, ports] = workloads;
  const of = (source: unknown, more: Given = {}) => {
    const { pod } = podsOf(inject([source as never], flagged(more)).texts[0] ?? '')[0] as { pod: AnyPod };
    return { config: configOf(pod).value as Config, pod };
  };
  const shop = of(emoji).config.workload;
  t.equal(shop.defaultPolicy, 'cluster-unauthenticated', "the Namespace's annotation");
  t.ok(shop.requireIdentityPorts.has(9990), 'and its list');
  t.equal(
    of(emoji, { 'default-inbound-policy': 'audit' }).config.workload.defaultPolicy,
    'cluster-unauthenticated',
    'over a flag',
  );
  t.equal(of(ports).config.workload.defaultPolicy, 'deny', 'closed where nobody says anything');

  const cache = of(redis, { 'opaque-ports': '25' });
  t.equal(cache.config.workload.defaultPolicy, 'all-authenticated');
  const { opaquePorts } = cache.config.workload;
  t.same(
    [6379, 16379, 25].map((port) => opaquePorts.has(port)),
    [true, true, false],
    'a name is its port',
  );
  t.equal(cache.config.shutdownGracePeriodMs, 120_000, 'no longer than it needs');
  t.equal(of(ports).config.shutdownGracePeriodMs, 30_000, 'no longer than the pod has');
  t.equal(cache.pod.metadata?.annotations?.['prometheus.io/port'], '9121', "the user's scraping stays");
  t.notOk(cache.pod.metadata?.annotations?.['prometheus.io/path'], 'and is not mixed with ours');

  const alone = of(ports, { 'inbound-ports': '8443=127.0.0.1:8080' });
  t.equal(alone.config.inboundListen, null, 'without redirect nothing waits for redirected connections');
  t.match(alone.config.inboundPorts, [{ policyPort: 8443, app: { host: '127.0.0.1', port: 8080 } }]);
  t.notOk(alone.pod.spec.initContainers?.some(({ name }) => name === 'sallyport-init'));
  t.notOk(alone.pod.spec.volumes?.some(({ name }) => name === 'sallyport-run'));

  const args = of(ports).pod.spec.initContainers?.[0]?.args ?? [];
  t.ok(args.includes('--skip-inbound-ports=7946,7000-7002'), 'a name to skip is its port');
  t.same(
    of(ipv6).config.workload.probes.get(3000),
    httpProbes('/price/$(HOME)/$$'),
    'dollar signs survive the kubelet',
  );
});

function withoutPods(value: unknown): unknown {
  const strip = (item: unknown): unknown => {
    if (Array.isArray(item)) return item.map(strip);
    if (typeof item !== 'object' || item === null) return item;
    const entries = Object.entries(item).filter(([key, child]) => {
      const ours = key === 'metadata' || key === 'annotations' || key === 'initContainers' || key === 'volumes';
      return !(ours && !('name' in ((child as object | null) ?? {})));
    });
    return Object.fromEntries(entries.map(([key, child]) => [key, strip(child)]));
  };
  return strip(value);
}

/** What the kubelet would make of the container, and Sallyport of that. */
function configOf(pod: AnyPod): { readonly value: Config | null; readonly faults: readonly unknown[] } {
  const own = pod.spec.initContainers?.find(({ name }) => name === 'sallyport');
  const fields: Record<string, string> = {
    'metadata.name': 'web-7d4b',
    'metadata.namespace': 'shop',
    'status.podIPs': '10.1.2.3,fd00::7',
    'status.hostIP': '10.9.0.1',
  };
  const env: Record<string, string> = {};
  for (const { name, value, valueFrom } of own?.env ?? []) {
    // The kubelet's expansion, of a container in which no variable is referred to.
    const given = value ?? fields[valueFrom?.fieldRef.fieldPath ?? ''];
    if (given === undefined) throw new Error(`${name} cannot be resolved`);
    env[name] = given.replaceAll('$$', '$');
  }
  const labels = Object.entries(pod.metadata?.labels ?? {}).map(([key, value]) => `${key}=${JSON.stringify(value)}\n`);
  const read = readConfig(env, { readFile: (path) => files(path, labels.join('')) });
  return read.ok ? { value: read.config, faults: [] } : { value: null, faults: read.faults };
}

function files(path: string, labels: string): string {
  if (path !== '/etc/sallyport/pod/labels') throw new Error(`${path} is mounted by nobody`);
  return labels;
}
