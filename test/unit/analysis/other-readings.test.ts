import t from 'tap';
import { partition } from '../../../lib/analysis/partition.ts';
import { explain } from '../../../lib/policy/explain.ts';
import { askedQuestion, blockHas } from '../../support/analysis.ts';
import { ip } from '../../support/policy-fixtures.ts';
import fc from '../../support/properties.ts';
import { comparedWorkload, missed, sideOf } from '../../support/two-policies.ts';

/*
 * A path with an escape, or a query, may be read as another one, whose route lets in other clients: what becomes of it says
 * nothing of the plain requests for which the same route is found.
 */

const group = 'policy.linkerd.io';
const first = 'first.shop.serviceaccount.identity.linkerd.cluster.local';
const second = 'second.shop.serviceaccount.identity.linkerd.cluster.local';

const server = {
  apiVersion: `${group}/v1beta3`,
  kind: 'Server',
  metadata: { name: 'web', namespace: 'shop' },
  spec: { podSelector: {}, port: 8080 },
};

function route(name: string, ...matches: readonly object[]): object {
  return {
    apiVersion: `${group}/v1beta3`,
    kind: 'HTTPRoute',
    metadata: { name, namespace: 'shop' },
    spec: { parentRefs: [{ group, kind: 'Server', name: 'web' }], rules: [{ matches }] },
  };
}

/** Lets a client in on a route. */
function grant(name: string, to: string, identity: string): readonly object[] {
  const policy = {
    apiVersion: `${group}/v1alpha1`,
    kind: 'AuthorizationPolicy',
    metadata: { name, namespace: 'shop' },
    spec: {
      targetRef: { group, kind: 'HTTPRoute', name: to },
      requiredAuthenticationRefs: [{ group, kind: 'MeshTLSAuthentication', name }],
    },
  };
  const authentication = {
    apiVersion: `${group}/v1alpha1`,
    kind: 'MeshTLSAuthentication',
    metadata: { name, namespace: 'shop' },
    spec: { identities: [identity] },
  };
  return [policy, authentication];
}

const exact = (value: string): object => ({ path: { type: 'Exact', value } });
const below = (value: string): object => ({ path: { type: 'PathPrefix', value } });
const parameters = (...names: string[]): object => ({ queryParams: names.map((name) => ({ name, value: '1' })) });
const named = (value: string): object => ({
  headers: [{ name: 'l5d-client-id', type: 'RegularExpression', value }],
});

/** The route of requests with a header, so that those without it find what they find on plain paths. */
const escaped = route('escaped', { ...exact('/%61'), headers: [{ name: 'x-role', value: 'admin' }] });
const toAll = [route('all', below('/')), ...grant('one', 'all', first), ...grant('other', 'all', second)];

const rows: readonly (readonly [title: string, documents: readonly object[]])[] = [
  ['the other route lets in one of them', [...toAll, route('some', exact('/a')), ...grant('third', 'some', first)]],
  ['the other route lets in another', [...toAll, route('some', exact('/a')), ...grant('third', 'some', second)]],
  [
    'the other route is for another query, and lets in one of them',
    [
      ...toAll,
      route('shouted', parameters('A', 'b')),
      route('some', parameters('a')),
      ...grant('third', 'some', first),
    ],
  ],
  ['the other route is for some names', [route('some', { ...below('/a'), ...named('spiffe:.*') })]],
  ['the other route is for other names', [route('some', { ...below('/a'), ...named('[^:]*') })]],
];

for (const [title, documents] of rows) {
  t.test(title, async (t) => {
    const side = sideOf([server, escaped, ...documents]);
    const blocks = [...partition({ sides: [side], workload: comparedWorkload })];
    for (const path of ['/', '/x', '/a', '/a/x', '/b/x']) {
      for (const client of [{}, { identity: first }, { identity: second }, { identity: 'spiffe://root.test/third' }]) {
        const query = { port: 8080, ip: ip('10.1.2.3'), path, host: 'web', ...client };
        const { verdict } = explain(side.authorizer, query);
        const asked = askedQuestion(query);
        const had = blocks.filter((block) => blockHas(block, asked, [path]));
        t.same(
          had.map(({ outcomes: [outcome] }) => outcome?.verdict),
          [verdict],
          `${path} by ${Object.values(client)[0] ?? 'anybody'}`,
        );
      }
    }
  });
}

const parameter = fc.oneof(
  fc.record({ name: fc.constantFrom('x', 'X', 'y'), value: fc.constantFrom('1', '2') }),
  fc.record({
    name: fc.constantFrom('x', 'X'),
    type: fc.constant('RegularExpression'),
    value: fc.constantFrom('.*', '[12]', '1'),
  }),
);
const match = fc.record({
  path: fc.constantFrom({ value: '/' }, { value: '/a' }),
  queryParams: fc.array(parameter, { maxLength: 2 }),
});
const matches = fc.array(match, { minLength: 1, maxLength: 3 });
const policy = fc
  .tuple(matches, matches, fc.constantFrom('some', 'others'))
  .map(([some, others, to]) => [
    server,
    route('some', ...some),
    route('others', ...others),
    ...grant('one', to, first),
  ]);
const values = ['1', '2'];
const queries = ['x', 'X', 'y'].flatMap((name) => values.map((value) => `${name}=${value}`));

t.test('parameters of policies that may be read as each other are compared', (t) => {
  const asked = [
    ...queries,
    ...queries.flatMap((one) => queries.map((other) => `${one}&${other}`)),
    'x=1&X=2&y=1',
    'z=1',
  ];
  const questions = asked.map((query) => ({
    ...{ port: 8080, ip: ip('10.1.2.3'), host: 'web', identity: first, path: `/a?${query}` },
  }));
  const tally = { asked: 0, different: 0, byReading: 0 };
  /** Where a name is in neither policy, it is another spelling of one that is. */
  const hasBoth = (pair: unknown): boolean =>
    ['x', 'X'].every((name) => JSON.stringify(pair).includes(`"name":"${name}"`));
  for (const pair of fc.sample(fc.tuple(policy, policy), { numRuns: 100, seed: 1 }).filter(hasBoth)) {
    const paths = missed(pair, questions, tally).map(({ path }) => path);
    t.same(paths, [], JSON.stringify(pair));
  }
  t.ok(tally.different > 1000, `${tally.different} are different`);
  t.end();
});
