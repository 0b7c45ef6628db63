import t from 'tap';
import { parseAllDocuments } from 'yaml';
import { compile, compileNow } from '../../../../lib/policy/compile/compile.ts';
import { readDocuments } from '../../../../lib/policy/documents/read.ts';
import {
  account,
  document,
  load,
  open,
  policy,
  route,
  server,
  sources,
  workload,
} from '../../../support/policy-fixtures.ts';
import fc from '../../../support/properties.ts';

const parent = 'parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]';
const mesh = '{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: m}';
const beta3 = 'policy.linkerd.io/v1beta3';
const grpcRoute = document('GRPCRoute', 'g', `{${parent}}`, 'gateway.networking.k8s.io/v1');
const limit = (name: string): string =>
  document(
    'HTTPLocalRateLimitPolicy',
    name,
    '{targetRef: {group: policy.linkerd.io, kind: Server, name: web}, total: {requestsPerSecond: 1}}',
  );

t.test('what is doubtful about references is named, with its place and the nearest name', async (t) => {
  const rows: readonly (readonly [title: string, text: string, problem: object])[] = [
    [
      'a policy for a Server that is not',
      server() + policy('p', 'kind: Server, name: wbe', '{kind: ServiceAccount, name: a}'),
      {
        code: 'dangling-target',
        hint: 'Did you mean "web"?',
        line: 2,
        column: 4,
        resource: { kind: 'AuthorizationPolicy', namespace: 'shop', name: 'p' },
      },
    ],
    [
      'a policy for a route that is not',
      server() + route('api', '{}') + policy('p', 'kind: HTTPRoute, name: apl', '{kind: ServiceAccount, name: a}'),
      { code: 'dangling-target', hint: /"api"/ },
    ],
    [
      'a policy for a route of the other group',
      `${server()}${route('api', '{}')}---\napiVersion: policy.linkerd.io/v1alpha1\nkind: AuthorizationPolicy\nmetadata: {name: p}\nspec: {targetRef: {group: gateway.networking.k8s.io, kind: HTTPRoute, name: api}, requiredAuthenticationRefs: []}`,
      { code: 'dangling-target', hint: /policy\.linkerd\.io/ },
    ],
    [
      'a policy that requires what is not',
      server() +
        document('MeshTLSAuthentication', 'n', '{identities: ["*"]}') +
        policy('p', 'kind: Server, name: web', mesh),
      { code: 'dangling-authentication', hint: 'Did you mean "n"?', line: 3, column: 5 },
    ],
    [
      'a policy that requires what is refused',
      server() +
        document('NetworkAuthentication', 'n', '{networks: [{cidr: nowhere}]}') +
        policy('p', 'kind: Server, name: web', '{group: policy.linkerd.io, kind: NetworkAuthentication, name: n}'),
      { code: 'refused-authentication', message: /^NetworkAuthentication n is refused, see policy\.yaml:\d+;/ },
    ],
    [
      'and one of a MeshTLSAuthentication',
      server() +
        document('MeshTLSAuthentication', 'm', '{identities: ["A_"]}') +
        policy('p', 'kind: Server, name: web', mesh),
      { code: 'refused-authentication' },
    ],
    ['a policy that admits everyone', server() + policy('p', 'kind: Server, name: web'), { code: 'admits-everyone' }],
    [
      'a ServerAuthorization for a Server that is not',
      server() + document('ServerAuthorization', 's', '{server: {name: wob}, client: {unauthenticated: true}}'),
      { code: 'dangling-target', hint: /"web"/ },
    ],
    [
      'a selector of no Server',
      server() +
        document(
          'ServerAuthorization',
          's',
          '{server: {selector: {matchLabels: {app: x}}}, client: {unauthenticated: true}}',
        ),
      { code: 'selects-no-server' },
    ],
    [
      'a selector of no pod',
      document('Server', 'web', '{podSelector: {matchLabels: {app: x}}, port: 80}', beta3),
      { code: 'selects-no-pod' },
    ],
    [
      'a port name the pod lacks',
      document('Server', 'web', '{podSelector: {}, port: htp}', beta3),
      { code: 'port-name-unknown', hint: /"http"/ },
    ],
    [
      'a port name like none of the pod',
      document('Server', 'web', '{podSelector: {}, port: unheard-of}', beta3),
      { code: 'port-name-unknown', hint: /SALLYPORT_POD_PORTS=unheard-of=NUMBER/ },
    ],
    [
      'a port number in quotes',
      document('Server', 'web', '{podSelector: {}, port: "8080"}', beta3),
      { code: 'port-name-unknown', hint: /quotes/ },
    ],
    [
      'two Servers on a port',
      server() + document('Server', 'xeb', '{podSelector: {}, port: 8080}', beta3),
      { code: 'port-taken', resource: { kind: 'Server', namespace: 'shop', name: 'xeb' } },
    ],
    [
      'no identity',
      server() + document('ServerAuthorization', 's', '{server: {name: web}, client: {meshTLS: {identities: []}}}'),
      { code: 'empty-identities' },
    ],
    [
      'no network',
      server() +
        document('ServerAuthorization', 's', '{server: {name: web}, client: {unauthenticated: true, networks: []}}'),
      { code: 'empty-networks' },
    ],
    [
      'a client of nothing',
      server() + document('ServerAuthorization', 's', '{server: {name: web}, client: {}}'),
      { code: 'no-client' },
    ],
    [
      'an HTTPRoute on an opaque Server',
      server('proxyProtocol: opaque') + route('api', '{}'),
      { code: 'route-without-effect' },
    ],
    [
      'an HTTPRoute on a TLS Server',
      server('proxyProtocol: TLS') + route('api', '{}'),
      { code: 'route-without-effect' },
    ],
    [
      'an HTTPRoute on a gRPC Server',
      server('proxyProtocol: gRPC') + route('api', '{}'),
      { code: 'route-without-effect' },
    ],
    ['a GRPCRoute on an HTTP/2 Server', server('proxyProtocol: HTTP/2') + grpcRoute, { code: 'route-without-effect' }],
    ['routes of both kinds', server() + route('api', '{}') + grpcRoute, { code: 'route-conflict' }],
    [
      'a route on a Server that is not',
      server() + route('api', '{}').replace('name: web}', 'name: wex}'),
      { code: 'dangling-parent', hint: /"web"/ },
    ],
    [
      'a parent without a kind',
      server() + document('HTTPRoute', 'r', '{parentRefs: [{name: web}]}', beta3),
      { code: 'parent-kind' },
    ],
    [
      'a parent of the wrong group',
      server() +
        document('HTTPRoute', 'r', '{parentRefs: [{kind: Server, name: web}]}', 'gateway.networking.k8s.io/v1'),
      { code: 'parent-group' },
    ],
    [
      'two limits',
      server() + limit('a') + limit('b'),
      { code: 'rate-limit-taken', resource: { kind: 'HTTPLocalRateLimitPolicy', namespace: 'shop', name: 'b' } },
    ],
    ['a limit on gRPC', server('proxyProtocol: gRPC') + limit('a'), { code: 'rate-limit-without-effect' }],
    [
      'an exception outside every network',
      document('NetworkAuthentication', 'n', '{networks: [{cidr: 10.0.0.0/8}, {except: [11.0.0.0/8]}]}'),
      { code: 'except-outside' },
    ],
    [
      'an exception beside the pod',
      document('NetworkAuthentication', 'n', '{networks: [{cidr: podClusterIp, except: [11.0.0.0/8]}]}'),
      { code: 'except-outside' },
    ],
    [
      'an ill-formed expression',
      document('Server', 'web', '{podSelector: {matchExpressions: [{key: a, operator: In}]}, port: 80}', beta3),
      { code: 'selector-never-holds' },
    ],
  ];
  for (const [title, text, problem] of rows) {
    const { problems } = load(text);
    const found = problems.find(({ code }) => code === (problem as { code: string }).code);
    t.match(found, { severity: 'warning', file: 'policy.yaml', ...problem }, title);
  }
  t.match(load(document('NetworkAuthentication', 'n', '{networks: [podClusterIp]}'), { ips: [] }).problems, [
    { code: 'pod-address-unknown' },
  ]);
});

t.test('a sound policy, and the documents of others, raise nothing', async (t) => {
  const elsewhere = document(
    'AuthorizationPolicy',
    'p',
    '{targetRef: {group: policy.linkerd.io, kind: Server, name: none}, requiredAuthenticationRefs: []}',
  ).replace('{name: p}', '{name: p, namespace: other}');
  const sound = `${server()}${route('api', '{path: {value: /api}}')}${document('MeshTLSAuthentication', 'm', '{identities: ["*"]}')}${policy('p', 'kind: HTTPRoute, name: API', mesh)}${elsewhere}`;
  const { problems, ask } = load(sound, { probes: new Map() });
  t.same(problems, []);
  t.equal(ask({ identity: account('a'), path: '/api' }).authz?.name, 'p', 'names of routes compare without case');
});

t.test('unknown fields that could have narrowed seal what they belong to', async (t) => {
  const rule = load(
    `${server('accessPolicy: all-unauthenticated')}${route('a', '{path: {value: /a}, header: [{name: h, value: v}]}')}${open('a')}${route('b', '{path: {value: /}}')}${open('b')}`,
  );
  t.match(rule.ask({ path: '/a' }), { verdict: 'deny', route: { name: 'a' }, reason: /cannot be read/ });
  t.equal(rule.ask({ path: '/a', ip: '127.0.0.1' }).verdict, 'deny', 'localhost too');
  t.equal(rule.ask({ path: '/b' }).verdict, 'permit', 'and nothing else');

  const whole = load(
    `${server('accessPolicy: all-unauthenticated')}${route('a', '{path: {value: /}}').trimEnd()}\n  hostname: [h]\n${open('a')}`,
  );
  t.equal(whole.ask({}).verdict, 'deny');

  const selector = load(
    document(
      'Server',
      'web',
      '{podSelector: {matchLabel: {app: x}}, port: 8080, accessPolicy: all-unauthenticated}',
      beta3,
    ),
    { defaultPolicy: 'all-unauthenticated' },
  );
  t.match(selector.ask({ path: '/live' }), { verdict: 'deny', server: { name: 'web' } });
  t.match(selector.ask({ protocol: 'tcp' }), { verdict: 'deny', tcp: 'close' });
});

t.test('credit goes to policies by name, then the access policy, then localhost, and to audit last', async (t) => {
  const { ask } = load(
    `${server('accessPolicy: audit')}${policy('b', 'kind: Server, name: web')}${policy('a', 'kind: Server, name: web')}`,
  );
  t.equal(ask({}).authz?.name, 'a');
  const audit = load(server('accessPolicy: audit'));
  t.match(audit.ask({ ip: '127.0.0.1' }), { audit: false, authz: { name: 'localhost' } });
  t.match(audit.ask({}), { verdict: 'permit', audit: true, authz: { name: 'audit' } });
  t.match(load('', { defaultPolicy: 'audit' }).ask({}), { audit: true, authz: { name: 'audit' } });
  t.match(
    load(server('accessPolicy: all-unauthenticated')).ask({ ip: '127.0.0.1' }).authz?.name,
    'all-unauthenticated',
  );
  t.equal(load(server(), { authorizeLocalhost: false }).ask({ ip: '127.0.0.1' }).verdict, 'deny');
  t.equal(load(server()).ask({ ip: '127.0.0.2' }).verdict, 'deny', 'localhost is one address');
});

t.test('an unrelated grant never widens another target', async (t) => {
  const base = `${server()}${document('Server', 'other', '{podSelector: {}, port: 9000}', beta3)}${route('api', '{path: {value: /api}}')}`;
  const before = load(base);
  const grants = [policy('x', 'kind: Server, name: other'), open('none'), policy('y', 'kind: HTTPRoute, name: web')];
  const after = load(base + grants.join(''));
  for (const query of [{ path: '/api' }, { path: '/' }, { protocol: 'tcp' as const }, { port: 9001 }]) {
    t.equal(after.ask(query).verdict, before.ask(query).verdict, JSON.stringify(query));
  }
  t.equal(after.ask({ port: 9000 }).verdict, 'permit');
});

t.test('the order of the documents decides nothing', async () => {
  const text = `${server()}${document('Server', 'aaa', '{podSelector: {}, port: 8080, accessPolicy: audit}', beta3)}
${route('a', '{path: {value: /a}}')}${route('b', '{path: {type: RegularExpression, value: "/a.*"}}')}${open('a')}${open('b')}
${document('Server', 'tcp', '{podSelector: {}, port: 9000, proxyProtocol: opaque}', beta3)}
${document('NetworkAuthentication', 'n', '{networks: [{cidr: 10.0.0.0/8, except: [10.20.0.0/16]}]}')}
${policy('p', 'kind: Server, name: tcp', '{group: policy.linkerd.io, kind: NetworkAuthentication, name: n}')}
${policy('q', 'kind: Server, name: web', '{kind: ServiceAccount, name: a}')}${limit('l1')}${limit('l2')}`;
  const values = parseAllDocuments(text).map((parsed) => parsed.toString());
  const queries = [
    { path: '/a' },
    { path: '/ab' },
    { port: 9000, ip: '10.1.1.1', protocol: 'tcp' as const },
    { port: 9000 },
    { identity: account('a') },
  ];
  const verdicts = (documents: readonly string[]): string => {
    const { ask } = load(documents.join('---\n'));
    return JSON.stringify(queries.map((query) => ask(query)));
  };
  const expected = verdicts(values);
  fc.assert(
    fc.property(
      fc.shuffledSubarray(values, { minLength: values.length }),
      (shuffled) => verdicts(shuffled) === expected,
    ),
    { numRuns: 50 },
  );
});

t.test('of Servers on one port the oldest, and one without a timestamp behind all others', async (t) => {
  const named = (name: string, access: string, created: string): string =>
    document(
      'Server',
      `${name}${created === '' ? '' : `, creationTimestamp: ${created}`}`,
      `{podSelector: {}, port: 8080, accessPolicy: ${access}}`,
      beta3,
    );
  const rows = [
    [named('a', 'deny', '') + named('b', 'all-unauthenticated', '2024-01-01T00:00:00Z'), 'permit'],
    [named('a', 'deny', '2024-01-01T00:00:00Z') + named('b', 'all-unauthenticated', ''), 'deny'],
    [named('a', 'deny', '2024-01-01T00:00:00Z') + named('b', 'all-unauthenticated', '2023-01-01T00:00:00Z'), 'permit'],
    [named('a', 'deny', '') + named('b', 'all-unauthenticated', ''), 'deny'],
  ] as const;
  for (const [text, verdict] of rows) t.equal(load(text).ask({}).verdict, verdict, text);
});

t.test('ports without a Server', async (t) => {
  const { authorizer, ask } = load('', {
    defaultPolicy: 'cluster-unauthenticated',
    opaquePorts: { has: (port) => port === 25 },
    requireIdentityPorts: { has: (port) => port === 90 },
  });
  t.match(authorizer.port(25), {
    protocol: 'opaque',
    server: { kind: 'default', name: 'cluster-unauthenticated' },
    hasRequestRules: false,
    decisionsLast: true,
    rateLimit: null,
    asks: { headers: [], query: { names: [] } },
  });
  t.match(authorizer.port(90), { protocol: 'detect', server: { name: 'cluster-authenticated' } });
  t.equal(authorizer.port(25), authorizer.port(25), 'made once');
  t.match(ask({ port: 25 }), { verdict: 'permit', tcp: 'forward' });
  t.equal(ask({ port: 90 }).verdict, 'deny');
  t.equal(ask({ port: 90, identity: account('a') }).verdict, 'permit');
  for (const port of [0, -1, 65536, 1.5, Number.NaN])
    t.equal(ask({ port, ip: '127.0.0.1' }).verdict, 'deny', `port ${port}`);
});

t.test('ten thousand documents compile in slices', async (t) => {
  const count = 2000;
  const text = Array.from({ length: count }, (_, i) => {
    const name = `s${i}`;
    return [
      {
        apiVersion: beta3,
        kind: 'Server',
        metadata: { name },
        spec: { podSelector: { matchLabels: { app: 'web' } }, port: 1000 + i },
      },
      {
        apiVersion: beta3,
        kind: 'HTTPRoute',
        metadata: { name },
        spec: {
          parentRefs: [{ group: 'policy.linkerd.io', kind: 'Server', name }],
          rules: [{ matches: [{ path: { value: `/v${i}` } }] }],
        },
      },
      {
        apiVersion: 'policy.linkerd.io/v1alpha1',
        kind: 'AuthorizationPolicy',
        metadata: { name },
        spec: {
          targetRef: { group: 'policy.linkerd.io', kind: 'HTTPRoute', name },
          requiredAuthenticationRefs: [
            { group: 'policy.linkerd.io', kind: 'NetworkAuthentication', name },
            { group: 'policy.linkerd.io', kind: 'MeshTLSAuthentication', name: `${name}x` },
          ],
        },
      },
      {
        apiVersion: 'policy.linkerd.io/v1alpha1',
        kind: 'NetworkAuthentication',
        metadata: { name },
        spec: { networks: [{ cidr: '10.0.0.0/8' }] },
      },
      {
        apiVersion: 'policy.linkerd.io/v1alpha1',
        kind: 'MeshTLSAuthentication',
        metadata: { name },
        spec: { identities: ['*'] },
      },
    ];
  }).flat();
  const { documents, problems } = readDocuments(
    text.map((value) => ({ value, file: 'f', position: () => ({ line: 1, column: 1 }) })),
    { namespace: 'shop' },
  );
  t.same([documents.length, problems], [5 * count, []]);
  const steps = compile(documents, workload());
  const startedMs = performance.now();
  let slices = 0;
  let step = steps.next();
  for (; step.done !== true; step = steps.next()) slices++;
  const tookMs = performance.now() - startedMs;
  t.ok(slices >= (5 * count) / 50, `${slices} slices`);
  // Far above what it takes, so that only a compilation that is no longer linear fails here.
  t.ok(tookMs < 5000, `${tookMs.toFixed()} ms`);
  t.equal(step.value.index.servers.length, count);
  t.equal(step.value.problems.length, count, 'each dangling reference is named');
});

t.test('compileNow is compile, run to its end', async (t) => {
  const { documents } = readDocuments(sources(server()), { namespace: 'shop' });
  t.match(compileNow(documents, workload()).index.port(8080), {
    port: 8080,
    server: { group: 'policy.linkerd.io', kind: 'server', name: 'web' },
  });
});
