import t from 'tap';
import { compileNow } from '../../../lib/policy/compile/compile.ts';
import { readDocuments } from '../../../lib/policy/documents/read.ts';
import { explain } from '../../../lib/policy/explain.ts';
import { widened } from '../../../lib/policy/widening.ts';
import { passes } from '../../support/linkerd-worlds.ts';
import { document, route, server, sources, workload } from '../../support/policy-fixtures.ts';
import fc from '../../support/properties.ts';
import { randomPolicy, randomRequest } from '../../support/random-worlds.ts';
import { ports, queryOf, sideOf } from '../../support/two-policies.ts';

const indexOf = (text: string) =>
  compileNow(readDocuments(sources(text), { namespace: 'shop' }).documents, workload()).index;
const grant = (client: string): string =>
  server() + document('ServerAuthorization', 'g', `{server: {name: web}, client: {${client}}}`);
const networks = (cidrs: readonly string[]): string =>
  grant(`unauthenticated: true, networks: [${cidrs.map((cidr) => `{cidr: ${cidr}}`).join()}]`);
const names = (texts: readonly string[]): string => grant(`meshTLS: {identities: [${texts.join()}]}`);
const numbered = (count: number, text: (i: number) => string): string[] =>
  Array.from({ length: count }, (_, i) => text(i));

t.test('lists that are shown alike are told apart', async (t) => {
  const blocks = numbered(12, (i) => `10.${i}.0.0/16`);
  const holes = numbered(12, (i) => `10.${i}.0.0/16`);
  const but = (except: readonly string[]): string =>
    grant(`unauthenticated: true, networks: [{cidr: 10.0.0.0/8, except: [${except.join()}]}]`);
  const accounts = numbered(9, (i) => `sa${i}.example`);
  const rows: readonly (readonly [what: string, before: string, after: string])[] = [
    ['networks', networks(blocks), networks([...blocks.slice(0, -1), '203.0.113.0/24'])],
    ['exceptions', but(holes), but(holes.slice(0, -1))],
    ['identities', names(accounts), names([...accounts.slice(0, -1), 'stranger.example'])],
    ['suffixes', names(accounts), names([...accounts.slice(0, -1), '"*.example"'])],
  ];
  for (const [what, before, after] of rows) {
    t.match(widened(indexOf(before), indexOf(after)), [/^port 8080: policy\.linkerd\.io\/server\/web: open to /], what);
    t.same(widened(indexOf(before), indexOf(before)), [], `${what}: the same again`);
  }
});

t.test('the same clients in another order, or in other words, are no more than before', async (t) => {
  const pairs: readonly (readonly [before: string, after: string])[] = [
    [names(['a.example', 'b.example']), names(['b.example', 'a.example'])],
    [networks(['10.0.0.0/9', '10.128.0.0/9']), networks(['10.0.0.0/8'])],
  ];
  for (const [before, after] of pairs) t.same(widened(indexOf(before), indexOf(after)), []);
});

const closes = (name: string, ingress: string): string =>
  document('NetworkPolicy', name, `{podSelector: {}, ingress: ${ingress}}`, 'networking.k8s.io/v1');

t.test('NetworkPolicies: wider is a rule that opens more, or none that closes any more', async (t) => {
  const a = closes('a', '[{ports: [{port: 80}], from: [{ipBlock: {cidr: 10.0.0.0/8}}]}]');
  const b = closes('b', '[{ports: [{port: 443}]}]');
  const ref = 'networking.k8s.io/NetworkPolicy';
  const none = `connections: no NetworkPolicy closes the pod any more, as ${ref}/a`;
  const rows: readonly (readonly [what: string, before: string, after: string, lines: readonly string[]])[] = [
    ['one of two is gone', a + b, a, []],
    ['both are gone', a + b, '', [`${none}, ${ref}/b did`]],
    ['one comes', '', a, []],
    ['one that opens comes beside one', a, a + b, [`connections: ${ref}/b opens TCP 443 to anybody`]],
    ['one that opens nothing comes beside one', a, a + closes('c', '[]'), []],
    ['one for UDP comes beside one', a, a + closes('c', '[{ports: [{protocol: UDP, port: 53}]}]'), []],
    ['the same rule in another', a, closes('c', '[{from: [{ipBlock: {cidr: 10.0.0.0/8}}], ports: [{port: 80}]}]'), []],
    [
      'more addresses, and another is gone',
      a + b,
      closes('a', '[{ports: [{port: 80}], from: [{ipBlock: {cidr: 0.0.0.0/0}}]}]'),
      [`connections: ${ref}/a opens TCP 80 to 0.0.0.0/0`],
    ],
    [
      'every port, and another is gone',
      a + b,
      closes('a', '[{from: [{ipBlock: {cidr: 10.0.0.0/8}}]}]'),
      [`connections: ${ref}/a opens any port to 10.0.0.0/8`],
    ],
  ];
  for (const [what, before, after, lines] of rows) t.same(widened(indexOf(before), indexOf(after)), lines, what);
});

t.test('what a port takes no more than it did: requests of no route, bytes of another protocol', async (t) => {
  const open = server('accessPolicy: all-unauthenticated');
  const web = server('accessPolicy: all-unauthenticated, proxyProtocol: HTTP/1');
  const routed = open + route('r', '{path: {value: /a}}');
  const left = 'port 8080: no route is left, so requests that none took are decided by';
  const rows: readonly (readonly [what: string, before: string, after: string, lines: readonly string[]])[] = [
    ['its only route is gone', routed, open, [`${left} policy.linkerd.io/server/web`]],
    ['one of two routes is gone', routed + route('s', '{path: {value: /b}}'), routed, []],
    ['its protocol is no more said', web, open, ['port 8080: its protocol is detect in place of http1']],
  ];
  for (const [what, before, after, lines] of rows) t.same(widened(indexOf(before), indexOf(after)), lines, what);
});

t.test('rate limits: wider is any of their numbers that is more, or no more', async (t) => {
  const limit = (fields: string): string =>
    server() +
    document(
      'HTTPLocalRateLimitPolicy',
      'l',
      `{targetRef: {group: policy.linkerd.io, kind: Server, name: web}, ${fields}}`,
    );
  const total = (rate: number): string => `total: {requestsPerSecond: ${rate}}`;
  const identity = (rate: number): string => `identity: {requestsPerSecond: ${rate}}`;
  const overrides = (...entries: readonly (readonly [rate: number, ...names: string[]])[]): string => {
    const refs = (names: readonly string[]) => names.map((name) => `{kind: ServiceAccount, name: ${name}}`);
    return `overrides: [${entries.map(([rate, ...names]) => `{requestsPerSecond: ${rate}, clientRefs: [${refs(names)}]}`)}]`;
  };
  const rows: readonly (readonly [what: string, before: string, after: string, less: boolean])[] = [
    ['the total, raised', total(5), total(6), true],
    ['the total, lowered', total(5), total(4), false],
    ['the total, gone', `${total(5)}, ${identity(1)}`, identity(1), true],
    ['a total comes', identity(1), `${total(5)}, ${identity(1)}`, false],
    ['identities, raised', identity(1), identity(2), true],
    ['an override, raised', overrides([1, 'a']), overrides([2, 'a']), true],
    ['an override, gone, and nothing else', overrides([1, 'a']), total(5), true],
    ['an override, gone, with as much for all', `${identity(1)}, ${overrides([1, 'a'])}`, identity(1), false],
    ['an override comes with more', identity(1), `${identity(1)}, ${overrides([2, 'a'])}`, true],
    ['an override comes with less', identity(2), `${identity(2)}, ${overrides([1, 'a'])}`, false],
    ['one for two, then one for each', overrides([1, 'a', 'b']), overrides([1, 'a'], [1, 'b']), true],
    ['one for each, then one for two', overrides([1, 'a'], [1, 'b']), overrides([1, 'b', 'a']), false],
  ];
  const line = 'port 8080: policy.linkerd.io/HTTPLocalRateLimitPolicy/l limits less than before';
  for (const [what, before, after, less] of rows) {
    t.same(widened(indexOf(limit(before)), indexOf(limit(after))), less ? [line] : [], what);
  }
});

t.test('of whatever is let in that was not, some line tells', async (t) => {
  const requests = fc.sample(randomRequest(ports), { numRuns: 150, seed: 1 }).map(queryOf);
  const policies = fc.sample(randomPolicy(ports), { numRuns: 60, seed: 1 });
  const letIn = ({ authorizer }: ReturnType<typeof sideOf>): boolean[] =>
    requests.map((request) => passes(explain(authorizer, request).verdict));
  let wider = 0;
  const silent: string[] = [];
  for (const [n, policy] of policies.entries()) {
    const before = sideOf(policy);
    const was = letIn(before);
    const others = [...policy.map((_, i) => policy.filter((_, j) => j !== i)), policies[n + 1] ?? []];
    for (const other of others) {
      const after = sideOf(other);
      const request = letIn(after).findIndex((isIn, i) => isIn && was[i] === false);
      if (request === -1) continue;
      wider++;
      if (widened(before.index, after.index).length > 0) continue;
      silent.push(JSON.stringify([requests[request]?.path, policy, other]));
    }
  }
  t.same(silent.slice(0, 1), []);
  t.ok(wider > 50, `${wider} are wider`);
});
