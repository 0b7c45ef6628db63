import t from 'tap';
import { documentKinds } from '../../../../lib/policy/documents/kinds.ts';
import { nearMiss } from '../../../../lib/policy/documents/near-miss.ts';
import { readDocuments } from '../../../../lib/policy/documents/read.ts';
import { document, load, sources } from '../../../support/policy-fixtures.ts';

t.test('slips are told from kinds that are simply not ours', async (t) => {
  const rows: [apiVersion: string, kind: string, meant: string | undefined][] = [
    ['policy.linkerd.io/v1beta3', 'Sever', 'Server'],
    ['policy.linkerd.io/v1beta3', 'server', 'Server'],
    ['policy.linkerd.io/v1beta3', 'SERVER', 'Server'],
    ['policy.linkerd.io/v1beta3', 'Servers', 'Server'],
    ['policy.linkerd.io/v1beta3', 'HttpRoute', 'HTTPRoute'],
    ['policy.linkerd.io/v1alpha1', 'AuthorisationPolicy', 'AuthorizationPolicy'],
    ['policy.linkerd.io/v1alpha1', 'HTTPLocalRatelimitPolicy', 'HTTPLocalRateLimitPolicy'],
    ['policy.linkerd.oi/v1beta3', 'Server', 'Server'],
    ['Policy.Linkerd.io/v1beta3', 'Server', 'Server'],
    ['policy.linkerd/v1beta3', 'Server', 'Server'],
    ['linkerd.io/v1beta3', 'Server', 'Server'],
    ['v1beta3', 'Server', 'Server'],
    ['policy.linkerd.oi/v1beta3', 'Sever', 'Server'],
    ['networking.k8s.io/v1', 'NetworkPolcy', 'NetworkPolicy'],
    ['network.k8s.io/v1', 'NetworkPolicy', 'NetworkPolicy'],
    ['networking.k8s.io/v1', 'networkpolicy', 'NetworkPolicy'],
    ['gateway.networking.k8s.io/v1', 'GrpcRoute', 'GRPCRoute'],
    ['gateway.networking.k8.io/v1', 'HTTPRoute', 'HTTPRoute'],
    ['v1', 'pod', 'Pod'],
    ['v1', 'Namespaces', 'Namespace'],
    ['networking.k8s.io/v1', 'HTTPRoute', 'HTTPRoute'],
    ['policy.linkerd.io/v1alpha1', 'GRPCRoute', 'GRPCRoute'],
    ['policy.linkerd.io/v1', 'NetworkPolicy', 'NetworkPolicy'],
    ['gateway.networking.k8s.io/v1', 'server', 'Server'],
    ['policy/v1', 'NetworkPolicy', 'NetworkPolicy'],
    ['extensions/v1beta1', 'NetworkPolicy', 'NetworkPolicy'],
    ['server.policy.linkerd.io/v1beta3', 'Server', 'Server'],

    ['v1', 'Service', undefined],
    ['v1', 'ServiceAccount', undefined],
    ['v1', 'ConfigMap', undefined],
    ['v1', 'Secret', undefined],
    ['v1', 'Node', undefined],
    ['v1', 'Endpoints', undefined],
    ['v1', 'List', undefined],
    ['extensions/v1beta1', 'Ingress', undefined],
    ['extensions/v1beta1', 'Deployment', undefined],
    ['policy/v1beta1', 'PodSecurityPolicy', undefined],
    ['gateway.networking.k8s.io/v1', 'ReferenceGrant', undefined],
    ['gateway.networking.k8s.io/v1', 'BackendTLSPolicy', undefined],
    ['multicluster.linkerd.io/v1alpha1', 'Link', undefined],
    ['apps/v1', 'Deployment', undefined],
    ['batch/v1', 'Job', undefined],
    ['gateway.networking.k8s.io/v1', 'Gateway', undefined],
    ['gateway.networking.k8s.io/v1alpha2', 'TCPRoute', undefined],
    ['gateway.networking.k8s.io/v1alpha2', 'TLSRoute', undefined],
    ['gateway.networking.k8s.io/v1', 'GatewayClass', undefined],
    ['networking.k8s.io/v1', 'Ingress', undefined],
    ['networking.k8s.io/v1', 'IngressClass', undefined],
    ['policy.linkerd.io/v1alpha1', 'EgressNetwork', undefined],
    ['linkerd.io/v1alpha2', 'ServiceProfile', undefined],
    ['workload.linkerd.io/v1beta1', 'ExternalWorkload', undefined],
    ['policy/v1', 'PodDisruptionBudget', undefined],
    ['security.istio.io/v1', 'AuthorizationPolicy', undefined],
    ['networking.istio.io/v1', 'Gateway', undefined],
    ['projectcalico.org/v3', 'NetworkPolicy', undefined],
    ['crd.projectcalico.org/v1', 'NetworkPolicy', undefined],
    ['cilium.io/v2', 'CiliumNetworkPolicy', undefined],
    ['policy.networking.k8s.io/v1alpha1', 'AdminNetworkPolicy', undefined],
    ['kuma.io/v1alpha1', 'MeshHTTPRoute', undefined],
    ['rbac.authorization.k8s.io/v1', 'Role', undefined],
  ];
  for (const [apiVersion, kind, meant] of rows) {
    const group = apiVersion.includes('/') ? (apiVersion.split('/')[0] ?? '') : '';
    t.equal(nearMiss(group, kind, documentKinds)?.kind, meant, `${apiVersion} ${kind}`);
  }
});

t.test(
  'a slip is an error, refuses as what was meant, and is not guessed at where it says something else',
  async (t) => {
    const spec = '{podSelector: {}, port: 8080, accessPolicy: all-unauthenticated}';
    const { ask, problems } = load(document('Sever', 'web', spec, 'policy.linkerd.io/v1beta3'), {
      defaultPolicy: 'all-unauthenticated',
    });
    t.match(problems, [
      {
        severity: 'error',
        code: 'near-miss',
        hint: 'Did you mean apiVersion: policy.linkerd.io/v1beta3, kind: Server?',
      },
    ]);
    t.equal(ask({}).verdict, 'deny');
    t.equal(ask({ port: 9000 }).verdict, 'permit');
    const unknown = (text: string): boolean => readDocuments(sources(text)).unknown;
    t.notOk(unknown(document('Sever', 'web', spec, 'policy.linkerd.io/v1beta3')));
    t.ok(unknown(document('Sever', 'web', '{}', 'policy.linkerd.io/v1beta3')));
    t.ok(unknown('Kind: Server\napiVersion: policy.linkerd.io/v1beta3'));
    t.ok(unknown('just text'));
    t.notOk(unknown('apiVersion: v1\nkind: Service'));
    const np = document('NetworkPolcy', 'np', '{podSelector: {matchLabels: {app: other}}}', 'networking.k8s.io/v1');
    t.equal(load(np, { defaultPolicy: 'all-unauthenticated' }).ask({}).verdict, 'deny', 'a NetworkPolicy closes');
  },
);

t.test('what must be policy and is of no known kind leaves nobody knowing what is missing', async (t) => {
  const item =
    '{apiVersion: policy.linkerd.io/v1beta3, kind: Server, metadata: {name: s}, spec: {podSelector: {}, port: 1}}';
  const rows: [title: string, text: string, unknown: boolean][] = [
    ['a kind of the group that there is not', document('Srvr', 's', '{}', 'policy.linkerd.io/v1beta3'), true],
    ['another', document('RateLimitPolicy', 's', '{}'), true],
    ...['policy.linkerd.io/v1beta3', 'networking.k8s.io/v1', 'gateway.networking.k8s.io/v1', 'apps/v1', 'v1'].map(
      (version): [string, string, boolean] => [`an empty one of ${version}`, `apiVersion: ${version}\nkind: ""`, true],
    ),
    ['a list of it', 'apiVersion: policy.linkerd.io/v1beta3\nkind: ServerLists\nitems: []', true],
    ['one that says nothing of what comes in', document('EgressNetwork', 's', '{}'), false],
    ['a list in lower case', `apiVersion: v1\nkind: list\nitems: [${item}]`, true],
    ['a list in the plural', `apiVersion: v1\nkind: Lists\nitems: [${item}]`, true],
    ['a list that is short of a letter, and of items', 'apiVersion: v1\nkind: Lst', true],
    ['a list by any other name', `apiVersion: example.org/v1\nkind: Bundle\nitems: [${item}]`, true],
    ['items of something else', 'apiVersion: v1\nkind: ConfigMap\nitems: [{key: a, path: b}]', false],
  ];
  for (const [title, text, unknown] of rows) {
    const read = readDocuments(sources(text));
    t.equal(read.unknown, unknown, title);
    t.equal(
      read.problems.some(({ severity }) => severity === 'error'),
      unknown,
      `${title}: an error`,
    );
  }
});

t.test('a misspelt field of metadata applies a document to nothing that it was not meant for', async (t) => {
  const server =
    'apiVersion: policy.linkerd.io/v1beta3\nkind: Server\nmetadata: {name: web}\nspec: {podSelector: {}, port: 8080}\n';
  const everyone = (metadata: string): string => `---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: ${metadata}
spec: {targetRef: {group: policy.linkerd.io, kind: Server, name: web}, requiredAuthenticationRefs: []}
`;
  const rows: readonly (readonly [metadata: string, severity: 'error' | 'warning' | null, hint: string])[] = [
    ['{name: p}', null, ''],
    ['{name: p, uid: a, generation: 1, ownerReferences: [], managedFields: [], annotations: {}}', null, ''],
    ['{name: p, namespce: other}', 'error', 'Did you mean "namespace"?'],
    ['{name: p, nameSpace: other}', 'error', 'Did you mean "namespace"?'],
    ['{name: p, lables: {a: b}}', 'error', 'Did you mean "labels"?'],
    ['{name: p, creationTimestmp: "2024-01-01T00:00:00Z"}', 'error', 'Did you mean "creationTimestamp"?'],
    ['{name: p, owner: me}', 'warning', ''],
  ];
  for (const [metadata, severity, hint] of rows) {
    const { ask, problems } = load(server + everyone(metadata));
    const found = problems.filter(({ code }) => code === 'unknown-field');
    if (severity === null) t.same(found, [], metadata);
    else t.match(found, [{ severity, hint, resource: { kind: 'AuthorizationPolicy', name: 'p' } }], metadata);
    t.equal(ask({}).verdict, severity === 'error' ? 'deny' : 'permit', metadata);
  }
  const elsewhere = load(server.replace('name: web', 'name: web, namespce: other'), {
    defaultPolicy: 'all-unauthenticated',
  });
  t.equal(elsewhere.ask({}).verdict, 'deny', 'a Server that cannot be placed closes its port');
});
