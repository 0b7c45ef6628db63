import { randomBytes } from 'node:crypto';
import t from 'tap';
import type { ExplainQuery } from '../../../../lib/policy/explain.ts';
import { load, open, policy, route, server } from '../../../support/policy-fixtures.ts';

/*
 * What a client sends never makes a decision dear: `npm run bench -- decision-hostile` measures it, and says how little it
 * is. Here the bound is wide enough for any machine, and still far below what work beyond linear costs.
 */
const mostMs = 5;

const loaded = load(
  server() +
    route('all', '{path: {value: /}}') +
    open('all') +
    route('admin', '{path: {value: /admin}}') +
    route('query', '{queryParams: [{name: q, value: "1"}, {name: debug, value: "1"}]}') +
    route('header', '{headers: [{name: x-tier, value: gold}, {name: x-root, value: "1"}]}') +
    route('regex', '{path: {type: RegularExpression, value: "(.*a.*)+/secret"}}') +
    route('counts', '{path: {type: RegularExpression, value: "/[ab]*a.{20}b"}}') +
    route('counts-more', '{path: {type: RegularExpression, value: "/x[ab]*(a.{300}b|b.{300}a).*"}}') +
    `${route('hosts', '{path: {value: /}}').trimEnd()}\n  hostnames: ["*.internal.example", admin.example]\n` +
    Array.from({ length: 300 }, (_, i) =>
      policy(`p${i}`, 'kind: HTTPRoute, name: admin', '{kind: ServiceAccount, group: "", name: x}'),
    ).join(''),
);

const kib64 = 64 * 1024;
const rows: Readonly<Record<string, Partial<Omit<ExplainQuery, 'ip'>>>> = {
  'malformed runs of escapes': { path: `/%41;b//c\\d/${'a%25ff'.repeat(1360)}` },
  'the same, short enough to be read': { path: `/%41;b//c\\d/${'a%25ff'.repeat(660)}` },
  'the same, short enough for many readings': { path: `/%41;b//c\\d/${'a%25ff'.repeat(60)}` },
  escapes: { path: `/${'%25'.repeat(kib64 / 3)}` },
  'escapes, within the limit': { path: `/${'%2541'.repeat(800)}` },
  'dot segments': { path: `/${'a/%2e%2e/'.repeat(440)}` },
  parameters: { path: `/${'a;'.repeat(2000)}` },
  slashes: { path: '/'.repeat(kib64) },
  'slashes, within the limit': { path: '/'.repeat(4000) },
  authorities: { path: '//a'.repeat(1300) },
  'overlong UTF-8': { path: `/${'%c0%ae'.repeat(650)}` },
  'wide escapes': { path: `/${'%u0061'.repeat(650)}` },
  segments: { path: '/a'.repeat(kib64 / 2) },
  'a long plain path': { path: `/${'A'.repeat(kib64)}` },
  'dots that end segments': { path: '/A.'.repeat(1300) },
  parameters_of_a_query: { path: `/?${'a&'.repeat(kib64 / 2)}` },
  'one parameter, over and over': { path: `/?${'q=1&'.repeat(kib64 / 4)}` },
  'semicolons in a query': { path: `/?${'q;'.repeat(kib64 / 2)}` },
  'escapes in a query': { path: `/?${'%71=%31&'.repeat(1000)}` },
  'a thousand fields': { headers: Array.from({ length: 1000 }, (_, i) => [`x-${i}`, 'a'.repeat(50)] as const) },
  'a thousand values': { headers: Array.from({ length: 1000 }, () => ['x-tier', 'a'.repeat(50)] as const) },
  'odd names': { headers: Array.from({ length: 1000 }, (_, i) => [`x_${i}`, 'a'.repeat(50)] as const) },
  'labels of a host': { host: 'a.'.repeat(kib64 / 2) },
  'ports of a host': { host: ':1'.repeat(kib64 / 2) },
};

for (const [title, query] of Object.entries(rows)) {
  t.test(title, async (t) => {
    let best = Number.POSITIVE_INFINITY;
    // Other programs only add to it: the least of many is what it costs.
    for (let i = 0; i < 30; i++) {
      const started = process.cpuUsage();
      loaded.ask({ host: 'web', ...query });
      const { user, system } = process.cpuUsage(started);
      best = Math.min(best, (user + system) / 1000);
    }
    t.ok(best < mostMs, `${best} ms`);
  });
}

/*
 * An expression that counts has a state for every value that it has not met, so that each of these is another one.
 */
t.test('values for expressions that count', async (t) => {
  const aAndB = (length: number): string => Array.from(randomBytes(length), (byte) => 'ab'[byte & 1]).join('');
  for (const start of ['/', '/x']) {
    for (const length of [4000, 1900, 900, 200]) {
      let best = Number.POSITIVE_INFINITY;
      for (let i = 0; i < 20; i++) {
        const path = `${start}${aAndB(length)}`;
        const started = process.cpuUsage();
        loaded.ask({ host: 'web', path });
        const { user, system } = process.cpuUsage(started);
        best = Math.min(best, (user + system) / 1000);
      }
      t.ok(best < mostMs, `${length} after ${start}: ${best} ms`);
    }
  }
});

t.test('reasons are told for so many authorizations as are shown', async (t) => {
  const { candidates } = loaded.ask({ path: '/admin' });
  t.equal(candidates.length, 64);
});
