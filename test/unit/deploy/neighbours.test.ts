import { readFileSync } from 'node:fs';
import t from 'tap';
import { inject, uninject } from '../../../lib/deploy/inject.ts';
import { deployment, flagged, type Given, podsOf } from './fixtures.ts';

// What else is in a pod, and what else speaks of it: other proxies, other ports, other containers' resources, annotations for
// somebody else, and a version of Sallyport that was there before.

const app = `      containers:
        - name: app
          image: app:1
`;
const run = (text: string, given: Given = {}) => inject([{ file: 'web.yaml', text }], flagged(given));
const namespace = (metadata: string): string =>
  `apiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\n${metadata}---\n`;

t.test("pods that have another mesh's sidecar, or will get it", async (t) => {
  const beside = (name: string): string => `${app}        - {name: ${name}, image: x}\n`;
  const early = (name: string): string =>
    `      initContainers:\n        - {name: ${name}, image: x, restartPolicy: Always}\n${app}`;
  const rows: [name: string, text: string, code: string, line: number, message: RegExp, hint: RegExp][] = [
    [
      "Linkerd's",
      deployment(beside('linkerd-proxy')),
      'other-proxy',
      12,
      /Linkerd's sidecar \(linkerd-proxy\)/,
      /linkerd uninject/,
    ],
    ["Linkerd's, native", deployment(early('linkerd-proxy')), 'other-proxy', 10, /Linkerd's sidecar/, /disabled/],
    ["Linkerd's init container", deployment(early('linkerd-init')), 'other-proxy', 10, /\(linkerd-init\)/, /disabled/],
    ["Istio's", deployment(beside('istio-proxy')), 'other-proxy', 12, /Istio's sidecar \(istio-proxy\)/, /istioctl/],
    ["Istio's, native", deployment(early('istio-proxy')), 'other-proxy', 10, /Istio's sidecar/, /disabled/],
    ["Istio's init container", deployment(early('istio-init')), 'other-proxy', 10, /\(istio-init\)/, /disabled/],
    [
      'Istio will, by the label of the pod',
      deployment(app).replace('{app: web}', '{app: web, sidecar.istio.io/inject: "true"}'),
      'istio-injects',
      7,
      /is "true": Istio's/,
      /"false" on this pod/,
    ],
    [
      'Istio will, by an annotation',
      deployment(app, '      annotations: {sidecar.istio.io/inject: "true"}\n'),
      'istio-injects',
      7,
      /is "true"/,
      /"false"/,
    ],
    [
      'Istio will, by the label of the Namespace',
      namespace('  labels: {istio-injection: enabled}\n') + deployment(app),
      'istio-injects',
      13,
      /the Namespace has istio-injection: enabled/,
      /"false"/,
    ],
    [
      'Linkerd will, by the Namespace',
      namespace('  annotations: {linkerd.io/inject: enabled}\n') + deployment(app),
      'linkerd-injects',
      12,
      /"enabled"/,
      /set linkerd.io\/inject: disabled/,
    ],
  ];
  for (const [name, text, code, line, message, hint] of rows) {
    const { problems, texts } = run(text);
    t.match(problems, [{ severity: 'error', code, line, message, hint }], name);
    t.same(texts, [text], `${name}: nothing is written`);
  }
  const off = '      annotations: {sallyport.dev/inject: disabled}\n';
  t.same(run(deployment(beside('istio-proxy'), off)).problems, [], 'left out, there is no conflict');
  const not = deployment(app).replace('{app: web}', '{app: web, sidecar.istio.io/inject: "false"}');
  t.same(run(namespace('  labels: {istio-injection: enabled}\n') + not).problems, [], 'nor where Istio is left out');
  t.same(run(deployment(beside('istio'))).problems, [], 'nor with another name');
});

t.test('Istio by revision, and without sidecars', async (t) => {
  const labelled = (label: string): string => deployment(app).replace('{app: web}', `{app: web, ${label}}`);
  const [rev, ambient] = ['istio.io/rev: canary', 'istio.io/dataplane-mode: ambient'];
  const [inRev, inAmbient] = [rev, ambient].map((label) => namespace(`  labels: {${label}}\n`));
  const injection = (value: string): string => namespace(`  labels: {istio-injection: ${value}, ${rev}}\n`);
  const refused: [text: string, message: RegExp, hint: RegExp][] = [
    [labelled(rev), /^the pod has istio.io\/rev: canary: Istio's sidecar/, /sidecar.istio.io\/inject: "false"/],
    [inRev + deployment(app), /^the Namespace has istio.io\/rev: canary/, /sidecar.istio.io\/inject: "false"/],
    [injection('enabled') + deployment(app), /istio-injection: enabled/, /"false"/],
    [labelled(ambient), /^the pod has .*: ambient: Istio's ztunnel/, /istio.io\/dataplane-mode: none/],
    [inAmbient + deployment(app), /^the Namespace has .*: ambient/, /istio.io\/dataplane-mode: none/],
    [inAmbient + labelled('sidecar.istio.io/inject: "false"'), /ztunnel/, /none/],
  ];
  for (const [text, message, hint] of refused) {
    const { problems, texts } = run(text);
    t.match(problems, [{ severity: 'error', code: 'istio-injects', message, hint }], text);
    t.equal(problems.length, 1);
    t.same(texts, [text], 'nothing is written');
  }
  const taken = [
    inRev + labelled('sidecar.istio.io/inject: "false"'),
    injection('disabled') + deployment(app),
    inAmbient + labelled('istio.io/dataplane-mode: none'),
  ];
  for (const text of taken) t.same(run(text).problems, [], text);
});

t.test('annotations that tell the sidecar nothing are warnings, each with its line', async (t) => {
  const rows: [name: string, text: string, line: number, message: RegExp, hint: RegExp][] = [
    [
      'outbound',
      annotated('config.linkerd.io/skip-outbound-ports: "25"'),
      9,
      /skip-outbound-ports has no effect: Sallyport leaves outbound connections alone/,
      /^$/,
    ],
    ['its image', annotated('config.linkerd.io/proxy-image: x'), 9, /Sallyport's is sallyport.dev\/image/, /^$/],
    ['of threads', annotated('config.linkerd.io/proxy-cpu-ratio-limit: "1"'), 9, /is sallyport.dev\/workers$/, /^$/],
    ['alpha', annotated('config.alpha.linkerd.io/proxy-wait-before-exit-seconds: "5"'), 9, /native sidecar/, /^$/],
    ['beta', annotated('config.beta.linkerd.io/proxy-enable-native-sidecar: "true"'), 9, /native sidecar/, /^$/],
    [
      'misspelt',
      annotated('config.linkerd.io/opaque-port: "25"'),
      9,
      /config.linkerd.io\/opaque-port is not known/,
      /Did you mean "config.linkerd.io\/opaque-ports"/,
    ],
    ['misspelt, ours', annotated('sallyport.dev/injct: disabled'), 9, /is not known/, /"sallyport.dev\/inject"/],
    [
      'by the other prefix',
      annotated('sallyport.dev/skip-subnets: 10.0.0.0/8'),
      9,
      /is not known/,
      /"config.linkerd.io\/skip-subnets"/,
    ],
    [
      'of the workload',
      deployment(app).replace(
        'namespace: shop}',
        'namespace: shop, annotations: {config.linkerd.io/opaque-ports: "1"}}',
      ),
      3,
      /stands on the workload, not on its pods/,
      /Move it/,
    ],
    [
      'of the workload, to leave it out',
      deployment(app).replace('namespace: shop}', 'namespace: shop, annotations: {sallyport.dev/inject: disabled}}'),
      3,
      /sallyport.dev\/inject has no effect/,
      /Move it/,
    ],
    [
      'of the Jobs of a CronJob',
      `apiVersion: batch/v1
kind: CronJob
metadata: {name: web, namespace: shop}
spec:
  jobTemplate:
    metadata: {annotations: {sallyport.dev/inject: disabled}}
    spec: {template: {spec: {containers: [{name: app, image: app:1}]}}}
`,
      6,
      /sallyport.dev\/inject has no effect: it stands on the jobTemplate, not on its pods/,
      /Move it/,
    ],
    [
      'of the Namespace',
      namespace('  annotations:\n    config.linkerd.io/control-port: "1"\n') + deployment(app),
      6,
      /has no control port/,
      /^$/,
    ],
  ];
  for (const [name, text, line, message, hint] of rows) {
    const { problems, workloads } = run(text);
    t.match(problems, [{ severity: 'warning', code: 'idle-annotation', line, message, hint }], name);
    t.match(workloads, [{ outcome: 'injected' }], `${name}: and the pod is injected`);
    const again = run(run(text).texts[0] ?? '');
    t.equal(again.problems.length, 1, `${name}: still one, done twice`);
  }
  const others = annotated('example.com/opaque-ports: "25"\n        linkerd.io/created-by: me');
  t.same(run(others).problems, [], "others' annotations are none of ours");
});

t.test('an app may have a port by the name of ours, but for that of the admin port', async (t) => {
  const ports = (names: readonly string[]): string =>
    deployment(`${app}          ports: [${names.map((name, i) => `{name: ${name}, containerPort: ${8080 + i}}`)}]\n`);
  const named = (text: string): readonly string[] => {
    const [, own] = podsOf(run(text).texts[0] ?? '')[0]?.pod.spec.initContainers ?? [];
    const { ports = [], readinessProbe } = own ?? {};
    t.equal(readinessProbe?.httpGet.port, ports[1]?.name, 'the probe is of that port');
    return ports.map(({ name }) => name);
  };
  t.same(named(ports(['http'])), ['linkerd-admin', 'health']);
  t.same(named(ports(['health'])), ['linkerd-admin', 'health-2']);
  t.same(named(ports(['health-2', 'health'])), ['linkerd-admin', 'health-3']);
  const admin = run(ports(['http', 'linkerd-admin']));
  t.match(admin.problems, [{ severity: 'error', code: 'name-in-use', line: 12, message: /linkerd-admin/ }]);
});

t.test('resources', async (t) => {
  const init = { requests: { cpu: '10m', memory: '64Mi' }, limits: { memory: '128Mi' } };
  const own = { requests: { cpu: '20m', memory: '96Mi' }, limits: { memory: '256Mi' } };
  const withCpu = (of: typeof own): object => ({ ...of, limits: { cpu: '1', ...of.limits } });
  const has = (resources: string): string => `${app}          resources: ${resources}\n`;
  const second = (resources: string): string => `        - {name: second, image: x, resources: ${resources}}\n`;
  const ofPod = (resources: string): string => `      resources: ${resources}\n${app}`;
  const rows: [name: string, spec: string, given: Given, want: readonly [init: object, own: object]][] = [
    ['nothing said', app, {}, [init, own]],
    ['a limit of the CPU', has('{limits: {cpu: 1}}'), {}, [withCpu(init), withCpu(own)]],
    ['of one container alone', has('{limits: {cpu: 1}}') + second('{}'), {}, [init, own]],
    ['of both', has('{limits: {cpu: 1}}') + second('{limits: {cpu: 100m}}'), {}, [withCpu(init), withCpu(own)]],
    ['of none by a flag', has('{limits: {cpu: 1}}'), { 'proxy-cpu-limit': 'none' }, [withCpu(init), own]],
    ['of the pod, all', ofPod('{limits: {cpu: 1, memory: 1Gi}}'), {}, [{}, {}]],
    [
      'of the pod, memory alone',
      ofPod('{requests: {memory: 1Gi}}'),
      {},
      [{ requests: { cpu: '10m' } }, { requests: { cpu: '20m' } }],
    ],
    [
      'of the pod, and by flags',
      ofPod('{limits: {cpu: 1, memory: 1Gi}}'),
      { 'proxy-memory-limit': '200Mi' },
      [{}, { limits: { memory: '200Mi' } }],
    ],
    [
      'a request above the default of the limit',
      app,
      { 'proxy-memory-request': '1Gi' },
      [init, { requests: { cpu: '20m', memory: '1Gi' }, limits: { memory: '1Gi' } }],
    ],
    [
      'the class Guaranteed',
      has('{requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 1, memory: 1Gi}}'),
      {
        'proxy-cpu-request': '200m',
        'proxy-cpu-limit': '0.2',
        'proxy-memory-request': '256Mi',
        'init-cpu-request': '100m',
        'init-cpu-limit': '100m',
        'init-memory-request': '128Mi',
      },
      [
        { requests: { cpu: '100m', memory: '128Mi' }, limits: { cpu: '100m', memory: '128Mi' } },
        { requests: { cpu: '200m', memory: '256Mi' }, limits: { cpu: '0.2', memory: '256Mi' } },
      ],
    ],
  ];
  for (const [name, spec, given, want] of rows) {
    const { texts, problems } = run(deployment(spec), given);
    t.same(problems, [], name);
    const [found] = podsOf(texts[0] ?? '');
    t.same(
      found?.pod.spec.initContainers?.map(({ resources }) => resources),
      want,
      name,
    );
  }
  const above = run(deployment(app), { 'init-cpu-request': '2', 'init-cpu-limit': '1500m' });
  t.match(above.problems, [{ severity: 'error', code: 'resources', message: /ask for 2 of cpu and may use 1500m/ }]);
  t.match(above.problems[0]?.hint, /init-cpu-limit no less than init-cpu-request/);
  const little = run(deployment(app), { 'proxy-memory-limit': '64Mi' });
  t.match(little.problems, [
    { severity: 'warning', code: 'little-memory', message: /64Mi of memory, and needs 128Mi/ },
  ]);
});

t.test('pods of the version before', async (t) => {
  const read = (name: string): string =>
    readFileSync(new URL(`../../fixtures/injected/${name}.yaml`, import.meta.url), 'utf8');
  const [before, injected] = [read('before'), read('by-0.1.0')];
  t.equal(
    uninject([{ file: 'web.yaml', text: injected }], { namespace: 'default' }).texts[0],
    before,
    'out again, byte for byte',
  );
  for (const given of [
    {},
    { 'image-pull-secrets': 'registry', 'identity-secret': '{serviceaccount}', 'init-cpu-limit': '1' },
  ]) {
    const { texts, workloads, problems } = run(injected, given);
    t.match(problems, [
      { severity: 'warning', code: 'scrape', message: /scrape port 9121; .*port 4191/ },
      { severity: 'warning', code: 'unguarded-port', message: /^port 7946 over UDP/ },
    ]);
    t.same(texts, run(before, given).texts, 'as if it had never been there');
    t.match(workloads, [{ detail: 'was 0.1.0' }, { outcome: 'updated' }, { outcome: 'updated' }]);
    t.equal(run(texts[0] ?? '', given).texts[0], texts[0], 'twice is as once');
    t.equal(uninject([{ file: 'web.yaml', text: texts[0] ?? '' }], { namespace: 'default' }).texts[0], before);
  }
});

function annotated(annotation: string): string {
  return deployment(app, `      annotations:\n        ${annotation}\n`);
}
