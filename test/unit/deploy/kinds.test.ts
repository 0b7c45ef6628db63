import t from 'tap';
import { inject, uninject } from '../../../lib/deploy/inject.ts';
import { readWorkloadKind } from '../../../lib/policy/workload-kinds.ts';
import { deployment, flagged, type Given, settings } from './fixtures.ts';

const app = `      containers:
        - name: app
          image: app:1
`;
const run = (text: string, more: Given = {}) => inject([{ file: 'web.yaml', text }], flagged(more));

t.test('kinds of others that are known by the form of their templates', async (t) => {
  const pod = '{metadata: {labels: {app: web}}, spec: {containers: [{name: app, image: app:1}]}}';
  const rows: [apiVersion: string, kind: string, spec: string, pods: number, more?: string][] = [
    ['argoproj.io/v1alpha1', 'Rollout', `{template: ${pod}}`, 1],
    ['argoproj.io/v1alpha1', 'Rollout', '{workloadRef: {kind: Deployment, name: web}}', 0],
    ['serving.knative.dev/v1', 'Service', `{template: ${pod}}`, 1],
    ['apps.openshift.io/v1', 'DeploymentConfig', `{template: ${pod}}`, 1],
    ['apps.kruise.io/v1alpha1', 'CloneSet', `{template: ${pod}}`, 1],
    ['apps.kruise.io/v1beta1', 'StatefulSet', `{template: ${pod}}`, 1],
    ['keda.sh/v1alpha1', 'ScaledJob', `{jobTargetRef: {template: ${pod}}}`, 1],
    [
      'jobset.x-k8s.io/v1alpha2',
      'JobSet',
      `{replicatedJobs: [{name: a, template: {spec: {template: ${pod}}}}, {name: b, template: {spec: {template: ${pod}}}}]}`,
      2,
    ],
    ['leaderworkerset.x-k8s.io/v1', 'LeaderWorkerSet', `{leaderWorkerTemplate: {workerTemplate: ${pod}}}`, 1],
    ['agones.dev/v1', 'Fleet', `{template: {spec: {template: ${pod}}}}`, 1],
    ['example.com/v1', 'Widget', `{tasks: [{template: ${pod}}]}`, 1, 'Widget.example.com=spec.tasks.*.template'],
    ['v1', 'Widget', `{template: ${pod}}`, 1, 'Widget=spec.template'],
  ];
  for (const [apiVersion, kind, spec, pods, more] of rows) {
    const text = `apiVersion: ${apiVersion}\nkind: ${kind}\nmetadata: {name: web, namespace: shop}\nspec: ${spec}\n`;
    const added = more === undefined ? null : readWorkloadKind(more);
    t.equal(added === null, more === undefined, more ?? 'none');
    const all = { ...settings, kinds: added === null ? [] : [added] };
    const { texts, workloads, problems } = inject([{ file: 'web.yaml', text }], all);
    t.same(problems, [], `${apiVersion} ${kind}`);
    t.equal(workloads.length, pods);
    t.equal((texts[0] ?? '').match(/"name": ?"sallyport"/g)?.length ?? 0, pods, 'each of its pods');
    t.equal(uninject([{ file: 'web.yaml', text: texts[0] ?? '' }], all).texts[0], text, 'and out again');
  }
  for (const text of [
    '',
    'Widget',
    'widget.example.com=spec',
    'Widget.example.com=',
    'Widget.Example.com=spec',
    'Widget=spec..x',
  ])
    t.equal(readWorkloadKind(text), null, text);
});

t.test('Pod Security that refuses the redirect', async (t) => {
  const namespace = (labels: string): string =>
    `apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {${labels}}}\n---\n`;
  const rows: [labels: string, given: Given, warned: boolean][] = [
    ['pod-security.kubernetes.io/enforce: restricted', {}, true],
    ['pod-security.kubernetes.io/enforce: baseline', {}, true],
    ['pod-security.kubernetes.io/enforce: privileged', {}, false],
    ['pod-security.kubernetes.io/warn: restricted', {}, false],
    ['pod-security.kubernetes.io/enforce: restricted', { 'inbound-ports': '8080=127.0.0.1:3000' }, false],
  ];
  for (const [labels, given, warned] of rows) {
    const { problems } = run(namespace(labels) + deployment(app), given);
    const found = problems.filter(({ code }) => code === 'pod-security');
    t.equal(found.length, warned ? 1 : 0, labels);
    if (warned) t.match(found, [{ severity: 'warning', message: new RegExp(labels), hint: /--inbound-ports/ }]);
  }
});

t.test('what closes is said', async (t) => {
  const ports = `${app}          ports: [{name: http, containerPort: 8080}, {containerPort: 9090}]\n`;
  const annotated = (port: string, more = ''): string => `      annotations: {prometheus.io/port: "${port}"${more}}\n`;
  const rows: [name: string, text: string, given: Given, detail: string, scrape: RegExp | null][] = [
    ['under deny', deployment(ports), {}, 'closed until a Server permits: 8080, 9090', null],
    [
      'but for skipped ports',
      deployment(ports),
      { 'skip-inbound-ports': '9000-9100' },
      'closed until a Server permits: 8080',
      null,
    ],
    ['not under another default', deployment(ports), { 'default-inbound-policy': 'all-unauthenticated' }, '', null],
    [
      'the port that is scraped',
      deployment(ports, annotated('9090')),
      {},
      'closed until a Server permits: 8080, 9090',
      /port 9090, which "deny" closes .* port 4191, are not scraped/,
    ],
    [
      'one that stays open',
      deployment(ports, annotated('9090')),
      { 'default-inbound-policy': 'all-unauthenticated' },
      '',
      /scrape port 9090; .*not scraped/,
    ],
    [
      'not where nothing is scraped',
      deployment(app, annotated('9090', ', prometheus.io/scrape: "false"')),
      {},
      '',
      null,
    ],
    ['nor where it is our own', deployment(app, annotated('4191')), {}, '', null],
  ];
  for (const [name, text, given, detail, scrape] of rows) {
    const { workloads, problems } = run(text, given);
    t.match(workloads, [{ outcome: 'injected', detail }], name);
    const found = problems.filter(({ code }) => code === 'scrape');
    t.match(found, scrape === null ? [] : [{ severity: 'warning', message: scrape }], name);
    t.equal(found.length, scrape === null ? 0 : 1);
  }
});
