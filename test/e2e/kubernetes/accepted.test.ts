import t from 'tap';
import { inject, uninject } from '../../../lib/deploy/inject.ts';
import { optionNames } from '../../../lib/deploy/options.ts';
import type { InjectSettings } from '../../../lib/deploy/settings.ts';
import { kubernetesUnavailable, startKubernetes } from '../../support/kubernetes.ts';
import { judged, lost, refusals, warningsOf } from '../../support/kubernetes-judge.ts';
import { acceptable } from '../../support/kubernetes-workloads.ts';
import fc from '../../support/properties.ts';

// What inject prints, before the judge that it is printed for: Kubernetes' own API server.

const unavailable = await kubernetesUnavailable(t);

type Given = InjectSettings['given'];
const injected = (text: string, given: Given = {}) =>
  inject([{ file: 'web.yaml', text }], { version: '1.2.3', given, namespace: 'default' });
const everything: Given = {
  image: 'registry.example.com/sallyport:1',
  'image-pull-policy': 'IfNotPresent',
  'image-pull-secrets': 'mine,registry',
  'policy-configmap': 'policy-{serviceaccount}',
  'candidate-configmap': 'candidate-{serviceaccount}',
  'identity-secret': '{serviceaccount}-identity',
  'default-inbound-policy': 'cluster-authenticated',
  'skip-inbound-ports': '25,9000-9100',
  'skip-subnets': '192.0.2.0/24',
  'opaque-ports': '3306',
  'proxy-require-identity-inbound-ports': '8443',
  'own-address': 'true',
  'cluster-networks': '10.0.0.0/8,fd00::/8',
  'probe-networks': '10.0.0.0/24',
  'trust-domain': 'example.org',
  'control-plane-namespace': 'mesh',
  'admin-port': '14191',
  'health-port': '14192',
  'detect-timeout': '5s',
  'proxy-inbound-connect-timeout': '250ms',
  'request-timeout': '1m',
  'shutdown-grace-period': '20s',
  'proxy-log-level': 'warn,linkerd=debug',
  'proxy-log-format': 'plain',
  'access-log': 'apache',
  decisions: 'all',
  'decisions-interval': '60s',
  'decisions-hash': 'true',
  workers: '2',
  'proxy-ephemeral-storage-request': '10Mi',
  'proxy-ephemeral-storage-limit': '1Gi',
  'init-ephemeral-storage-limit': '1G',
};

t.test('the real API server', { skip: unavailable }, async (t) => {
  const cluster = await startKubernetes(t);
  await cluster.namespace('web');
  await cluster.serviceAccount('web', 'robot');
  const beside = [
    'apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: sandboxed}\nhandler: sandboxed\noverhead: {podFixed: {cpu: 50m, memory: 64Mi}}\n',
    'apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: important}\nvalue: 1000\npreemptionPolicy: Never\n',
  ];
  for (const text of beside) t.equal((await cluster.create(text, 'web', false)).status, 201, text);

  await t.test('every kind of workload, before and after an injection', async (t) => {
    for (const { name, text, warns } of acceptable) {
      await t.test(name, async (t) => {
        const before = await judged(cluster, text);
        t.same(refusals(before), [], 'as it is written');
        for (const [how, given] of [
          ['plain', {}],
          ['with everything', everything],
        ] as const) {
          const { texts, problems, workloads } = injected(text, given);
          const [result = ''] = texts;
          t.same(
            problems.map(({ code }) => code),
            warns ?? [],
            `${how}: problems`,
          );
          t.ok(workloads.length > 0 && workloads.every(({ outcome }) => outcome === 'injected'), `${how}: injected`);
          const after = await judged(cluster, result);
          t.same(refusals(after), [], `${how}: accepted`);
          t.same(warningsOf(after), warningsOf(before), `${how}: and no less wise`);
          for (const { sent, answer } of after) t.same(lost(sent, answer.body), [], `${how}: stored as it was meant`);
          t.equal(injected(result, given).texts[0], result, `${how}: twice is as once`);
          t.equal(
            uninject([{ file: 'web.yaml', text: result }], { namespace: 'default' }).texts[0],
            text,
            `${how}: back, byte for byte`,
          );
        }
      });
    }
  });

  await t.test('pods that are left as they are, refused, or guarded without redirect', async (t) => {
    const pod = (spec: string): string => `apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: ${spec}\n`;
    const windows = pod('{os: {name: windows}, containers: [{name: app, image: app:1}]}');
    t.match(injected(windows), { texts: [windows], workloads: [{ outcome: 'skipped' }] });
    const onNode = pod('{hostNetwork: true, containers: [{name: app, image: app:1, ports: [{containerPort: 3000}]}]}');
    t.match(injected(onNode).problems, [{ severity: 'error', code: 'host-network' }]);
    for (const text of [
      onNode,
      ...acceptable.filter(({ warns }) => !warns?.includes('may-unguard')).map(({ text }) => text),
    ]) {
      const { texts, problems } = injected(text, { 'inbound-ports': '8443=127.0.0.1:3000' });
      const [result = ''] = texts;
      t.ok(problems.every(({ code }) => code === 'no-redirect'));
      t.same(refusals(await judged(cluster, result)), []);
      t.equal(uninject([{ file: 'web.yaml', text: result }], { namespace: 'default' }).texts[0], text);
    }
  });

  await t.test('whatever is said of them', async (t) => {
    const choice = fc.array(fc.constantFrom(...said), { maxLength: 5 });
    // What a pod has as a whole may be less than what is said of its sidecar; only the API server adds it all up.
    const row = fc.constantFrom(...acceptable.filter(({ name }) => !name.startsWith('resources of the pod')));
    let accepted = 0;
    await fc.assert(
      fc.asyncProperty(row, choice, async ({ text }, chosen) => {
        const { texts, problems } = injected(text, Object.fromEntries(chosen));
        if (problems.some(({ severity }) => severity === 'error')) return texts[0] === text;
        accepted++;
        return refusals(await judged(cluster, texts[0] ?? '')).length === 0;
      }),
      { numRuns: 150 },
    );
    t.ok(accepted > 30, `${accepted} of 150 are injected, and accepted`);
  });
});

/** What might be said of any option, and what is said of this one with a meaning. */
const words = ['1', 'a', 'a_b', 'a..b', 'A', '-', 'none', 'x'.repeat(300), '$(A)', '10.0.0.0/8', '30s', 'true', '{a}'];
const amounts = ['none', '1', '0', '500m', '0.5', '0.001', '1Mi', '200Mi', '1Gi', '1G', '0.0001', '1e3'];
const said = optionNames.flatMap((name) => {
  const isAmount = /-(cpu|memory|ephemeral-storage)-(request|limit)$/.test(name);
  const meant = everything[name];
  const texts = isAmount ? amounts : [...words, ...(meant === undefined ? [] : words.map(() => meant))];
  return texts.map((text) => [name, text] as const);
});
