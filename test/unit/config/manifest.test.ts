import t from 'tap';
import { readManifest } from '../../../lib/config/manifest.ts';
import { inject } from '../../../lib/deploy/inject.ts';

const deployment = (spec: string): string => `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  template:
    metadata: {labels: {app: web}}
    spec:
${spec}`;

const containers = '      containers: [{name: app, image: app:1, ports: [{name: http, containerPort: 8080}]}]\n';
const service = '---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n';

t.test('a Pod, or a workload with a pod template', async (t) => {
  const cronJob = `apiVersion: batch/v1
kind: CronJob
metadata: {name: web, namespace: shop}
spec: {jobTemplate: {spec: {template: {metadata: {labels: {app: web}}, spec: {containers: [{name: app, image: app:1, ports: [{name: http, containerPort: 8080}]}]}}}}}
`;
  const rows: readonly (readonly [name: string, text: string])[] = [
    ['a Deployment', deployment(containers)],
    ['beside a Service', deployment(containers) + service],
    ['a CronJob', cronJob],
    [
      'in a List',
      `apiVersion: v1\nkind: List\nitems:\n- ${deployment(containers).trimEnd().replaceAll('\n', '\n  ')}\n`,
    ],
    ['a Rollout', deployment(containers).replace('apps/v1', 'argoproj.io/v1alpha1').replace('Deployment', 'Rollout')],
  ];
  for (const [name, text] of rows) {
    const read = readManifest(text, 'web.yaml');
    const facts = 'value' in read ? read.value.facts : null;
    t.match(facts, { podName: null, namespace: 'shop' }, name);
    t.same([...(facts?.labels ?? [])], [['app', 'web']]);
    t.same([...(facts?.namedPorts ?? [])], [['http', [8080]]]);
  }
  for (const [text, fault] of [
    [service, /no Pod or workload/],
    [`${deployment(containers)}---\n${cronJob}`, /more than one/],
    ['', /no Pod or workload/],
  ] as const)
    t.match(readManifest(text, 'web.yaml'), { code: 'invalid-pod', fault });
});

t.test('what an injected pod gives its sidecar, but for files in the container', async (t) => {
  const given = { 'inbound-ports': '8081=127.0.0.1:8080', 'default-inbound-policy': 'audit' };
  const { texts } = inject([{ file: 'web.yaml', text: deployment(containers) }], {
    version: '1.2.3',
    namespace: 'default',
    given,
  });
  const read = readManifest(texts[0] ?? '', 'web.yaml');
  const variables = 'value' in read ? read.value.variables : new Map<string, string>();
  t.equal(variables.get('SALLYPORT_INBOUND_PORTS'), '8081=127.0.0.1:8080');
  t.equal(variables.get('SALLYPORT_DEFAULT_INBOUND_POLICY'), 'audit');
  t.notOk(
    [...variables.keys()].some((name) =>
      /POLICY$|POD_|_FILE$|IDENTITY/.test(name.replace('DEFAULT_INBOUND_POLICY', '')),
    ),
  );
  const plain = readManifest(deployment(containers), 'web.yaml');
  t.equal('value' in plain && plain.value.variables.size, 0, 'none where nothing was injected');
});
