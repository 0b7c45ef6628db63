import t from 'tap';
import { readDocuments } from '../../../../lib/policy/documents/read.ts';
import type { NetworkPolicyDocument } from '../../../../lib/policy/documents/types.ts';
import { document, load, server, sources } from '../../../support/policy-fixtures.ts';

const beta3 = 'policy.linkerd.io/v1beta3';
const gateway = 'gateway.networking.k8s.io/v1';
const ref = '{group: policy.linkerd.io, kind: Server, name: web}';
const routeOf = (fields: string, group = beta3): string =>
  document('HTTPRoute', 'r', `{parentRefs: [${ref}], ${fields}}`, group);
const grpcOf = (fields: string): string => document('GRPCRoute', 'r', `{parentRefs: [${ref}], ${fields}}`, gateway);
const serverOf = (fields: string): string => document('Server', 's', `{port: 80, ${fields}}`, beta3);
const grantOf = (client: string, server = '{name: web}'): string =>
  document('ServerAuthorization', 's', `{server: ${server}, client: ${client}}`);
const limitOf = (fields: string): string => document('HTTPLocalRateLimitPolicy', 'l', `{targetRef: ${ref}, ${fields}}`);
const networksOf = (fields: string): string => document('NetworkAuthentication', 'n', fields);
const isolationOf = (fields: string): string => document('NetworkPolicy', 'n', fields, 'networking.k8s.io/v1');

const read = (text: string) => readDocuments(sources(text), { namespace: 'shop' });

/** What is reported, with the name of the field in the spec that it is about. */
function reported(text: string): string[] {
  return read(text).problems.map(
    ({ severity, code, message }) => `${severity} ${code} ${/spec[\w.[\]]*/.exec(message)?.[0] ?? message}`,
  );
}

t.test('without a value, what may have narrowed a document is an error', async (t) => {
  const rows: readonly (readonly [text: string, field: string])[] = [
    [grantOf('{unauthenticated: true, networks: }'), 'client.networks'],
    [grantOf('{unauthenticated: true, networks: [{cidr: 10.0.0.0/8, except: }]}'), 'client.networks[0].except'],
    [grantOf('{unauthenticated: true}', '{selector: {matchLabels: }}'), 'server.selector.matchLabels'],
    [grantOf('{meshTLS: {serviceAccounts: [{name: a, namespace: }]}}'), 'client.meshTLS.serviceAccounts[0].namespace'],
    [
      document(
        'AuthorizationPolicy',
        'p',
        `{targetRef: ${ref}, requiredAuthenticationRefs: [{kind: ServiceAccount, name: a, namespace: }]}`,
      ),
      'requiredAuthenticationRefs[0].namespace',
    ],
    [
      document('MeshTLSAuthentication', 'm', '{identityRefs: [{kind: ServiceAccount, name: a, namespace: }]}'),
      'identityRefs[0].namespace',
    ],
    [
      limitOf('overrides: [{requestsPerSecond: 1, clientRefs: [{kind: ServiceAccount, name: a, namespace: }]}]'),
      'overrides[0].clientRefs[0].namespace',
    ],
    [networksOf('{networks: [{cidr: 10.0.0.0/8, except: ~}]}'), 'networks[0].except'],
    [serverOf('podSelector: {matchLabels: }'), 'podSelector.matchLabels'],
    [serverOf('podSelector: {matchExpressions: }'), 'podSelector.matchExpressions'],
    [
      serverOf('podSelector: {matchExpressions: [{key: app, operator: In, values: }]}'),
      'podSelector.matchExpressions[0].values',
    ],
    [
      serverOf('podSelector: {matchExpressions: [{values: , operator: NotIn, key: app}]}'),
      'podSelector.matchExpressions[0].values',
    ],
    [serverOf('podSelector: {}, proxyProtocol: '), 'proxyProtocol'],
    [routeOf('rules: '), 'rules'],
    [routeOf('hostnames: ', gateway), 'hostnames'],
    [routeOf('rules: [{matches: }]'), 'rules[0].matches'],
    [routeOf('rules: [{filters: }]'), 'rules[0].filters'],
    [
      routeOf('rules: [{filters: [{type: RequestHeaderModifier, requestHeaderModifier: {remove: }}]}]'),
      'rules[0].filters[0].requestHeaderModifier.remove',
    ],
    ...['scheme', 'hostname', 'port', 'path'].map((field): readonly [text: string, field: string] => [
      routeOf(`rules: [{filters: [{type: RequestRedirect, requestRedirect: {statusCode: 301, ${field}: }}]}]`),
      `rules[0].filters[0].requestRedirect.${field}`,
    ]),
    [routeOf('rules: [{matches: [{path: }]}]', gateway), 'rules[0].matches[0].path'],
    [routeOf('rules: [{matches: [{path: {value: }}]}]'), 'rules[0].matches[0].path.value'],
    [routeOf('rules: [{matches: [{path: {type: , value: /x}}]}]'), 'rules[0].matches[0].path.type'],
    [routeOf('rules: [{matches: [{method: }]}]'), 'rules[0].matches[0].method'],
    [routeOf('rules: [{matches: [{headers: }]}]'), 'rules[0].matches[0].headers'],
    [routeOf('rules: [{matches: [{queryParams: }]}]'), 'rules[0].matches[0].queryParams'],
    [grpcOf('rules: [{matches: [{method: }]}]'), 'rules[0].matches[0].method'],
    [grpcOf('rules: [{matches: [{method: {service: a.B, method: }}]}]'), 'rules[0].matches[0].method.method'],
    [grpcOf('rules: [{matches: [{method: {service: , method: Get}}]}]'), 'rules[0].matches[0].method.service'],
    [limitOf('total: '), 'total'],
    [limitOf('total: {requestsPerSecond: 9}, identity: '), 'identity'],
    [limitOf('total: {requestsPerSecond: 9}, overrides: '), 'overrides'],
  ];
  for (const [text, field] of rows) t.same(reported(text), [`error null-field spec.${field}`], field);
});

t.test('and of a NetworkPolicy the rule opens nothing', async (t) => {
  const rows: readonly (readonly [rule: string, field: string])[] = [
    ['from: ', 'from'],
    ['ports: ', 'ports'],
    ['ports: [{port: }]', 'ports[0].port'],
    ['ports: [{protocol: , port: 53}]', 'ports[0].protocol'],
    ['from: [{ipBlock: }]', 'from[0].ipBlock'],
    ['from: [{podSelector: {}, ipBlock: }]', 'from[0].ipBlock'],
    ['from: [{namespaceSelector: {}, podSelector: }]', 'from[0].podSelector'],
    ['from: [{podSelector: {}, namespaceSelector: }]', 'from[0].namespaceSelector'],
    ['from: [{podSelector: {matchLabels: }}]', 'from[0].podSelector.matchLabels'],
    ['from: [{ipBlock: {cidr: 10.0.0.0/8, except: }}]', 'from[0].ipBlock.except'],
  ];
  for (const [rule, field] of rows) {
    const text = isolationOf(`{podSelector: {}, ingress: [{${rule}}]}`);
    t.same(reported(text), [`error null-field spec.ingress[0].${field}`], field);
    t.match(read(text).documents, [{ spec: { ingress: true, rules: [{ sealed: true }] } }], field);
  }
});

t.test('nor does one that nobody knows open anything', async (t) => {
  const rows: readonly (readonly [fields: string, field: string])[] = [
    ['podSelector: {}, ingress: [{fromm: }]', 'ingress[0].fromm'],
    ['podSelector: {}, ingress: [{from: [{podSelectr: }]}]', 'ingress[0].from[0].podSelectr'],
    [
      'podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, excpt: }}]}]',
      'ingress[0].from[0].ipBlock.excpt',
    ],
    ['podSelector: {}, ingress: [{ports: [{port: 80, endPrt: }]}]', 'ingress[0].ports[0].endPrt'],
    ['podSelector: {matchLabel: }, ingress: [{}]', 'podSelector.matchLabel'],
    ['podSelectr: , ingress: [{}]', 'podSelectr'],
  ];
  for (const [fields, field] of rows) {
    t.same(reported(isolationOf(`{${fields}}`)), [`error unknown-field spec.${field}`], field);
    const [policy] = read(isolationOf(`{${fields}}`)).documents as readonly NetworkPolicyDocument[];
    t.ok(policy?.spec.ingress && policy.spec.rules.every(({ sealed }) => sealed), `${field}: nothing is open`);
  }
  t.same(reported(isolationOf('{podSelector: {}, egress: [{too: }]}')), ['warning null-field spec.egress[0].too']);
});

t.test('what narrows nothing counts as absent, with a warning', async (t) => {
  const rows: readonly (readonly [text: string, field: string])[] = [
    [serverOf('podSelector: {}, accessPolicy: '), 'accessPolicy'],
    [serverOf('podSelector: {}, externalWorkloadSelector: '), 'externalWorkloadSelector'],
    [grantOf('{unauthenticated: true, meshTLS: }'), 'client.meshTLS'],
    [routeOf('rules: [{matches: [{method: GET}], timeouts: }]'), 'rules[0].timeouts'],
    [
      serverOf('podSelector: {matchExpressions: [{key: app, operator: Exists, values: }]}'),
      'podSelector.matchExpressions[0].values',
    ],
    [
      isolationOf('{podSelector: {matchExpressions: [{values: , key: app, operator: DoesNotExist}]}}'),
      'podSelector.matchExpressions[0].values',
    ],
    [isolationOf('{podSelector: }'), 'podSelector'],
    [isolationOf('{podSelector: {}, ingress: }'), 'ingress'],
    [document('HTTPRoute', 'r', '{parentRefs: }', gateway), 'parentRefs'],
  ];
  for (const [text, field] of rows) {
    t.same(reported(text), [`warning null-field spec.${field}`], field);
    const without = text.replaceAll(/(?:, )?\b\w+: (?=[,}])/g, '').replaceAll('{, ', '{');
    const specs = [text, without].map((each) => read(each).documents.map(({ spec }) => spec));
    t.same(specs[0], specs[1], `${field}: as if it were not there`);
  }
});

t.test('without a value, metadata that says where a document applies counts as absent, with a warning', async (t) => {
  const about = (text: string) => read(text).problems.map(({ severity, message }) => `${severity} ${message}`);
  const of = (metadata: string, kind = `${beta3}\nkind: Server`) =>
    `apiVersion: ${kind}\nmetadata: {name: a, ${metadata}}\nspec: {podSelector: {}, port: 80}`;
  const rows: readonly (readonly [text: string, said: readonly string[]])[] = [
    [of('namespace: '), ['warning metadata.namespace has no value, and counts as absent']],
    [of('namespace: ""'), ['warning metadata.namespace has no value, and counts as absent']],
    [of('labels: '), ['warning metadata.labels has no value, and counts as absent']],
    [of('creationTimestamp: , annotations: '), []],
    [of('namespace: ', 'v1\nkind: Pod'), []],
  ];
  for (const [text, said] of rows) t.same(about(text), said, text);
  for (const text of [of('namespace: ""'), of('namespace: "", labels: 1'), of('namespace: "", creationTimestmp: ""')]) {
    t.match(read(text).documents, [{ kind: 'Server', namespace: 'shop' }], text);
  }
});

t.test('a route without a value where it says what it is attached to', async (t) => {
  const detached = (spec: string, group: string): string => document('HTTPRoute', 'r', spec, group);
  const rows: readonly (readonly [text: string, said: string])[] = [
    [detached('', gateway), 'error null-field spec'],
    [detached('', gateway).replace(/^spec: *$/m, ''), 'error missing-field spec'],
    [detached('', beta3).replace(/^spec: *$/m, ''), 'error missing-field spec'],
    [document('GRPCRoute', 'r', '', gateway), 'warning null-field spec'],
    [detached('{parentRefs: }', gateway), 'warning null-field spec.parentRefs'],
    [document('GRPCRoute', 'r', '{parentRefs: }', gateway), 'warning null-field spec.parentRefs'],
    [detached('', beta3), 'error null-field spec'],
    [detached('{parentRefs: , rules: [{}]}', beta3), 'error null-field spec.parentRefs'],
    [detached('{parentRef: , rules: [{}]}', gateway), 'error unknown-field spec.parentRef'],
    [
      detached(`{parentRefs: [{group: policy.linkerd.io, kind: , name: web}]}`, beta3),
      'error null-field spec.parentRefs[0].kind',
    ],
    [
      detached(`{parentRefs: [{group: policy.linkerd.io, knd: , name: web}]}`, beta3),
      'error unknown-field spec.parentRefs[0].knd',
    ],
    [
      detached(`{parentRefs: [{group: , kind: Server, name: web}]}`, gateway),
      'error null-field spec.parentRefs[0].group',
    ],
  ];
  for (const [text, said] of rows) t.same(reported(text), [said], text);
});

t.test('one slip is one problem', async (t) => {
  t.same(reported(document('Server', 's', '{podSelector: {}, port: }', beta3)), ['error invalid-field spec.port']);
  t.same(reported(document('Server', 's', '', beta3)), ['error missing-field spec']);
  t.same(reported(limitOf('total: {requestsPerSecond: }')), ['error missing-field spec.total.requestsPerSecond']);
  const block = isolationOf('{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: }}]}]}');
  t.same(reported(block), ['error missing-field spec.ingress[0].from[0].ipBlock.cidr']);
});

t.test('a refused route that may have named hosts closes all of them', async (t) => {
  const open = server('accessPolicy: all-unauthenticated');
  const text = open + routeOf('hostnames: , rules: [{matches: [{path: {value: /admin}}]}]');
  for (const host of ['a.example', 'b.example']) {
    t.equal(load(open).ask({ host, path: '/admin' }).verdict, 'permit', host);
    t.equal(load(text).ask({ host, path: '/admin' }).verdict, 'deny', host);
  }
});

t.test('a field that nobody knows is unknown without a value, too', async (t) => {
  t.same(reported(grantOf('{unauthenticated: true, netwoks: }')), ['error unknown-field spec.client.netwoks']);
});

t.test('of others nothing is said', async (t) => {
  const rows = [
    document('HTTPRoute', 'r', '{parentRefs: [{kind: Gateway, name: gw}], rules: [{matches: , filters: }]}', gateway),
    document('HTTPRoute', 'r', '{parentRefs: [{group: core, kind: Service, name: a}], rules: [{matches: }]}', beta3),
    'apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: shop, creationTimestamp: }\nspec: {hostNetwork: , ports: }\nstatus: {podIP: }',
  ];
  for (const text of rows) t.same(reported(text), [], text);
});
