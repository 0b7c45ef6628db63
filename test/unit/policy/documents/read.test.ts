import t from 'tap';
import { type PolicyDocument, readDocuments } from '../../../../lib/policy/documents/read.ts';
import { document, sources } from '../../../support/policy-fixtures.ts';

const beta3 = 'policy.linkerd.io/v1beta3';
const gateway = 'gateway.networking.k8s.io/v1';
const parent = 'parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]';
const routeOf = (rules: string): string => document('HTTPRoute', 'r', `{${parent}, rules: [${rules}]}`, beta3);
const authOf = (networks: string): string => document('NetworkAuthentication', 'n', `{networks: ${networks}}`);
const policyOf = (spec: string): string => document('AuthorizationPolicy', 'p', spec);
const serverTarget = 'targetRef: {group: policy.linkerd.io, kind: Server, name: web}';
const mesh = '{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: m}';
const net = '{group: policy.linkerd.io, kind: NetworkAuthentication, name: n}';
const limitTarget = 'targetRef: {group: policy.linkerd.io, kind: Server, name: web}';

function read(text: string) {
  return readDocuments(sources(text), { namespace: 'shop' });
}

/** Without those that stand for a refused one, and only ever refuse. */
function granting(documents: readonly PolicyDocument[]): readonly PolicyDocument[] {
  return documents.filter(
    (document) => !('refused' in document.spec) && !(document.kind === 'Server' && document.spec.sealed),
  );
}

t.test('a field of the wrong form is told how to be written', (t) => {
  const serverOf = (more: string): string => document('Server', 's', `{podSelector: {}, port: 80, ${more}}`, beta3);
  const rows: readonly (readonly [title: string, text: string, hint: string])[] = [
    ['a method in lower case', routeOf('{matches: [{method: get}]}'), 'Did you mean "GET"?'],
    ['part of a name', routeOf('{matches: [{path: {type: Prefix, value: /x}}]}'), 'Did you mean "PathPrefix"?'],
    ['part of two names', serverOf('proxyProtocol: http'), ''],
    ['no name', serverOf('proxyProtocol: ""'), ''],
    ['a network alone', authOf('[10.0.0.0/8]'), 'Write { cidr: 10.0.0.0/8 }.'],
    ['one in place of a list', authOf('{cidr: 10.0.0.0/8}'), 'Write it as a list, with - before each item or in [ ].'],
    ['a number in place of text', routeOf('{matches: [{path: {type: Exact, value: 1}}]}'), 'Write it in quotes.'],
    ['text in place of fields', routeOf('rule'), 'Write its fields: { name: value }.'],
    ['nothing', document('Server', 's', '{podSelector: {}}', beta3), ''],
  ];
  for (const [title, text, hint] of rows) {
    const [problem, ...others] = read(text).problems.filter(({ severity }) => severity === 'error');
    t.same(others, [], `${title}: one error`);
    t.equal(problem?.hint, hint, title);
  }
  t.end();
});

t.test('refused documents grant nothing and say why', async (t) => {
  const rows: readonly (readonly [title: string, text: string, code: string])[] = [
    ['Server without port', document('Server', 's', '{podSelector: {}}', beta3), 'invalid-field'],
    ['Server port 0', document('Server', 's', '{podSelector: {}, port: 0}', beta3), 'invalid-field'],
    ['Server port 65536', document('Server', 's', '{podSelector: {}, port: 65536}', beta3), 'invalid-field'],
    ['Server without selector', document('Server', 's', '{port: 80}', beta3), 'server-selector'],
    [
      'Server with both selectors',
      document('Server', 's', '{port: 80, podSelector: {}, externalWorkloadSelector: {}}', beta3),
      'server-selector',
    ],
    ['v1alpha1 empty selector', document('Server', 's', '{port: 80, podSelector: {}}'), 'server-selector'],
    [
      'proxyProtocol in the wrong case',
      document('Server', 's', '{port: 80, podSelector: {}, proxyProtocol: http/1}', beta3),
      'invalid-field',
    ],
    [
      'accessPolicy allow',
      document('Server', 's', '{port: 80, podSelector: {}, accessPolicy: allow}', beta3),
      'access-policy',
    ],
    [
      'an unknown operator',
      document('Server', 's', '{port: 80, podSelector: {matchExpressions: [{key: a, operator: Gt}]}}', beta3),
      'invalid-field',
    ],
    [
      'a label that is a number',
      document('Server', 's', '{port: 80, podSelector: {matchLabels: {app: 1}}}', beta3),
      'invalid-field',
    ],
    [
      'a label without a value, which would widen the selector if dropped',
      document('Server', 's', '{port: 80, podSelector: {matchLabels: {app: null}}}', beta3),
      'invalid-field',
    ],
    [
      'ServerAuthorization for nothing',
      document('ServerAuthorization', 's', '{server: {}, client: {}}'),
      'server-target',
    ],
    [
      'ServerAuthorization by name and selector',
      document('ServerAuthorization', 's', '{server: {name: a, selector: {}}, client: {unauthenticated: true}}'),
      'server-target',
    ],
    [
      'unauthenticated and meshTLS',
      document('ServerAuthorization', 's', '{server: {name: a}, client: {unauthenticated: true, meshTLS: {}}}'),
      'client-conflict',
    ],
    [
      'unauthenticatedTLS and identities',
      document(
        'ServerAuthorization',
        's',
        '{server: {name: a}, client: {meshTLS: {unauthenticatedTLS: true, identities: ["*"]}}}',
      ),
      'client-conflict',
    ],
    ['requiredAuthenticationRefs missing', policyOf(`{${serverTarget}}`), 'missing-field'],
    [
      'two MeshTLSAuthentications',
      policyOf(`{${serverTarget}, requiredAuthenticationRefs: [${mesh}, ${mesh}]}`),
      'too-many-authentications',
    ],
    [
      'two NetworkAuthentications',
      policyOf(`{${serverTarget}, requiredAuthenticationRefs: [${net}, ${net}]}`),
      'too-many-authentications',
    ],
    [
      'MeshTLSAuthentication and ServiceAccount',
      policyOf(`{${serverTarget}, requiredAuthenticationRefs: [${mesh}, {kind: ServiceAccount, name: a}]}`),
      'too-many-authentications',
    ],
    [
      'an authentication of an unknown kind',
      policyOf(`{${serverTarget}, requiredAuthenticationRefs: [{group: policy.linkerd.io, kind: JWT, name: a}]}`),
      'authentication-kind',
    ],
    [
      'an authentication without its group',
      policyOf(`{${serverTarget}, requiredAuthenticationRefs: [{kind: NetworkAuthentication, name: a}]}`),
      'authentication-kind',
    ],
    [
      'a Deployment as target',
      policyOf('{targetRef: {group: apps, kind: Deployment, name: a}, requiredAuthenticationRefs: []}'),
      'target-kind',
    ],
    [
      'a Server without its group',
      policyOf('{targetRef: {kind: Server, name: a}, requiredAuthenticationRefs: []}'),
      'target-kind',
    ],
    [
      'a GRPCRoute of the wrong group',
      policyOf('{targetRef: {group: policy.linkerd.io, kind: GRPCRoute, name: a}, requiredAuthenticationRefs: []}'),
      'target-kind',
    ],
    [
      'another Namespace',
      policyOf('{targetRef: {kind: Namespace, name: other}, requiredAuthenticationRefs: []}'),
      'target-namespace',
    ],
    [
      'targetRef.namespace that leads elsewhere',
      policyOf(
        '{targetRef: {group: policy.linkerd.io, kind: Server, name: a, namespace: other}, requiredAuthenticationRefs: []}',
      ),
      'unknown-field',
    ],
    ['neither identities nor identityRefs', document('MeshTLSAuthentication', 'm', '{}'), 'identities'],
    [
      'identities and identityRefs',
      document('MeshTLSAuthentication', 'm', '{identities: ["*"], identityRefs: [{kind: Namespace, name: a}]}'),
      'identities',
    ],
    ['an empty list of identities', document('MeshTLSAuthentication', 'm', '{identities: []}'), 'invalid-field'],
    [
      'an identityRef of another kind',
      document('MeshTLSAuthentication', 'm', '{identityRefs: [{kind: Pod, name: a}]}'),
      'identity-ref',
    ],
    [
      'an identityRef to a Namespace with a namespace',
      document('MeshTLSAuthentication', 'm', '{identityRefs: [{kind: Namespace, name: a, namespace: b}]}'),
      'identity-ref',
    ],
    [
      'an identity with a star in the middle',
      document('MeshTLSAuthentication', 'm', '{identities: ["a.*.b"]}'),
      'identity',
    ],
    ['no network', authOf('[]'), 'invalid-field'],
    ['a network that is none', authOf('[{cidr: 10.0.0.0/33}]'), 'cidr'],
    [
      'a group in capitals, which the CRD refuses',
      policyOf('{targetRef: {group: Policy.Linkerd.io, kind: Server, name: web}, requiredAuthenticationRefs: []}'),
      'invalid-field',
    ],
    [
      'a gRPC method without a name',
      document('GRPCRoute', 'r', `{${parent}, rules: [{matches: [{method: {}}]}]}`, gateway),
      'grpc-method-empty',
    ],
    [
      'a gRPC service that is none',
      document('GRPCRoute', 'r', `{${parent}, rules: [{matches: [{method: {service: a/b}}]}]}`, gateway),
      'grpc-method-name',
    ],
    [
      'a header set twice',
      document(
        'HTTPRoute',
        'r',
        `{${parent}, rules: [{filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: a, value: b}, {name: a, value: c}]}}]}]}`,
        beta3,
      ),
      'header-repeated',
    ],
    [
      'an empty value of a query parameter',
      document('HTTPRoute', 'r', `{${parent}, rules: [{matches: [{queryParams: [{name: a, value: ""}]}]}]}`, beta3),
      'invalid-field',
    ],
    [
      'parents that are no list, of a route that attaches to no Server',
      document('HTTPRoute', 'r', '{parentRefs: web}', beta3),
      'invalid-field',
    ],
    [
      'a path that the Gateway API refuses',
      document(
        'HTTPRoute',
        'r',
        `{${parent}, rules: [{matches: [{path: {value: /a/../b}}]}]}`,
        'gateway.networking.k8s.io/v1',
      ),
      'path-form',
    ],
    [
      'a ServerAuthorization for a name that no CRD takes',
      document('ServerAuthorization', 's', '{server: {name: a.b}, client: {unauthenticated: true}}'),
      'invalid-field',
    ],
    ['a network with a zone', authOf('[{cidr: "fe80::1%eth0"}]'), 'cidr'],
    ['a network of an unquoted octal', authOf('[{cidr: 010.0.0.0/8}]'), 'cidr'],
    ['an exception outside', authOf('[{cidr: 10.0.0.0/8, except: [11.0.0.0/8]}]'), 'except-outside'],
    ['an exception of the other family', authOf('[{cidr: 10.0.0.0/8, except: ["fd00::/8"]}]'), 'except-outside'],
    ['an exception that covers', authOf('[{cidr: 10.0.0.0/8, except: [10.0.0.0/8]}]'), 'except-covers'],
    ['an exception that is none', authOf('[{cidr: 10.0.0.0/8, except: [ten]}]'), 'cidr'],
    ['podClusterIp except itself', authOf('[{cidr: podClusterIp, except: [podClusterIp]}]'), 'except-covers'],
    ['exceptions alone', authOf('[{except: [10.0.0.0/8]}]'), 'except-alone'],
    ['an empty item', authOf('[{cidr: 10.0.0.0/8}, {}]'), 'network-empty'],
    ['a misspelt except, which would widen', authOf('[{cidr: 10.0.0.0/8, exept: [10.1.0.0/16]}]'), 'unknown-field'],
    ['a bare CIDR as an item', authOf('[10.0.0.0/8]'), 'invalid-field'],
    [
      'a misspelt selector, which would select all Servers',
      document(
        'ServerAuthorization',
        's',
        '{server: {selector: {matchLabel: {a: b}}}, client: {unauthenticated: true}}',
      ),
      'unknown-field',
    ],
    ['an unknown path type', routeOf('{matches: [{path: {type: Glob, value: /a}}]}'), 'invalid-field'],
    ['a relative path', routeOf('{matches: [{path: {type: Exact, value: a}}]}'), 'path-relative'],
    ['a broken regular expression', routeOf('{matches: [{path: {type: RegularExpression, value: "/a("}}]}'), 'regex'],
    [
      'a look-behind, which is not linear',
      routeOf('{matches: [{path: {type: RegularExpression, value: "(?<=a)b"}}]}'),
      'regex',
    ],
    [
      'a regular expression beyond the cap',
      routeOf(`{matches: [{path: {type: RegularExpression, value: "/${'a'.repeat(1100)}"}}]}`),
      'regex',
    ],
    ['an unknown method', routeOf('{matches: [{method: get}]}'), 'invalid-field'],
    [
      'a header matched twice',
      routeOf('{matches: [{headers: [{name: a, value: b}, {name: A, value: c}]}]}'),
      'match-repeated',
    ],
    ['a header name that is none', routeOf('{matches: [{headers: [{name: "a b", value: b}]}]}'), 'invalid-field'],
    ['an unsupported filter', routeOf('{filters: [{type: URLRewrite, urlRewrite: {}}]}'), 'filter-unsupported'],
    ['a filter without its settings', routeOf('{filters: [{type: RequestRedirect}]}'), 'filter-incomplete'],
    [
      'a filter with settings of another type too',
      routeOf('{filters: [{type: RequestHeaderModifier, requestHeaderModifier: {}, requestRedirect: {}}]}'),
      'filter-mixed',
    ],
    [
      'a filter with settings of another type alone',
      routeOf('{filters: [{type: ResponseHeaderModifier, requestRedirect: {}}]}'),
      'filter-mixed',
    ],
    [
      'the same for gRPC',
      document(
        'GRPCRoute',
        'r',
        `{${parent}, rules: [{filters: [{type: RequestHeaderModifier, requestHeaderModifier: {}, requestMirror: {}}]}]}`,
        gateway,
      ),
      'filter-mixed',
    ],
    [
      'a redirect with both kinds of paths',
      routeOf(
        '{filters: [{type: RequestRedirect, requestRedirect: {path: {type: ReplaceFullPath, replaceFullPath: /a, replacePrefixMatch: /b}}}]}',
      ),
      'filter-mixed',
    ],
    [
      'a filter twice',
      routeOf(
        '{filters: [{type: RequestHeaderModifier, requestHeaderModifier: {}}, {type: RequestHeaderModifier, requestHeaderModifier: {}}]}',
      ),
      'filter-repeated',
    ],
    [
      'a header value with a line break',
      routeOf(
        '{filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: a, value: "b\\r\\nc: d"}]}}]}',
      ),
      'invalid-field',
    ],
    [
      'redirect status 307 in the policy group',
      routeOf('{filters: [{type: RequestRedirect, requestRedirect: {statusCode: 307}}]}'),
      'invalid-field',
    ],
    [
      'an upper-case hostname',
      document('HTTPRoute', 'r', `{${parent}, hostnames: [A.example]}`, beta3),
      'invalid-field',
    ],
    [
      'a parent with a port',
      document(
        'HTTPRoute',
        'r',
        '{parentRefs: [{group: policy.linkerd.io, kind: Server, name: web, port: 80}]}',
        beta3,
      ),
      'parent-section',
    ],
    [
      'a parent with a section',
      document(
        'HTTPRoute',
        'r',
        '{parentRefs: [{group: policy.linkerd.io, kind: Server, name: web, sectionName: a}]}',
        beta3,
      ),
      'parent-section',
    ],
    [
      'a parent in another namespace',
      document(
        'HTTPRoute',
        'r',
        '{parentRefs: [{group: policy.linkerd.io, kind: Server, name: web, namespace: other}]}',
        beta3,
      ),
      'parent-namespace',
    ],
    [
      'a gRPC method by regular expression',
      document(
        'GRPCRoute',
        'r',
        `{${parent}, rules: [{matches: [{method: {type: RegularExpression, service: a}}]}]}`,
        gateway,
      ),
      'grpc-method-regex',
    ],
    [
      'a redirect of gRPC',
      document(
        'GRPCRoute',
        'r',
        `{${parent}, rules: [{filters: [{type: RequestRedirect, requestRedirect: {}}]}]}`,
        gateway,
      ),
      'filter-unsupported',
    ],
    [
      'an identity limit above the total',
      document(
        'HTTPLocalRateLimitPolicy',
        'l',
        `{${limitTarget}, total: {requestsPerSecond: 1}, identity: {requestsPerSecond: 2}}`,
      ),
      'rate-limit-above-total',
    ],
    [
      'an override above the total',
      document(
        'HTTPLocalRateLimitPolicy',
        'l',
        `{${limitTarget}, total: {requestsPerSecond: 1}, overrides: [{requestsPerSecond: 2, clientRefs: [{kind: ServiceAccount, name: a}]}]}`,
      ),
      'rate-limit-above-total',
    ],
    [
      'a negative limit',
      document('HTTPLocalRateLimitPolicy', 'l', `{${limitTarget}, total: {requestsPerSecond: -1}}`),
      'invalid-field',
    ],
    [
      'a limit of a route',
      document('HTTPLocalRateLimitPolicy', 'l', '{targetRef: {group: policy.linkerd.io, kind: HTTPRoute, name: a}}'),
      'target-kind',
    ],
    [
      'a limit for a Namespace',
      document(
        'HTTPLocalRateLimitPolicy',
        'l',
        `{${limitTarget}, overrides: [{requestsPerSecond: 1, clientRefs: [{kind: Namespace, name: a}]}]}`,
      ),
      'client-kind',
    ],
    [
      'an unknown version',
      document('Server', 's', '{podSelector: {}, port: 80}', 'policy.linkerd.io/v1'),
      'unknown-version',
    ],
    ['no spec', 'apiVersion: policy.linkerd.io/v1beta3\nkind: Server\nmetadata: {name: s}', 'missing-field'],
    [
      'no name',
      'apiVersion: policy.linkerd.io/v1beta3\nkind: Server\nmetadata: {}\nspec: {podSelector: {}, port: 80}',
      'missing-field',
    ],
    [
      'a name that is none',
      'apiVersion: policy.linkerd.io/v1beta3\nkind: Server\nmetadata: {name: "a\\nb"}\nspec: {podSelector: {}, port: 80}',
      'invalid-field',
    ],
    ['no document', '- a\n- b', 'not-a-document'],
  ];
  for (const [title, text, code] of rows) {
    const { documents, problems } = read(text);
    t.same(granting(documents), [], `${title}: grants nothing`);
    const errors = problems.filter(({ severity }) => severity === 'error');
    t.ok(
      errors.some((problem) => problem.code === code),
      `${title}: ${code}, was ${errors.map((problem) => problem.code).join() || 'none'}`,
    );
    t.ok(
      errors.every(({ message, line, column }) => message !== '' && line >= 1 && column >= 1),
      `${title}: placed`,
    );
    t.ok(
      errors.every(({ code: said, resource }) => said === 'not-a-document' || resource !== null),
      `${title}: names the document`,
    );
  }
});

t.test('a regular expression that Linkerd would read otherwise is refused, and says where', async (t) => {
  const codes = (pattern: string): string[] =>
    read(routeOf(`{matches: [{path: {type: RegularExpression, value: ${JSON.stringify(pattern)}}}]}`)).problems.map(
      ({ code, message }) => `${code} ${/^Linkerd reads "(.*)" there/.exec(message)?.[1] ?? message}`,
    );
  const rows: readonly (readonly [pattern: string, piece: string])[] = [
    ['/[a-z&&[^b]]+', '&&'],
    ['/[a&&b]', '&&'],
    ['/[\\w--\\d]', '--'],
    ['/[a--/]', '--'],
    ['/[^a-c~~b-d]', '~~'],
    ['/[[a-z]0-9]', '['],
    ['/[a[]', '['],
    ['/[]&&a]', '&&'],
    ['/[[:alpha:]&&a]', '&&'],
    ['/[[:a]]', '['],
    ['/\\<a', '\\<'],
    ['/a\\>', '\\>'],
    ['/\\b{start}a', '\\b{'],
  ];
  for (const [pattern, piece] of rows) t.same(codes(pattern), [`regex ${piece}`], pattern);
  const alike = [
    '/a&&b--c~~d',
    '/[a\\&\\&b]',
    '/[\\[a]',
    '/[[:alpha:]_]+',
    '/[^]a-]',
    '/[a-z-]',
    '/[:alpha:]',
    '/\\[[a]\\]&&',
    '/[--/]',
    '/(?x) a{ 2 }',
    '/(?u:\\u0061)\\p{Letter}+{1,}',
    '/\\ba\\b',
    '/a{2}',
  ];
  for (const pattern of alike) t.same(codes(pattern), [], pattern);
  // What its webhook refuses. Others are in unit/policy/rust-regex.test.ts.
  for (const pattern of ['/b{,2}', '/a{', '/\\Qa.b\\E', '/\\p{^L}', '/[\\<]a', '/\\101', '/\\w{1000}', '/a\\Z']) {
    t.match(codes(pattern), [/^regex not a regular expression: /], pattern);
  }
});

t.test('accepted, with the defaults of the API server', async (t) => {
  const rows: readonly (readonly [title: string, text: string, spec: Record<string, unknown>])[] = [
    [
      'Server',
      document('Server', 's', '{podSelector: {}, port: "8080"}', beta3),
      { port: '8080', protocol: 'detect', accessPolicy: 'deny', sealed: false },
    ],
    [
      'a Server of v1beta1',
      document('Server', 's', '{podSelector: {}, port: 1}', 'policy.linkerd.io/v1beta1'),
      { accessPolicy: 'deny' },
    ],
    [
      'a Server for ExternalWorkloads',
      document('Server', 's', '{externalWorkloadSelector: {}, port: 1}', beta3),
      { podSelector: null },
    ],
    [
      'HTTPRoute without rules',
      document('HTTPRoute', 'r', `{${parent}}`, beta3),
      { rules: [{ matches: [{ path: { type: 'prefix', value: '/' } }] }] },
    ],
    [
      'a match without a path',
      routeOf('{matches: [{method: GET}]}'),
      { rules: [{ matches: [{ path: { type: 'prefix', value: '/' }, method: 'GET' }] }] },
    ],
    [
      'an empty list of matches',
      routeOf('{matches: []}'),
      { rules: [{ matches: [{ path: { type: 'prefix', value: '/' } }] }] },
    ],
    [
      'a header-only GRPCRoute match',
      document('GRPCRoute', 'r', `{${parent}, rules: [{matches: [{headers: [{name: A, value: b}]}]}]}`, gateway),
      { rules: [{ matches: [{ service: null, method: null, headers: [{ name: 'a', value: 'b' }] }] }] },
    ],
    [
      'a redirect',
      routeOf('{filters: [{type: RequestRedirect, requestRedirect: {}}]}'),
      { rules: [{ redirect: { status: 302 } }] },
    ],
    [
      'a route on a Gateway, whatever it holds',
      document(
        'HTTPRoute',
        'r',
        '{parentRefs: [{name: gw}], rules: [{filters: [{type: URLRewrite, urlRewrite: {}}], future: 1}]}',
        gateway,
      ),
      { parents: [], rules: [] },
    ],
    [
      'absent networks',
      document('ServerAuthorization', 's', '{server: {name: a}, client: {unauthenticated: true}}'),
      { networks: null },
    ],
    [
      'except alone',
      authOf('[{cidr: 10.0.0.0/8}, {cidr: "fd00::/8"}, {except: [10.1.0.0/16]}]'),
      { networks: [{ except: [{ text: '10.1.0.0/16' }] }, { except: [{ text: '10.1.0.0/16' }] }] },
    ],
    ['podClusterIp as a bare item', authOf('[podClusterIp]'), { networks: [{ network: 'podClusterIp', except: [] }] }],
    [
      'podClusterIp with exceptions of both spellings',
      authOf('[{cidr: podClusterIp, except: [10.1.0.0/16, {cidr: "fd00::/8"}]}]'),
      { networks: [{ network: 'podClusterIp', except: [{ text: '10.1.0.0/16' }, { text: 'fd00::/8' }] }] },
    ],
    [
      'kinds without case',
      policyOf(
        '{targetRef: {group: policy.linkerd.io, kind: SERVER, name: web}, requiredAuthenticationRefs: [{group: core, kind: serviceaccount, name: a}]}',
      ),
      { target: { kind: 'server' }, required: [{ kind: 'ServiceAccount', namespace: 'shop' }] },
    ],
  ];
  for (const [title, text, spec] of rows) {
    const { documents, problems } = read(text);
    t.same(
      problems.filter(({ severity }) => severity === 'error'),
      [],
      `${title}: no error`,
    );
    t.match(documents[0]?.spec, spec, title);
  }
});

t.test('unknown fields are named with the nearest known one', async (t) => {
  const rows: readonly (readonly [text: string, severity: string, field: string, hint: string, kept: boolean])[] = [
    [
      document('Server', 's', '{podSelector: {}, port: 1, proxyProtocl: opaque}', beta3),
      'error',
      'spec.proxyProtocl',
      'proxyProtocol',
      true,
    ],
    [
      document('Server', 's', '{podSelector: {}, port: 1, accesPolicy: audit}', beta3),
      'warning',
      'spec.accesPolicy',
      'accessPolicy',
      true,
    ],
    [
      document('Server', 's', '{podSelector: {matchLabel: {a: b}}, port: 1}', beta3),
      'error',
      'spec.podSelector.matchLabel',
      'matchLabels',
      true,
    ],
    [
      document('MeshTLSAuthentication', 'm', '{identities: ["*"], identites: []}'),
      'error',
      'spec.identites',
      'identities',
      false,
    ],
    [
      routeOf('{matches: [{header: [{name: a, value: b}]}]}'),
      'error',
      'spec.rules[0].matches[0].header',
      'headers',
      true,
    ],
    [document('HTTPRoute', 'r', `{${parent}, hostname: [a]}`, beta3), 'error', 'spec.hostname', 'hostnames', true],
    [
      document('HTTPLocalRateLimitPolicy', 'l', `{${limitTarget}, totl: {requestsPerSecond: 1}}`),
      'error',
      'spec.totl',
      'total',
      false,
    ],
    [
      policyOf(
        '{targetRef: {group: policy.linkerd.io, kind: Server, name: a, namespace: shop}, requiredAuthenticationRefs: []}',
      ),
      'warning',
      'spec.targetRef.namespace',
      'name',
      true,
    ],
  ];
  for (const [text, severity, field, hint, kept] of rows) {
    const { documents, problems } = read(text);
    const problem = problems.find(({ code }) => code === 'unknown-field');
    t.match(problem, { severity }, field);
    t.ok(problem?.message.includes(field), `${problem?.message} names ${field}`);
    t.ok(problem?.hint.includes(hint), `${problem?.hint} suggests ${hint}`);
    t.equal(
      documents.filter(({ spec }) => !('refused' in spec)).length,
      kept ? 1 : 0,
      `${field}: ${kept ? 'kept' : 'refused'}`,
    );
  }
});

t.test('lists, duplicates, other kinds, empty documents', async (t) => {
  const one = (name: string): string =>
    `{apiVersion: ${beta3}, kind: Server, metadata: {name: ${name}}, spec: {podSelector: {}, port: 80}}`;
  t.same(
    read(
      `apiVersion: v1\nkind: List\nitems: [${one('a')}, {apiVersion: v1, kind: List, items: [${one('b')}]}]`,
    ).documents.map(({ name }) => name),
    ['a', 'b'],
  );
  t.same(read(`kind: ServerList\napiVersion: ${beta3}\nitems: [${one('a')}]`).documents.length, 1);

  const twice = read(`${one('a')}\n---\n${one('a').replace('80', '81')}`);
  t.match(twice.documents, [{ spec: { port: 81 } }], 'the last wins');
  t.match(twice.problems, [{ severity: 'warning', code: 'duplicate', line: 2 }]);
  const refused = read(`${one('a')}\n---\n${one('a').replace('80', '0')}`);
  t.match(
    refused.documents,
    [{ spec: { port: null, sealed: true } }],
    'a refused one, too: what it replaces may grant more',
  );

  t.match(read('apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}'), {
    documents: [],
    problems: [{ severity: 'warning', code: 'ignored-kind' }],
  });
  t.match(read('apiVersion: policy.linkerd.io/v1beta3\nkind: Sever\nmetadata: {name: a}'), {
    problems: [{ severity: 'error', code: 'near-miss', hint: /Server/ }],
    unknown: true,
  });
  t.same(read('---\n---\n# nothing\n'), { documents: [], problems: [], allowed: [], unknown: false, holding: [] });
});

t.test('documents are plain data, and timestamps are read in either form', async (t) => {
  const { documents } = readDocuments([
    {
      value: {
        apiVersion: beta3,
        kind: 'Server',
        metadata: { name: 'a', creationTimestamp: new Date('2024-01-01T00:00:00Z') },
        spec: { podSelector: { matchLabels: JSON.parse('{"__proto__": "x"}') }, port: 80 },
      },
      file: 'f',
      position: () => ({ line: 1, column: 1 }),
    },
    {
      value: {
        apiVersion: beta3,
        kind: 'Server',
        metadata: { name: 'b', creationTimestamp: '2024-01-01T00:00:00Z' },
        spec: { podSelector: {}, port: 80 },
      },
      file: 'f',
      position: () => ({ line: 1, column: 1 }),
    },
  ]);
  t.same(structuredClone(documents), documents);
  t.equal(documents[0]?.createdMs, documents[1]?.createdMs);
  t.equal(documents[0]?.namespace, 'default');
  t.match(documents[0]?.spec, { podSelector: { matchLabels: [['__proto__', 'x']] } }, 'no label name is special');
});

t.test('lists as the API server answers them: version and kind in the list alone', async (t) => {
  const rows: readonly (readonly [title: string, text: string, kinds: readonly string[]])[] = [
    [
      'NetworkPolicyList',
      'apiVersion: networking.k8s.io/v1\nkind: NetworkPolicyList\nitems: [{metadata: {name: a}, spec: {podSelector: {}}}]',
      ['NetworkPolicy a'],
    ],
    [
      'ServerList, one item with its own',
      `apiVersion: policy.linkerd.io/v1beta3\nkind: ServerList\nitems: [{metadata: {name: a}, spec: {podSelector: {}, port: 1}}, {apiVersion: ${beta3}, kind: Server, metadata: {name: b}, spec: {podSelector: {}, port: 2}}]`,
      ['Server a', 'Server b'],
    ],
    ['PodList', 'apiVersion: v1\nkind: PodList\nitems: [{metadata: {name: a}, status: {podIP: 10.0.0.1}}]', ['Pod a']],
    [
      'a List of lists',
      'apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: NamespaceList, items: [{metadata: {name: a}}]}]',
      ['Namespace a'],
    ],
    ['none', 'apiVersion: networking.k8s.io/v1\nkind: NetworkPolicyList\nitems: []', []],
  ];
  for (const [title, text, kinds] of rows) {
    const { documents, problems } = read(text);
    t.same(problems, [], `${title}: no problems`);
    t.same(
      documents.map(({ kind, name }) => `${kind} ${name}`),
      kinds,
      title,
    );
  }
  for (const kind of ['List', 'ServerList', 'NetworkPolicyList']) {
    const apiVersion = { List: 'v1', ServerList: beta3, NetworkPolicyList: 'networking.k8s.io/v1' }[kind];
    for (const items of ['', 'items: {a: 1}', 'items: null', 'items: text']) {
      const { problems, documents } = read(`apiVersion: ${apiVersion}\nkind: ${kind}\n${items}`);
      t.match(problems, [{ severity: 'error', code: 'not-a-list' }], `${kind} with "${items}"`);
      const closed = kind === 'NetworkPolicyList' ? ['NetworkPolicy'] : [];
      t.same(
        documents.map((document) => document.kind).filter((one) => one === 'NetworkPolicy'),
        closed,
        `${kind} with "${items}": what it listed might have closed the pod`,
      );
    }
  }
});

t.test('an IPv4-mapped network is accepted, and said to hold nobody', async (t) => {
  const rows: readonly (readonly [networks: string, hint: RegExp])[] = [
    ['[{cidr: "::ffff:10.1.0.0/112"}]', /Write 10\.1\.0\.0\/16/],
    ['[{cidr: "::ffff:10.1.2.3"}]', /Write 10\.1\.2\.3/],
    ['[{cidr: "::ffff:a01:200/120"}]', /Write it as IPv4/],
    ['[{cidr: "::/0", except: ["::ffff:10.1.0.0/112"]}]', /Write 10\.1\.0\.0\/16/],
  ];
  for (const [networks, hint] of rows) {
    const { documents, problems } = read(authOf(networks));
    t.equal(documents.length, 1, `${networks} is accepted`);
    t.match(problems, [{ severity: 'warning', code: 'mapped-network', hint }], networks);
  }
});

t.test('files of other tools are named for what they are', async (t) => {
  const rows: readonly (readonly [file: string, text: string, what: string | null])[] = [
    ['kustomization.yaml', '{resources: [server.yaml]}', 'a kustomization'],
    ['a/b/kustomization.yml', '{apiVersion: kustomize.config.k8s.io/v1beta1, namespace: x}', 'a kustomization'],
    ['kustomization.yaml', '{resources: [], anything: 1}', null],
    ['Chart.yaml', '{apiVersion: v2, name: web, version: 1.0.0}', 'a Helm chart'],
    ['values.yaml', '{image: {tag: x}}', 'values of a Helm chart'],
    ['values-prod.yaml', '{replicas: 3}', 'values of a Helm chart'],
    ['compose.yaml', '{services: {web: {}}}', 'a Compose file'],
    ['docker-compose.override.yml', '{services: {web: {}}}', 'a Compose file'],
    ['package.json', '{"name": "x", "version": "1.0.0"}', 'a package of npm'],
    // What may have been meant as policy.
    ['values.yaml', '{apiVersion: policy.linkerd.io/v1beta3, spec: {podSelector: {}, port: 80}}', null],
    ['values.yaml', '[a]', null],
    ['server.yaml', '{resources: [server.yaml]}', null],
    ['compose.yaml', '{metadata: {name: x}}', null],
  ];
  for (const [file, text, what] of rows) {
    const written = sources(text).map((source) => ({ ...source, file }));
    const { problems, unknown } = readDocuments(written, { namespace: 'shop' });
    t.equal(unknown, what === null, `${file}: ${text}`);
    t.match(problems, [
      what === null ? { code: 'not-a-document' } : { severity: 'warning', code: 'other-file', message: what },
    ]);
  }
});

t.test('paths that are no patterns, with the form that does it', async (t) => {
  const rows: readonly (readonly [type: string, value: string, hint: string | null])[] = [
    ['PathPrefix', '/api/v1/*', 'Write { type: PathPrefix, value: /api/v1 }.'],
    ['PathPrefix', '/api/**', 'Write { type: PathPrefix, value: /api }.'],
    ['Exact', '/*', 'Write { type: PathPrefix, value: / }.'],
    ['PathPrefix', '/users/{id}', 'Write { type: RegularExpression, value: "/users/[^/]+(?:/.*)?" }.'],
    ['Exact', '/users/{id}/a.b', 'Write { type: RegularExpression, value: "/users/[^/]+/a\\\\.b" }.'],
    ['Exact', '/users/:id', 'Write { type: RegularExpression, value: "/users/[^/]+" }.'],
    ['Exact', '/v1/things:cancel', null],
    ['PathPrefix', '/a(b)', null],
  ];
  for (const [type, value, hint] of rows) {
    const { problems } = read(routeOf(`{matches: [{path: {type: ${type}, value: ${JSON.stringify(value)}}}]}`));
    t.match(problems, hint === null ? [] : [{ severity: 'warning', code: 'path-pattern', hint }], value);
    t.equal(problems.length, hint === null ? 0 : 1);
  }
});

t.test('what of a rule is for what goes out has no effect, and says so', async (t) => {
  const outbound = 'timeouts: {request: 10s}, retry: {attempts: 2}, backendRefs: [{name: web, port: 80}], name: a';
  const { problems } = read(routeOf(`{${outbound}}`));
  t.same(
    problems.map(({ severity, code, message }) => `${severity} ${code} ${message.split(' ')[0]}`).sort(),
    ['backendRefs', 'retry', 'timeouts'].map((field) => `warning rule-field-without-effect ${field}`),
  );
  const both = `{parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}, {group: core, kind: Service, name: web, port: 80}], rules: [{${outbound}}]}`;
  t.same(read(document('HTTPRoute', 'r', both, beta3)).problems, [], 'with a Service beside it, it has one');
});

t.test('placeholders of templates are named', async (t) => {
  const dollar = '$';
  for (const text of [
    authOf(`[{cidr: "${dollar}{VAR:=10.0.0.0/8}"}]`),
    authOf('[{cidr: "{{ .Values.cidr }}"}]'),
    document('MeshTLSAuthentication', 'm', '{identities: ["$(NAME).shop"]}'),
    document('Server', `"${dollar}{NAME}"`, '{podSelector: {}, port: 80}', beta3),
    document('Server', 's', `{podSelector: {}, port: 80, proxyProtocol: "${dollar}{PROTO}"}`, beta3),
  ]) {
    const { problems } = read(text);
    t.match(problems, [{ severity: 'error', hint: /^A template was not filled in: / }], text);
  }
  t.match(read(authOf('[{cidr: "10.0.0.0/33"}]')).problems, [{ hint: /^Write it as/ }]);
});

t.test('a NetworkPolicy whose selector has no value selects every pod, as in the API server', async (t) => {
  for (const selector of ['', '{matchLabels: }', '{matchExpressions: }', '{matchLabels: , matchExpressions: }']) {
    const text = document(
      'NetworkPolicy',
      'n',
      `{podSelector: ${selector}, ingress: [{from: [{podSelector: {}}]}]}`,
      'networking.k8s.io/v1',
    );
    const { problems, documents } = read(text);
    for (const problem of problems) t.match(problem, { severity: 'warning', code: 'null-field' }, selector);
    t.ok(problems.length > 0, 'and is warned of');
    t.match(documents, [
      { spec: { podSelector: { matchLabels: [], matchExpressions: [] }, rules: [{ sealed: false }] } },
    ]);
  }
});
