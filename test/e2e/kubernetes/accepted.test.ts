import t from 'tap';
import { parse } from 'yaml';
import { inject, uninject } from '../../../lib/deploy/inject.ts';
import { podTemplates } from '../../../lib/deploy/pod-template.ts';
import type { InjectSettings } from '../../../lib/deploy/settings.ts';
import { type Answer, type Kubernetes, kubernetesUnavailable, startKubernetes } from '../../support/kubernetes.ts';
import { acceptable } from '../../support/kubernetes-workloads.ts';

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
            warns === undefined ? [] : [warns],
            `${how}: problems`,
          );
          t.ok(workloads.length > 0 && workloads.every(({ outcome }) => outcome === 'injected'), `${how}: injected`);
          const after = await judged(cluster, result);
          t.same(refusals(after), [], `${how}: accepted`);
          t.same(warningsOf(after), warningsOf(before), `${how}: and no less wise`);
          for (const { sent, answer } of after) t.same(lost(sent, answer.body), [], `${how}: stored as it was meant`);
          t.equal(injected(result, given).texts[0], result, `${how}: twice is as once`);
          t.equal(
            uninject([{ file: 'web.yaml', text: result }], 'default').texts[0],
            text,
            `${how}: back, byte for byte`,
          );
        }
      });
    }
  });
});

interface Judged {
  readonly sent: unknown;
  readonly answer: Answer;
}

/** Each object of a stream, and each pod that a controller would make of it. */
async function judged(cluster: Kubernetes, text: string, namespace = 'web'): Promise<readonly Judged[]> {
  const found: Judged[] = [];
  for (const document of objectsOf(text)) {
    found.push({ sent: parse(document), answer: await cluster.create(document, namespace, true) });
    const value = parse(document);
    for (const { pod, path } of podTemplates(value).templates) {
      if (path.length === 0) continue;
      const made = madeOf(pod, value);
      found.push({ sent: made, answer: await cluster.create(JSON.stringify(made), namespace, true) });
    }
  }
  return found;
}

/** As kubectl sends them: one at a time, and a List as its items. */
function objectsOf(text: string): string[] {
  if (text.startsWith('{')) return [text];
  return text.split(/^---\n/m).flatMap((document) => {
    const { kind, items } = parse(document) as { kind: string; items?: unknown[] };
    return kind === 'List' ? (items ?? []).map((item) => JSON.stringify(item)) : [document];
  });
}

function madeOf(
  template: object,
  owner: { spec?: { volumeClaimTemplates?: { metadata: { name: string } }[] } },
): object {
  const { metadata, spec } = structuredClone(template) as { metadata?: object; spec: { volumes?: object[] | null } };
  const claims = (owner.spec?.volumeClaimTemplates ?? []).map(({ metadata: { name } }) => ({
    name,
    persistentVolumeClaim: { claimName: `${name}-web-0` },
  }));
  spec.volumes = [...(spec.volumes ?? []), ...claims];
  return { apiVersion: 'v1', kind: 'Pod', metadata: { ...metadata, generateName: 'web-' }, spec };
}

function refusals(all: readonly Judged[]): string[] {
  return all.flatMap(({ answer: { status, body } }) => (status === 201 ? [] : [`${status} ${String(body.message)}`]));
}

function warningsOf(all: readonly Judged[]): string[] {
  return all.flatMap(({ answer }) => answer.warnings).map((warning) => warning.replaceAll(/spec\.\S*?:/g, ''));
}

/** The places of what was sent that are not there, or say something else, in what is stored. */
function lost(sent: unknown, stored: unknown, at = ''): string[] {
  if (sent === null || sent === undefined) return [];
  if (Array.isArray(sent)) {
    // What the server appends (tolerations, volumes of its own) stands behind.
    return sent.flatMap((item, index) => lost(item, (stored as unknown[] | undefined)?.[index], `${at}[${index}]`));
  }
  if (typeof sent === 'object') {
    if (Object.keys(sent).length === 0) return [];
    return Object.entries(sent).flatMap(([key, value]) =>
      lost(value, (stored as Record<string, unknown> | undefined)?.[key], `${at}.${key}`),
    );
  }
  return sent === stored || amount(sent) === amount(stored) ? [] : [`${at}: ${String(sent)} is ${String(stored)}`];
}

/** Quantities are stored in one spelling. */
function amount(value: unknown): unknown {
  return typeof value === 'string' && /^0?\.5$/.test(value) ? '500m' : value;
}
