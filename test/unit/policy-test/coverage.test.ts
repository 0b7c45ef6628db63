/** What cases exercise of the policy in force: of documents alone, whichever port, rule or pod they are met by. */
import t from 'tap';
import { authorizerOf } from '../../../lib/policy/authorizer.ts';
import { compileNow } from '../../../lib/policy/compile/compile.ts';
import { readDocuments } from '../../../lib/policy/documents/read.ts';
import { type ExplainQuery, explain } from '../../../lib/policy/explain.ts';
import type { Workload } from '../../../lib/policy/workload.ts';
import { Coverage, joinedReport } from '../../../lib/policy-test/coverage.ts';
import { ip, sources, workload } from '../../support/policy-fixtures.ts';

const linkerd = 'policy.linkerd.io';
const head = (kind: string, name: string, version: string): string =>
  `apiVersion: ${linkerd}/${version}\nkind: ${kind}\nmetadata: { name: ${name}, namespace: shop }\n`;
const server = (name: string, port: number, more = ''): string =>
  `${head('Server', name, 'v1beta3')}spec: { podSelector: {}, port: ${port}${more} }\n`;
const route = (name: string, on: string, ...matches: readonly string[]): string =>
  `${head('HTTPRoute', name, 'v1beta3')}spec:
  parentRefs: [{ group: ${linkerd}, kind: Server, name: ${on} }]
  rules: [${matches.join(', ')}]
`;
const rule = (path: string, more = ''): string => `{ matches: [{ path: { value: ${path} } }]${more} }`;
const grant = (name: string, target: string, account: string): string =>
  `${head('AuthorizationPolicy', name, 'v1alpha1')}spec:
  targetRef: { ${target} }
  requiredAuthenticationRefs: [{ ${account} }]
`;
const to = (kind: string, name: string): string => `group: ${linkerd}, kind: ${kind}, name: ${name}`;
const account = (name: string): string => `kind: ServiceAccount, name: ${name}`;
const mesh = (name: string): string => `group: ${linkerd}, kind: MeshTLSAuthentication, name: ${name}`;

type Asked = Partial<Omit<ExplainQuery, 'ip'>> & { readonly as?: string };

interface World {
  readonly coverage: Coverage;
  ask(asked: Asked, times?: number): ReturnType<typeof explain>;
}

function world(text: string, over: Partial<Workload> = {}, coverage = new Coverage()): World {
  const pod = workload({ probes: new Map(), ...over });
  const { documents, problems } = readDocuments(sources(text), { namespace: 'shop' });
  t.same(
    problems.filter(({ severity }) => severity === 'error'),
    [],
  );
  const { index } = compileNow(documents, pod);
  coverage.add(index, documents, pod.namespace);
  const ask: World['ask'] = ({ as, ...query }, times = 1) => {
    const authorizer = authorizerOf(index);
    const identity = as === undefined ? {} : { identity: `${as}.shop.serviceaccount.identity.linkerd.cluster.local` };
    const once = () => explain(authorizer, { port: 8080, ip: ip('10.20.0.5'), ...identity, ...query });
    let answer = once();
    for (let i = 1; i < times; i++) answer = once();
    coverage.count(answer);
    return answer;
  };
  return { coverage, ask };
}

/** `name admitted/refused` of each authorization, `name matched,matched` of each route. */
function counted(coverage: Coverage): { readonly authorizations: string[]; readonly routes: string[] } {
  const { authorizations, routes } = coverage.report();
  return {
    authorizations: authorizations.map(({ ref, admitted, refused }) => `${ref.name} ${admitted}/${refused}`),
    routes: routes.map(({ ref, rules }) => `${ref.name} ${rules.join()}`),
  };
}

t.test('by its rule, whatever is answered', async (t) => {
  const documents = [
    server('web', 8080),
    route(
      'orders',
      'web',
      rule('/a'),
      rule('/b'),
      rule('/c', ', filters: [{ type: RequestRedirect, requestRedirect: { hostname: x.test } }]'),
    ),
    grant('checkout', to('HTTPRoute', 'orders'), account('checkout')),
  ].join('---\n');
  const { ask, coverage } = world(documents);
  t.same(counted(coverage), { authorizations: ['checkout 0/0'], routes: ['orders 0,0,0'] });
  const rows: readonly (readonly [asked: Asked, verdict: string, rule: number | null])[] = [
    [{ path: '/a', as: 'checkout' }, 'permit', 0],
    [{ path: '/b/x', as: 'web' }, 'deny', 1],
    [{ path: '/c', as: 'checkout', host: 'h' }, 'redirect', 2],
    [{ path: '/d', as: 'checkout' }, 'no-route', null],
    [{ path: '/a/../b', as: 'checkout' }, 'permit', 0],
    [{ path: '/a/%2e%2e/d', as: 'checkout' }, 'invalid', null],
    [{ protocol: 'tcp', as: 'checkout' }, 'deny', null],
  ];
  for (const [asked, verdict, place] of rows) {
    const answer = ask(asked);
    if (asked.path !== '/a/../b') t.match(answer, { verdict, rule: place }, JSON.stringify(asked));
  }
  const { authorizations, routes } = counted(coverage);
  t.match(authorizations, [/^checkout [23]\/[12]$/]);
  t.match(routes, [/^orders [12],[12],1$/]);
  t.equal(coverage.report().percent, 100);
});

t.test('a rate limit is behind what admits', async (t) => {
  const limit = `${head('HTTPLocalRateLimitPolicy', 'limit', 'v1alpha1')}spec: { targetRef: { ${to('Server', 'web')} }, total: { requestsPerSecond: 1 } }\n`;
  const { ask, coverage } = world(
    [server('web', 8080), grant('any', to('Server', 'web'), account('a')), limit].join('---\n'),
  );
  t.equal(ask({ as: 'a' }, 2).verdict, 'rate-limited');
  t.same(counted(coverage), { authorizations: ['any 1/0'], routes: [] });
});

t.test('what is built in is nobody’s: defaults, probes, localhost', async (t) => {
  const probes = new Map([[8080, [{ kind: 'http', path: '/a' } as const]]]);
  const documents = [
    server('web', 8080, ', accessPolicy: all-unauthenticated'),
    route('r', 'web', rule('/a'), rule('/b')),
  ];
  const { ask, coverage } = world(documents.join('---\n'), { probes, probesWithRoutes: true });
  t.match(ask({ path: '/a' }), { verdict: 'permit', authz: { name: 'probe' }, rule: 0 });
  t.match(ask({ path: '/b' }), { verdict: 'permit', authz: { name: 'all-unauthenticated' }, rule: 1 });
  t.match(ask({ port: 9 }), { verdict: 'deny', rule: null });
  t.same(counted(coverage), { authorizations: [], routes: ['r 1,1'] });
  const none = world(server('web', 8080));
  t.same(none.coverage.report(), {
    authorizations: [],
    routes: [],
    counts: { authorizations: [0, 0], routes: [0, 0], rules: [0, 0] },
    percent: 100,
  });
});

t.test('one document on several ports, one that can admit nobody, and documents of others', async (t) => {
  const documents = [
    server('web', 8080),
    server('other', 9090),
    server('raw', 5000, ', proxyProtocol: opaque'),
    grant('everywhere', 'kind: Namespace, name: shop', account('a')),
    grant('broken', to('Server', 'web'), mesh('missing')),
    grant('raw-only', to('Server', 'raw'), account('b')),
    grant('dangling', to('Server', 'gone'), account('a')),
    grant('elsewhere', to('Server', 'web'), account('a')).replace('namespace: shop', 'namespace: bank'),
  ].join('---\n');
  const { ask, coverage } = world(documents);
  ask({ as: 'a' });
  ask({ as: 'a', port: 9090 });
  ask({ as: 'b' });
  t.same(counted(coverage).authorizations.sort(), ['broken 0/2', 'everywhere 2/1', 'raw-only 0/0'], 'each once');
  t.equal(coverage.report().percent.toFixed(1), '33.3');
  const [first] = coverage.report().authorizations;
  t.match(first, { file: 'policy.yaml', line: Number }, 'with its place');
});

t.test('of several pods and several policies', async (t) => {
  const documents = [
    server('web', 8080).replace('podSelector: {}', 'podSelector: { matchLabels: { app: web } }'),
    grant('web-only', to('Server', 'web'), account('a')),
    server('db', 5432).replace('podSelector: {}', 'podSelector: { matchLabels: { app: db } }'),
    grant('db-only', to('Server', 'db'), account('a')),
  ].join('---\n');
  const coverage = new Coverage();
  world(documents, {}, coverage).ask({ as: 'a' });
  t.same(counted(coverage).authorizations, ['web-only 1/0'], 'what selects another pod is not in force');
  world(documents, { labels: new Map([['app', 'db']]) }, coverage).ask({ as: 'x', port: 5432 });
  t.same(counted(coverage).authorizations, ['web-only 1/0', 'db-only 0/1']);
  const other = world(documents).coverage;
  t.same(joinedReport([coverage.report(), other.report()]).counts.authorizations, [1, 3]);
  t.equal(joinedReport([]).percent, 100);
});
