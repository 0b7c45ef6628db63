import t from 'tap';
import { inject } from '../../../lib/deploy/inject.ts';
import type { InjectSettings } from '../../../lib/deploy/settings.ts';
import { type Kubernetes, kubernetesUnavailable, startKubernetes } from '../../support/kubernetes.ts';
import { judged, refusals } from '../../support/kubernetes-judge.ts';
import { until } from '../../support/until.ts';

// Namespaces that want something of every pod in them: quotas, ranges, Pod Security.

const unavailable = await kubernetesUnavailable(t);

type Given = InjectSettings['given'];

interface Row {
  readonly name: string;
  readonly labels?: Readonly<Record<string, string>>;
  /** Of a ResourceQuota. */
  readonly hard?: Readonly<Record<string, string>>;
  /** Of a LimitRange. */
  readonly limits?: object;
  /** The pod, by its spec. */
  readonly spec: string;
  readonly given?: Given;
  /** What the API server has against the pod after an injection; null where it takes it. */
  readonly refused?: RegExp;
}

const app = (resources: string): string => `{containers: [{name: app, image: app:1, resources: ${resources}}]}`;
const small = '{requests: {cpu: 50m, memory: 64Mi}, limits: {cpu: 100m, memory: 64Mi}}';
const storing =
  '{requests: {cpu: 50m, memory: 64Mi, ephemeral-storage: 1Mi}, limits: {cpu: 1, memory: 64Mi, ephemeral-storage: 1Mi}}';
const restricted = `{
  securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}},
  containers: [{name: app, image: app:1, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]}`;
const enforce = (level: string) => ({ 'pod-security.kubernetes.io/enforce': level });
/** Both containers alike. */
const both = (amounts: Readonly<Record<string, string>>): Given =>
  Object.fromEntries(
    Object.entries(amounts).flatMap(([name, text]) => ['proxy', 'init'].map((part) => [`${part}-${name}`, text])),
  );

const rows: readonly Row[] = [
  { name: 'a quota on what pods ask for', hard: { 'requests.cpu': '1', 'requests.memory': '1Gi' }, spec: app(small) },
  {
    name: 'a quota on all that pods ask for and may use',
    hard: { 'requests.cpu': '4', 'requests.memory': '4Gi', 'limits.cpu': '4', 'limits.memory': '4Gi', pods: '10' },
    spec: app(small),
  },
  {
    name: 'a quota on ephemeral storage',
    hard: { 'requests.ephemeral-storage': '1Gi', 'limits.ephemeral-storage': '4Gi', 'limits.cpu': '4' },
    spec: app(storing),
  },
  {
    name: 'a quota that resources of the pod meet',
    hard: { 'requests.cpu': '1', 'requests.memory': '1Gi', 'limits.cpu': '1', 'limits.memory': '1Gi' },
    spec: '{resources: {requests: {cpu: 100m, memory: 256Mi}, limits: {cpu: 200m, memory: 512Mi}}, containers: [{name: app, image: app:1}]}',
  },
  {
    name: 'a quota that has no room',
    hard: { 'limits.memory': '128Mi' },
    spec: app(small),
    refused: /exceeded quota/,
  },
  {
    name: 'a quota, with what is asked for by flags',
    hard: { 'limits.memory': '256Mi', 'limits.cpu': '1' },
    spec: app(small),
    given: both({ 'memory-limit': '128Mi', 'cpu-limit': '200m' }),
  },
  {
    name: 'a range with defaults',
    limits: { type: 'Container', default: { cpu: '500m', memory: '512Mi' }, defaultRequest: { cpu: '100m' } },
    spec: '{containers: [{name: app, image: app:1}]}',
  },
  {
    name: 'a range with a maximum',
    limits: { type: 'Container', max: { cpu: '1', memory: '256Mi' } },
    spec: app(small),
  },
  {
    name: 'a range with a minimum above ours',
    limits: { type: 'Container', min: { cpu: '50m', memory: '64Mi' } },
    spec: app(small),
    refused: /minimum cpu usage per Container is 50m/,
  },
  {
    name: 'a range with a minimum, met by flags',
    limits: { type: 'Container', min: { cpu: '50m', memory: '128Mi' } },
    spec: app(small.replaceAll('64Mi', '128Mi')),
    given: both({ 'cpu-request': '50m', 'memory-request': '128Mi' }),
  },
  {
    name: 'a range with a ratio below ours',
    limits: { type: 'Container', maxLimitRequestRatio: { memory: '2' } },
    spec: app(small),
    refused: /memory max limit to request ratio per Container is 2/,
  },
  {
    name: 'a range with a ratio, met by flags',
    limits: { type: 'Container', maxLimitRequestRatio: { cpu: '2', memory: '1' } },
    spec: app(small),
    given: { ...both({ 'cpu-request': '500m', 'memory-request': '256Mi', 'memory-limit': '256Mi' }) },
  },
  {
    name: 'a range of pods',
    limits: { type: 'Pod', max: { cpu: '2', memory: '1Gi' } },
    spec: app(small),
  },
  {
    name: 'a range that resources of the pod meet',
    limits: { type: 'Pod', max: { cpu: '200m', memory: '128Mi' } },
    spec: '{resources: {limits: {cpu: 200m, memory: 128Mi}}, containers: [{name: app, image: app:1}]}',
  },
  { name: 'Pod Security, privileged', labels: enforce('privileged'), spec: restricted },
  {
    name: 'Pod Security, baseline',
    labels: enforce('baseline'),
    spec: restricted,
    refused: /non-default capabilities \(container "sallyport-init" must not include "NET_ADMIN", "NET_RAW"/,
  },
  {
    name: 'Pod Security, restricted',
    labels: enforce('restricted'),
    spec: restricted,
    refused: /runAsUser=0 \(container "sallyport-init" must not set runAsUser=0\)/,
  },
  {
    name: 'Pod Security, restricted, without redirect',
    labels: enforce('restricted'),
    spec: restricted,
    given: { 'inbound-ports': '8080=127.0.0.1:3000', 'identity-secret': 'web' },
  },
];

t.test('namespaces that want something of their pods', { skip: unavailable }, async (t) => {
  const cluster = await startKubernetes(t);
  for (const [index, row] of rows.entries()) {
    const { name, spec, given = {}, refused } = row;
    const namespace = `n${index}`;
    await furnish(cluster, namespace, row);
    const pod = `apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: ${spec}\n`;
    t.same(refusals(await judged(cluster, pod, namespace)), [], `${name}: as it is`);
    const { texts, problems } = inject([{ file: 'web.yaml', text: pod }], { version: '1.2.3', given, namespace });
    t.same(
      problems.filter(({ severity }) => severity === 'error'),
      [],
      `${name}: injected`,
    );
    const found = refusals(await judged(cluster, texts[0] ?? '', namespace));
    if (refused === undefined) t.same(found, [], `${name}: accepted`);
    else t.match(found, [refused], `${name}: refused, with what the page says of it`);
  }
});

const everything = '{cpu: 1k, memory: 1Ti, ephemeral-storage: 1Ti}';
const huge = `apiVersion: v1
kind: Pod
metadata: {name: huge}
spec: {containers: [{name: app, image: app:1, resources: {requests: ${everything}, limits: ${everything}}}]}
`;

/** The namespace, with its quota in force: without a controller nobody else writes into its status what is allowed. */
async function furnish(cluster: Kubernetes, namespace: string, { labels, hard, limits }: Row): Promise<void> {
  await cluster.namespace(namespace, labels);
  const path = `/api/v1/namespaces/${namespace}`;
  const make = (kind: string, spec: object) => ({ apiVersion: 'v1', kind, metadata: { name: 'n' }, spec });
  if (hard !== undefined) {
    const quota = await cluster.expect(
      'POST',
      `${path}/resourcequotas`,
      JSON.stringify(make('ResourceQuota', { hard })),
    );
    const used = Object.fromEntries(Object.keys(hard).map((name) => [name, '0']));
    const inForce = JSON.stringify({ ...quota, status: { hard, used } });
    await cluster.expect('PUT', `${path}/resourcequotas/n/status`, inForce);
    // It watches its own storage, and is a moment behind.
    await until('the quota to be in force', async () => (await cluster.create(huge, namespace, true)).status === 403);
  }
  if (limits !== undefined) {
    await cluster.expect('POST', `${path}/limitranges`, JSON.stringify(make('LimitRange', { limits: [limits] })));
  }
}
