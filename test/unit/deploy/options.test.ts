import t from 'tap';
import { inject, uninject } from '../../../lib/deploy/inject.ts';
import { annotationOf, type OptionName, optionNames, options } from '../../../lib/deploy/options.ts';
import { jsonText } from '../../../lib/printable.ts';
import { deployment, flagged, type Given, podsOf, settings } from './fixtures.ts';
import { podFaults } from './kubernetes-pod.ts';

const app = `      serviceAccountName: robot
      containers:
        - name: app
          image: app:1
          ports: [{name: http, containerPort: 8080}]
`;
const run = (text: string, given: Given = {}) => inject([{ file: 'web.yaml', text }], flagged(given));
const annotated = (annotations: Readonly<Record<string, unknown>>): string =>
  deployment(app, `      annotations: ${JSON.stringify(annotations)}\n`);
const inNamespace = (annotations: Readonly<Record<string, unknown>>): string =>
  `apiVersion: v1
kind: Namespace
metadata: {name: shop, annotations: ${JSON.stringify(annotations)}}
---
${deployment(app)}`;
/** The last pod of a text, without the annotations that made it so. */
const specOf = (text: string | undefined) => podsOf(text ?? '').at(-1)?.pod.spec;

/** For each option a value other than what holds without, and how it shows in the pod. */
const rows: Readonly<Record<OptionName, readonly [text: string, shows: string]>> = {
  image: ['registry.example.com/s@sha256:abc', '"image":"registry.example.com/s@sha256:abc"'],
  'image-pull-policy': ['Always', '"imagePullPolicy":"Always"'],
  'image-pull-secrets': ['a, b,a', '"imagePullSecrets":[{"name":"a"},{"name":"b"}]'],
  'policy-configmap': ['policy-of-{serviceaccount}', '"configMap":{"name":"policy-of-robot"}'],
  'candidate-configmap': [
    'candidate-of-{serviceaccount}',
    '{"name":"sallyport-candidate","configMap":{"name":"candidate-of-robot","optional":true}}',
  ],
  'identity-secret': ['{serviceaccount}.{serviceaccount}', '"secretName":"robot.robot"'],
  'default-inbound-policy': ['audit', variable('DEFAULT_INBOUND_POLICY', 'audit')],
  'skip-inbound-ports': ['25, 90 - 99', '"--skip-inbound-ports=25,90-99"'],
  'skip-subnets': ['192.0.2.1, 2001:db8::1/32', '"--skip-subnets=192.0.2.1/32,2001:db8::/32"'],
  'opaque-ports': ['3306 ', variable('OPAQUE_PORTS', '3306')],
  'proxy-require-identity-inbound-ports': ['1-65535', variable('REQUIRE_IDENTITY_PORTS', '1-65535')],
  'inbound-ports': ['8080=127.0.0.1:3000', variable('INBOUND_PORTS', '8080=127.0.0.1:3000')],
  'own-address': ['true', '"--own-address"'],
  'cluster-networks': ['10.0.0.0/8', variable('CLUSTER_NETWORKS', '10.0.0.0/8')],
  'probe-networks': ['10.1.0.0/16,fd00::1', variable('PROBE_NETWORKS', '10.1.0.0/16,fd00::1')],
  'trust-domain': ['example.org', variable('TRUST_DOMAIN', 'example.org')],
  'control-plane-namespace': ['mesh', variable('CONTROL_PLANE_NAMESPACE', 'mesh')],
  'admin-port': ['5191', '"containerPort":5191'],
  'health-port': ['5192', '"containerPort":5192'],
  'detect-timeout': ['1.5s', variable('DETECT_TIMEOUT', '1.5s')],
  'proxy-inbound-connect-timeout': ['100ms', variable('CONNECT_TIMEOUT', '100ms')],
  'request-timeout': ['off', variable('REQUEST_TIMEOUT', 'off')],
  'shutdown-grace-period': ['5s', variable('SHUTDOWN_GRACE_PERIOD', '5s')],
  'proxy-log-level': ['warn,linkerd=debug,linkerd2_proxy=trace', variable('LOG', 'debug')],
  'proxy-log-format': ['plain', variable('LOG_FORMAT', 'plain')],
  'access-log': ['apache', variable('ACCESS_LOG', 'apache')],
  decisions: ['all', variable('DECISIONS', 'all')],
  'decisions-interval': ['60s', variable('DECISIONS_INTERVAL', '60s')],
  'decisions-hash': ['true', variable('DECISIONS_HASH', 'true')],
  workers: ['2', variable('WORKERS', '2')],
  'proxy-cpu-request': ['30m', '"requests":{"cpu":"30m","memory":"96Mi"}'],
  'proxy-cpu-limit': ['0.75', '"limits":{"cpu":"0.75","memory":"256Mi"}'],
  'proxy-memory-request': ['1Gi', '{"requests":{"cpu":"20m","memory":"1Gi"},"limits":{"memory":"1Gi"}}'],
  'proxy-memory-limit': ['none', '{"requests":{"cpu":"20m","memory":"96Mi"}}'],
  'proxy-ephemeral-storage-request': ['5Mi', '"requests":{"cpu":"20m","memory":"96Mi","ephemeral-storage":"5Mi"}'],
  'proxy-ephemeral-storage-limit': ['5G', '"limits":{"memory":"256Mi","ephemeral-storage":"5G"}'],
  'init-cpu-request': ['none', '{"requests":{"memory":"64Mi"},"limits":{"memory":"128Mi"}}'],
  'init-cpu-limit': ['5m', '{"requests":{"cpu":"5m","memory":"64Mi"},"limits":{"cpu":"5m","memory":"128Mi"}}'],
  'init-memory-request': ['100Mi', '"requests":{"cpu":"10m","memory":"100Mi"}'],
  'init-memory-limit': ['1Gi', '"limits":{"memory":"1Gi"}'],
  'init-ephemeral-storage-request': ['1k', '"requests":{"cpu":"10m","memory":"64Mi","ephemeral-storage":"1k"}'],
  'init-ephemeral-storage-limit': ['1Ti', '"limits":{"memory":"128Mi","ephemeral-storage":"1Ti"}'],
};

function variable(name: string, value: string): string {
  return `{"name":"SALLYPORT_${name}","value":"${value}"}`;
}

t.test('what has no effect without redirect is said', async (t) => {
  const given = {
    'skip-inbound-ports': '25',
    'skip-subnets': '192.0.2.0/24',
    'own-address': 'true',
    'init-cpu-request': '20m',
    'init-memory-limit': '1Gi',
  };
  const listening = { 'inbound-ports': '8080=127.0.0.1:3000' };
  for (const [name, text] of Object.entries(given)) {
    const said = { severity: 'warning', code: 'no-redirect' };
    const found = run(deployment(app), { ...listening, [name]: text });
    const message = `${name} has no effect with inbound-ports, which redirects nothing`;
    t.match(found.problems, [said, { ...said, message, line: 8 }], `--${name}`);
    const annotation = annotationOf(name as OptionName);
    const annotations = `      annotations:\n        ${annotation}: "${text}"\n`;
    const own = run(deployment(app, annotations), listening);
    t.match(own.problems, [said, { ...said, message: `${annotation} has no`, line: 9 }], annotation);
    t.match(own.workloads, [{ outcome: 'injected' }]);
    t.same(run(deployment(app), { [name]: text }).problems, [], 'with it nothing is said');
  }
  const nothing = { ...listening, 'skip-inbound-ports': '', 'skip-subnets': ' ', 'own-address': 'false' };
  t.equal(run(deployment(app), nothing).problems.length, 1, 'nor where nothing is asked for');
});

t.test('each option, by flag, by annotation of the pod and of its Namespace', async (t) => {
  const without = JSON.stringify(specOf(run(deployment(app)).texts[0]));
  for (const name of optionNames) {
    const [text, shows] = rows[name];
    const annotation = { [annotationOf(name)]: text };
    t.notOk(without.includes(shows), `${name}: not so without`);
    const byFlag = run(deployment(app), { [name]: text });
    const errors = byFlag.problems.filter(({ severity }) => severity === 'error');
    t.same(errors, [], name);
    const spec = specOf(byFlag.texts[0]);
    t.ok(JSON.stringify(spec).includes(shows), `${name}: ${shows}`);
    t.same(podFaults({ metadata: {}, spec }), [], `${name}: the API server would take it`);
    t.same(specOf(run(annotated(annotation)).texts[0]), spec, `${name}: of the pod`);
    t.same(specOf(run(inNamespace(annotation)).texts[0]), spec, `${name}: of the Namespace`);
    const other = { image: 'other:1', 'inbound-ports': '1=127.0.0.1:2', 'admin-port': '6191' }[name as 'image'] ?? null;
    if (other === null) continue;
    t.same(specOf(run(annotated(annotation), { [name]: other }).texts[0]), spec, `${name}: over the flag`);
  }
});

t.test('one pod after another: each option in the place of each other, and all of them out again', async (t) => {
  const plain = deployment(app);
  let text = plain;
  for (const name of optionNames) {
    const direct = run(plain, { [name]: rows[name][0] }).texts[0];
    text = run(text, { [name]: rows[name][0] }).texts[0] ?? '';
    t.equal(text, direct, `${name}: as if there had been nothing before`);
    t.equal(uninject([{ file: 'web.yaml', text }], { namespace: 'default' }).texts[0], plain, `${name}: out again`);
  }
});

t.test('values that somebody would like to see in YAML', async (t) => {
  const hostile: readonly unknown[] = [
    'a\nimage: evil:1',
    'a\r\n- name: evil',
    '\u0000',
    'a\u0085b',
    'a\u2028b',
    'a: b',
    '{a: b}',
    '[a]',
    '*alias',
    '&anchor a',
    '!!binary a',
    '<<: *a',
    '- a',
    '# a',
    'a # b',
    '"a',
    "'a",
    '|\n  a',
    '%a',
    '@a',
    '`a`',
    '$(POD)',
    '--apply',
    '../../etc',
    '{serviceaccount}/..',
    '{{ .Values.a }}',
    '__proto__',
    'constructor',
    '1e3',
    '0x10',
    '٣',
    '-1',
    '',
    ' ',
    'yes',
    'x'.repeat(5000),
    '1,'.repeat(3000),
    'Ω'.repeat(253),
    1,
    true,
    ['a'],
    { a: 'b' },
  ];
  for (const name of optionNames) {
    const annotation = annotationOf(name);
    const wrong: string[] = [];
    let refused = 0;
    for (const value of hostile) {
      const says = (what: string): unknown => wrong.push(`${jsonText(value).slice(0, 40)}: ${what}`);
      // As they are, these end lines for some readers of YAML, and nothing is read.
      const text = annotated({ [annotation]: value })
        .replaceAll('\x85', '\\x85')
        .replaceAll('\u2028', '\\u2028');
      const { texts, problems } = run(text);
      const [error] = problems.filter(({ severity }) => severity === 'error');
      if (error === undefined) {
        const [pod] = podsOf(texts[0] ?? '');
        for (const fault of podFaults(pod?.pod)) says(fault);
        if (JSON.stringify(pod?.pod.spec).includes('evil')) says('it is in the pod');
        if (uninject([{ file: 'web.yaml', text: texts[0] ?? '' }], { namespace: 'default' }).texts[0] !== text)
          says('it stays');
        continue;
      }
      refused++;
      if (texts[0] !== text) says('something is written');
      if (error.code !== 'annotation') says(error.code);
      if (!error.message.startsWith(annotation)) says(`whose? ${error.message}`);
      if (error.message.length + error.hint.length > 600) says(`too much: ${error.message}`);
      if (error.line !== 8) says(`line ${error.line}`);
    }
    t.same(wrong, [], name);
    t.ok(refused > 20, `${name}: ${refused} are refused`);
  }
});

t.test('names of ServiceAccounts', async (t) => {
  const given = { 'identity-secret': '{serviceaccount}-identity', 'policy-configmap': '{serviceaccount}' };
  const longest = 'a'.repeat(253);
  const accounts: readonly (readonly [spec: string, want: string | RegExp])[] = [
    ['', 'default'],
    ['      serviceAccountName: robot\n', 'robot'],
    ['      serviceAccount: robot\n', 'robot'],
    ['      serviceAccountName: robot\n      serviceAccount: other\n', 'robot'],
    ['      serviceAccountName: ""\n', 'default'],
    ['      serviceAccountName: a.b\n', 'a.b'],
    ['      serviceAccountName: "../a"\n', /"\.\.\/a(-identity)?" is not a DNS name/],
    ['      serviceAccountName: "a\\nb"\n', /is not a DNS name/],
    [`      serviceAccountName: ${longest}\n`, /is not a DNS name/],
    ['      serviceAccountName: {a: b}\n', /is not a DNS name/],
    ['      serviceAccountName: "$&{serviceaccount}"\n', /is not a DNS name/],
  ];
  for (const [spec, want] of accounts) {
    const { texts, problems } = run(deployment(`${spec}${app.replace(/.*serviceAccountName.*\n/, '')}`), given);
    if (typeof want === 'string') {
      t.same(problems, [], want);
      t.match(JSON.stringify(specOf(texts[0])), `"secretName":"${want}-identity"`);
      t.match(JSON.stringify(specOf(texts[0])), `"configMap":{"name":"${want}"}`);
    } else {
      t.match(problems[0], { severity: 'error', code: 'annotation', message: want }, spec);
      t.match(problems[0]?.message, /^--(policy-configmap|identity-secret): /, 'said of the flag');
      t.ok((problems[0]?.message.length ?? 0) < 400);
    }
  }
});

t.test('work in flight after a stop has no longer than the pod', async (t) => {
  const grace = (ofPod: string, given: Given): string | undefined => {
    const [, own] = specOf(run(deployment(`${ofPod}${app}`), given).texts[0])?.initContainers ?? [];
    return own?.env?.find(({ name }) => name === 'SALLYPORT_SHUTDOWN_GRACE_PERIOD')?.value;
  };
  const of = (seconds: number): string => `      terminationGracePeriodSeconds: ${seconds}\n`;
  t.equal(grace('', {}), '30s');
  t.equal(grace(of(0), {}), '0s');
  t.equal(grace(of(600), {}), '120s');
  t.equal(grace('', { 'shutdown-grace-period': '5s' }), '5s');
  t.equal(grace('', { 'shutdown-grace-period': '5m' }), '30s');
  t.equal(grace(of(600), { 'shutdown-grace-period': '5m' }), '5m');
});

t.test('each option is described, and by one name', async (t) => {
  for (const name of optionNames) {
    const { says, shown, value } = options[name];
    t.ok(says !== '' && shown !== '', name);
    t.equal(value === null, ['own-address', 'decisions-hash'].includes(name), `${name}: a switch`);
  }
  t.equal(new Set(optionNames.map(annotationOf)).size, optionNames.length);
  t.equal(settings.namespace, 'default');
});
