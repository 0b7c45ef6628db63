import t, { type Test } from 'tap';
import { stringify } from 'yaml';
import { inject, uninject } from '../../../lib/deploy/inject.ts';
import { policyConfigMap } from '../../../lib/deploy/manifests.ts';
import type { InjectSettings } from '../../../lib/deploy/settings.ts';
import { type Kubernetes, kubernetesUnavailable, startKubernetes } from '../../support/kubernetes.ts';
import fc from '../../support/properties.ts';

// A workload that is in the cluster: what comes back from there is injected anew, and taken out again.

const unavailable = await kubernetesUnavailable(t);

const web = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
    spec:
      serviceAccountName: robot
      initContainers:
        - name: migrate
          image: migrate:1
      containers:
        - name: app
          image: app:1
          ports: [{name: health, containerPort: 8080}]
      volumes:
        - {name: scratch, emptyDir: {}}
`;
const path = '/apis/apps/v1/namespaces/shop/deployments/web';

interface Stored {
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly spec: { readonly template: { readonly metadata: { annotations?: object }; readonly spec: PodSpec } };
}
interface PodSpec {
  readonly initContainers: readonly { readonly name: string; readonly image: string }[];
  readonly volumes: readonly { readonly name: string }[];
  readonly imagePullSecrets?: readonly { readonly name: string }[];
}

const settings = (version: string, given: InjectSettings['given']): InjectSettings => ({
  version,
  given,
  namespace: 'default',
});
const injected = (text: string, version: string, given: InjectSettings['given']) => {
  const { texts, workloads, problems } = inject([{ file: 'web.yaml', text }], settings(version, given));
  return { text: texts[0] ?? '', outcome: workloads[0]?.outcome, problems };
};

t.test('a workload in the cluster', { skip: unavailable }, async (t) => {
  const cluster = await startKubernetes(t);
  await cluster.namespace('shop');
  await cluster.serviceAccount('shop', 'robot');
  const original = (await cluster.create(web, 'shop', true)).body as unknown as Stored;

  const first = injected(web, '1.0.0', { 'image-pull-secrets': 'registry', 'identity-secret': '{serviceaccount}' });
  t.same(first.problems, []);
  t.equal((await cluster.create(first.text, 'shop', false)).status, 201, 'injected, and made');

  // kubectl get -o yaml: with defaults, status and fields that only the server writes.
  const asThere = async (): Promise<string> => stringify(await cluster.expect('GET', path), { lineWidth: 0 });
  const again = injected(await asThere(), '1.0.1', { image: 'registry.example.com/sallyport:1.0.1' });
  t.equal(again.outcome, 'updated');
  const updated = (await cluster.expect('PUT', path, again.text)) as unknown as Stored;
  const { initContainers, volumes, imagePullSecrets } = updated.spec.template.spec;
  t.same(
    initContainers.map(({ name, image }) => [name, image]),
    [
      ['sallyport-init', 'registry.example.com/sallyport:1.0.1'],
      ['sallyport', 'registry.example.com/sallyport:1.0.1'],
      ['migrate', 'migrate:1'],
    ],
    'the new version stands where the old one did',
  );
  t.same(
    volumes.map(({ name }) => name),
    ['sallyport-policy', 'sallyport-pod', 'sallyport-run', 'scratch'],
    'without what is not asked for any more',
  );
  t.same(imagePullSecrets ?? [], [], 'nor pull secrets');

  const { texts, problems } = uninject([{ file: 'web.yaml', text: await asThere() }], { namespace: 'default' });
  t.same(problems, []);
  const back = (await cluster.expect('PUT', path, texts[0])) as unknown as Stored;
  t.same(back.spec, original.spec, 'taken out, it is what it would have been without');
  await debugged(t, cluster);
  await configured(t, cluster);
});

/** kubectl debug: a container that comes later. */
async function debugged(t: Test, cluster: Kubernetes): Promise<void> {
  const pod = 'apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - {name: app, image: app:1}\n';
  t.equal((await cluster.create(injected(pod, '1.0.0', {}).text, 'shop', false)).status, 201);
  const patch = JSON.stringify({ spec: { ephemeralContainers: [{ name: 'debugger', image: 'busybox:1' }] } });
  const type = 'application/strategic-merge-patch+json';
  const of = '/api/v1/namespaces/shop/pods/web/ephemeralcontainers';
  t.equal((await cluster.ask('PATCH', of, patch, type)).status, 200, 'an injected pod may be debugged');
}

/** The policy folder as a ConfigMap: whatever is in a file comes back. */
async function configured(t: Test, cluster: Kubernetes): Promise<void> {
  const known = [
    'a: yes # it is\n',
    'no line end',
    '',
    'CRLF\r\n',
    '--- |\n  a block\n...\n',
    '\u0085 漢字\n',
    '\ttab \n\n',
    '\na line behind an empty one\n \nand behind a blank, of more than forty characters\n',
  ];
  const piece = fc.constantFrom(
    ...known,
    ' ',
    '\t',
    '\n',
    '\r',
    '\u0007',
    '\u007f',
    '\u0090',
    '\u2028',
    '\ufeff',
    '#',
    ':',
    '"',
    "'",
    '\\',
    '😀',
    '\u{e0041}',
  );
  const file = fc.array(piece, { maxLength: 6 }).map((pieces) => pieces.join(''));
  let count = 0;
  const holds = async (texts: readonly string[]): Promise<void> => {
    const files = texts.map((text, index) => ({ file: 'x', name: `${index}.yaml`, text }));
    const made = policyConfigMap({ name: `policy-${count++}`, namespace: 'shop' }, files);
    if (!('yaml' in made)) throw new Error(made.problem.message);
    const { status, body } = await cluster.create(made.yaml, 'default', true);
    if (status !== 201) throw new Error(String(body.message));
    const { data = {} } = body as { data?: Readonly<Record<string, string>> };
    const lost = texts.filter((text, index) => data[`${index}.yaml`] !== text);
    if (lost.length > 0) throw new Error(`came back otherwise: ${JSON.stringify(lost)}`);
  };
  await holds(known);
  await fc.assert(fc.asyncProperty(fc.array(file, { maxLength: 4 }), holds), { numRuns: 200 });
  t.ok(count > 200, `${count} folders come back byte for byte`);
}
