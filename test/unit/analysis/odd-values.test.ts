import t from 'tap';
import { changesOf } from '../../../lib/analysis/compare.ts';
import { partition } from '../../../lib/analysis/partition.ts';
import { valuesFor } from '../../../lib/analysis/values.ts';
import type { ExplainQuery } from '../../../lib/policy/explain.ts';
import { ip } from '../../support/policy-fixtures.ts';
import { comparedWorkload, isMalformed, missed, sideOf, type Tally } from '../../support/two-policies.ts';

/** What few clients send, and a regular expression may ask for, is in a comparison: names, fields and parameters of any form. */

const route = (match: object): readonly object[] => [
  {
    apiVersion: 'policy.linkerd.io/v1beta3',
    kind: 'Server',
    metadata: { name: 'web', namespace: 'shop' },
    spec: { podSelector: {}, port: 8080 },
  },
  {
    apiVersion: 'policy.linkerd.io/v1beta3',
    kind: 'HTTPRoute',
    metadata: { name: 'some', namespace: 'shop' },
    spec: {
      parentRefs: [{ group: 'policy.linkerd.io', kind: 'Server', name: 'web' }],
      rules: [{ matches: [match] }],
    },
  },
  {
    apiVersion: 'policy.linkerd.io/v1alpha1',
    kind: 'AuthorizationPolicy',
    metadata: { name: 'everybody', namespace: 'shop' },
    spec: {
      targetRef: { group: 'policy.linkerd.io', kind: 'HTTPRoute', name: 'some' },
      requiredAuthenticationRefs: [],
    },
  },
];

const elsewhere = route({ path: { value: '/elsewhere' } });
const like = (name: string, value: string): object[] => [{ name, type: 'RegularExpression', value }];
const asked = (more: Partial<ExplainQuery>): ExplainQuery => ({
  port: 8080,
  ip: ip('10.1.2.3'),
  protocol: 'http1',
  method: 'GET',
  path: '/x',
  host: 'web',
  ...more,
});
const named = (pattern: string, identity: string): Row => [
  `a client named ${identity.slice(0, 40)}`,
  { headers: like('l5d-client-id', pattern) },
  asked({ identity }),
];
const sent = (pattern: string, value: string): Row => [
  `a field ${JSON.stringify(value)}`,
  { headers: like('x-key', pattern) },
  asked({ headers: [['x-key', value]] }),
];
const searched = (pattern: string, query: string): Row => [
  `a parameter ${query}`,
  { queryParams: like('q', pattern) },
  asked({ path: `/x?q=${query}` }),
];

type Row = readonly [title: string, match: object, query: ExplainQuery];

const rows: readonly Row[] = [
  named('[0-9].*', '0a.test'),
  named('_.*', '_a.test'),
  named('a_[.].*', 'a_.test'),
  named('[a-z.]{64,70}', `${'a'.repeat(50)}.${'a'.repeat(14)}`),
  named('spiffe://[0-9].*', 'spiffe://0.test/a'),
  named('spiffe://_.*', 'spiffe://_/a'),
  named('spiffe://.*/a[.]b', 'spiffe://root.test/a.b'),
  named('spiffe://.*[.]{3}', 'spiffe://root.test/...'),
  sent('a\tb', 'a\tb'),
  ['a field "é"', { headers: [{ name: 'x-key', value: 'é' }] }, asked({ headers: [['x-key', 'é']] })],
  searched(' +', '%20'),
  searched('\\n', '%0a'),
  searched(' a', '%20a'),
  searched('\\x00', '%00'),
];

for (const [title, match, query] of rows) {
  t.test(title, async (t) => {
    t.notOk(isMalformed(query));
    for (const pair of [
      [elsewhere, route(match)],
      [route(match), elsewhere],
    ] as const) {
      const tally: Tally = { asked: 0, different: 0, byReading: 0 };
      t.same(missed(pair, [query], tally), [], 'it is in a block');
      t.equal(tally.different, 1, 'and is answered otherwise');
    }
  });
}

t.test('names that no client can have are in none', async (t) => {
  for (const pattern of [
    'a[.][0-9]+',
    'spiffe://a/[.][.]?',
    'spiffe://[A-Z]+/a',
    '[a-z]{64,}',
    '-.*',
    '[a-z]*-',
    'a[.][.]b',
  ]) {
    const sides = [elsewhere, route({ headers: like('l5d-client-id', pattern) })].map((documents) => sideOf(documents));
    const changes = changesOf(partition({ sides, workload: comparedWorkload }));
    t.notOk(
      changes.some(({ kind }) => kind === 'allowed'),
      pattern,
    );
  }
});

t.test('a field beyond ASCII is one that no regular expression matches', async (t) => {
  const all = { type: 'regex', value: '.*' } as const;
  const accent = { type: 'exact', value: 'é' } as const;
  const effort = { left: 1_000_000 };
  t.same(valuesFor('header', [accent], [all], false, effort), ['é']);
  t.equal(valuesFor('header', [accent, all], [], false, effort), null);
  t.equal(valuesFor('header', [{ type: 'regex', value: '[^ -~]' }], [], false, effort), null);
  t.same(valuesFor('query', [{ type: 'regex', value: '[^ -~]{1}é' }], [], false, effort)?.length, 1);
});
