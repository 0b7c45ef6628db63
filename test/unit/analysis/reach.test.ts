/**
 * What one policy lets in, asked for as a whole, is what `explain` permits question by question: nothing more, nothing less.
 */

import t from 'tap';
import { partition } from '../../../lib/analysis/partition.ts';
import { explain } from '../../../lib/policy/explain.ts';
import { askedQuestion, blockHas } from '../../support/analysis.ts';
import { ip } from '../../support/policy-fixtures.ts';
import fc from '../../support/properties.ts';
import { comparedWorkload, isMalformed, randomQuestion, sideOf, world } from '../../support/two-policies.ts';

const seed = Number(process.env.FUZZ_SEED ?? 12);
const policies = Number(process.env.ANALYSIS_PAIRS ?? 80);
const questionsOfPolicy = 300;

/** Paths that servers read alike: of others the partition tells which questions they are near, not what becomes of them. */
const plain = /^(?:\/|(?:\/[a-z0-9]+)+)(?:\?[a-z]=\d(?:&[a-z]=\d)*)?$/;

t.setTimeout(0);

t.test('every question is in one cell, and decided as the cell is', async (t) => {
  const questions = fc
    .sample(randomQuestion, { seed, numRuns: questionsOfPolicy })
    // What servers may take for a header that a route looks at is refused, as is said beside the sets.
    .filter(({ path = '/', headers = [] }) => plain.test(path) && !headers.some(([name]) => name.includes('_')));
  const failures: string[] = [];
  let permitted = 0;
  let asked = 0;
  for (const documents of fc.sample(world, { seed, numRuns: policies })) {
    const side = sideOf(documents);
    const blocks = [...partition({ sides: [side], workload: comparedWorkload })];
    for (const query of questions) {
      if (isMalformed(query)) continue;
      const { verdict, authz } = explain(side.authorizer, query);
      asked += 1;
      if (verdict === 'permit') permitted += 1;
      const question = askedQuestion(query);
      const had = blocks.filter((block) => blockHas(block, question, [question.path ?? '']));
      const outcomes = had.map(({ outcomes: [outcome] }) => `${outcome?.verdict} ${outcome?.authz?.name}`);
      const own = `${verdict} ${authz?.name}`;
      if (had.length !== 1 || outcomes[0] !== own) {
        failures.push(JSON.stringify({ query: { ...query, ip: query.ip.text }, own, outcomes, documents }));
      }
    }
  }
  t.same(failures.slice(0, 2), [], `${failures.length} of ${asked} questions are elsewhere`);
  t.ok(permitted > asked / 50, `${permitted} of ${asked} are permitted`);
});

t.test('requests without a path are in the cell of the rule that decides them', async (t) => {
  const linkerd = (version: string, kind: string, name: string, spec: object): object => ({
    apiVersion: `policy.linkerd.io/${version}`,
    kind,
    metadata: { name, namespace: 'shop' },
    spec,
  });
  const web = { group: 'policy.linkerd.io', kind: 'Server', name: 'web' };
  const route = (name: string, match: object): object =>
    linkerd('v1beta3', 'HTTPRoute', name, { parentRefs: [web], rules: [{ matches: [match] }] });
  const everything = { path: { type: 'RegularExpression', value: '.*' } };
  const root = { path: { value: '/' } };
  const queries = [
    { method: 'OPTIONS', path: '*' },
    { method: 'OPTIONS', path: '*', headers: [['x-key', '1']] as const },
    { method: 'CONNECT', path: 'web:80' },
  ].map((own) => ({ port: 8080, ip: ip('10.1.2.3'), protocol: 'http1', host: 'web', ...own }) as const);
  // Names settle ties, and then it is the first that lets everybody in.
  for (const routes of [
    [route('a', everything), route('b', root)],
    [route('a', root), route('b', everything)],
    [route('a', everything), route('b', { ...root, headers: [{ name: 'x-key', value: '1' }] })],
  ]) {
    const documents = [
      linkerd('v1beta3', 'Server', 'web', { podSelector: {}, port: 8080 }),
      ...routes,
      linkerd('v1alpha1', 'AuthorizationPolicy', 'everybody', {
        targetRef: { group: 'policy.linkerd.io', kind: 'HTTPRoute', name: 'a' },
        requiredAuthenticationRefs: [],
      }),
    ];
    const side = sideOf(documents);
    const blocks = [...partition({ sides: [side], workload: comparedWorkload })];
    for (const query of queries) {
      const { verdict, route: decided } = explain(side.authorizer, query);
      const question = askedQuestion(query);
      const had = blocks.filter((block) => blockHas(block, question, [question.path ?? '']));
      t.same(
        had.map(({ outcomes: [outcome] }) => outcome?.verdict),
        [verdict],
        `${query.method} of ${decided?.name}`,
      );
    }
  }
});
