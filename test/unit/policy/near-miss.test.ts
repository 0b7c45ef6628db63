import t from 'tap';
import { documentKinds } from '../../../lib/policy/document-kinds.ts';
import { readDocuments } from '../../../lib/policy/documents.ts';
import { nearMiss } from '../../../lib/policy/near-miss.ts';
import { document, load, sources } from './fixtures.ts';

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

    ['v1', 'Service', undefined],
    ['v1', 'ServiceAccount', undefined],
    ['v1', 'ConfigMap', undefined],
    ['v1', 'Secret', undefined],
    ['v1', 'Node', undefined],
    ['v1', 'Endpoints', undefined],
    ['v1', 'List', undefined],
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
