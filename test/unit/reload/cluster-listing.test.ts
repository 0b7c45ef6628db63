import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { readDocuments } from '../../../lib/policy/documents/read.ts';
import { readClusterListing } from '../../../lib/reload/cluster-listing.ts';
import { loadPolicyNow } from '../../../lib/reload/load.ts';
import { readYaml } from '../../../lib/yaml.ts';

// What kubectl prints of one pod, with the traps of its layout: block scalars that look like fields, lists at a field's
// own indent, empty lines, and a container that is called like a label.
const pod = (i: number): string => `- apiVersion: v1
  kind: Pod
  metadata:
    annotations:
      note: |
        labels:
          app: not-this

        name: nor-this
    creationTimestamp: "2026-01-01T00:00:00Z"
    labels:
      app: web-${i}
      linkerd.io/control-plane-ns: linkerd
    name: web-${i}
    namespace: shop
    ownerReferences:
    - apiVersion: apps/v1
      kind: ReplicaSet
      name: web
  spec:
    containers:
    - args:
      - |
        kind: Pod
      env:
${Array.from({ length: 20 }, (_, n) => `      - name: VARIABLE_${n}\n        value: "${n}"\n`).join('')}      name: labels
    hostNetwork: ${i % 10 === 0}
    nodeName: one
  status:
    conditions:
    - status: "True"
      type: Ready
    hostIP: 192.168.0.1
    phase: Running
    podIP: 10.244.${i >> 8}.${i & 255}
    podIPs:
    - ip: 10.244.${i >> 8}.${i & 255}
    - ip: fd00::${i.toString(16)}
`;
const namespace = `- apiVersion: v1
  kind: Namespace
  metadata:
    labels:
      kubernetes.io/metadata.name: shop
      team: shop
    name: shop
  spec:
    finalizers:
    - kubernetes
  status:
    phase: Active
`;
const service = `- apiVersion: v1
  kind: Service
  metadata:
    name: web
  spec:
    selector:
      app: web
`;
const end = 'kind: List\nmetadata:\n  resourceVersion: ""\n';
const number = 400;

function listing(extra = '', tail = end): string {
  return `apiVersion: v1\nitems:\n${Array.from({ length: number }, (_, i) => pod(i)).join('')}${extra}${tail}`;
}

// Neither places inside an item nor its age are kept.
const withoutMarks = (text: string, read: typeof readYaml) =>
  readDocuments(read(text, 'pods.yaml').documents).documents.map(({ marks, createdMs, ...document }) => document);
const quick: typeof readYaml = (text, file) => {
  const read = readClusterListing(text, file, { left: text.length });
  if (read === null) throw new Error('not read as a listing');
  return read;
};

t.test('a listing says the same as the same text parsed whole', async (t) => {
  const text = listing(namespace + service);
  const documents = withoutMarks(text, quick);
  t.equal(documents.length, number + 1);
  t.same(documents, withoutMarks(text, readYaml));
  t.match(documents[1], {
    name: 'web-1',
    labels: [
      ['app', 'web-1'],
      ['linkerd.io/control-plane-ns', 'linkerd'],
    ],
    spec: { ips: [{ text: '10.244.0.1' }, { text: 'fd00::1' }], nodeIps: [{ text: '192.168.0.1' }] },
  });
});

t.test('places and faults are those of the file', async (t) => {
  const text = listing(
    service
      .replace('name: web', 'name: WEB')
      .replace('v1\n  kind: Service', 'policy.linkerd.io/v1beta3\n  kind: Server'),
  );
  const whole = readDocuments(readYaml(text, 'pods.yaml').documents).problems;
  t.ok(whole.length > 0);
  t.same(readDocuments(quick(text, 'pods.yaml').documents).problems, whole, 'of an item that is kept whole');

  const broken = text.replace('      app: web-399\n', '      app: web-399\n      app: twice\n');
  const line = broken.split('\n').indexOf('      app: twice') + 1;
  t.match(quick(broken, 'pods.yaml').problems, [{ code: 'duplicate-key', line }], 'of an item that is reduced');

  const [first, second] = readDocuments(quick(text, 'pods.yaml').documents).documents;
  t.equal(first?.marks[0]?.[1], 3);
  t.equal(second?.marks[0]?.[1], 3 + pod(0).split('\n').length - 1);
});

t.test('what is not in that layout is read whole, so that nothing behind or inside it is lost', async (t) => {
  const policy =
    '---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: np}\nspec: {podSelector: {}}\n';
  const rows: readonly [what: string, text: string][] = [
    ['small', `apiVersion: v1\nitems:\n${pod(1)}${end}`],
    ['another document behind it', listing() + policy],
    ['another document inside it', listing(`---\n${service.replace(/^- /, '  ')}`)],
    ['a field behind it', `${listing()}items: []\n`],
    ['no end', listing('', '')],
    ['other line ends', listing().replaceAll('\n', '\r\n')],
    ['other first lines', `# kubectl\n${listing()}`],
    ['JSON', JSON.stringify({ apiVersion: 'v1', items: [], pad: 'x'.repeat(300_000) })],
  ];
  for (const [what, text] of rows) t.equal(readClusterListing(text, 'pods.yaml', { left: text.length }), null, what);
  for (const section of ['metadata: {name: flow, namespace: shop}', 'metadata: &anchor\n    name: anchored']) {
    const text = listing(`- apiVersion: v1\n  kind: Pod\n  ${section}\n  status:\n    podIP: 10.9.9.9\n`);
    t.same(withoutMarks(text, quick), withoutMarks(text, readYaml), section);
  }
});

t.test('a load reads both', async (t) => {
  const folder = t.testdir({});
  writeFileSync(join(folder, 'pods.yaml'), listing(namespace));
  writeFileSync(
    join(folder, 'policy.yaml'),
    'apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: np}\nspec: {podSelector: {}}\n',
  );
  const { documents, problems } = loadPolicyNow({ paths: [folder], namespace: 'shop' });
  t.same(problems, []);
  t.equal(documents.length, number + 2);
});
