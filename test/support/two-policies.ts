import fc from 'fast-check';
import type { AskedPolicy, QuestionBlock } from '../../lib/analysis/blocks.ts';
import { Judge, limitText, outcomeKey } from '../../lib/analysis/outcome.ts';
import { partition } from '../../lib/analysis/partition.ts';
import { authorizerOf } from '../../lib/policy/authorizer.ts';
import { compileNow } from '../../lib/policy/compile/compile.ts';
import { readDocuments } from '../../lib/policy/documents/read.ts';
import { type ExplainQuery, requestFacts } from '../../lib/policy/explain.ts';
import type { Probe } from '../../lib/policy/probes.ts';
import type { Workload } from '../../lib/policy/workload.ts';
import { askedQuestion, blockHas, readingsOf } from './analysis.ts';
import { ip, workload } from './policy-fixtures.ts';
import { identities, type RandomDocument, type RandomRequest, randomPolicy, randomRequest } from './random-worlds.ts';

/*
 * Pairs of policies at random, and random questions: where the policies answer otherwise, some block of the comparison must
 * hold the question.
 */

export const ports = [8080, 8081, 8082, 8083, 8084];

const everyProbe: readonly Probe[] = [
  { kind: 'http', path: '/healthz' },
  { kind: 'https', path: '/secure' },
  { kind: 'tcp' },
  { kind: 'grpc' },
  { kind: 'hook', path: '/stop' },
];

export const comparedWorkload: Workload = workload({
  namedPorts: new Map([['named', [8080]]]),
  ips: [ip('127.0.0.3')],
  probeNetworks: ['127.0.0.2/31'],
  clusterNetworks: ['127.0.0.2/32'],
  defaultPolicy: 'cluster-authenticated',
  probes: new Map(ports.map((port, i) => [port, i < 3 ? [...everyProbe] : everyProbe.slice(0, 1)])),
});
/** A policy in force, under a clock that lets no rate limit run out. */
export function sideOf(documents: readonly unknown[], of: Workload = comparedWorkload): AskedPolicy {
  const sources = documents.map((value, i) => ({
    value,
    file: 'policy.yaml',
    position: () => ({ line: i + 1, column: 1 }),
  }));
  const { index } = compileNow(readDocuments(sources, { namespace: of.namespace }).documents, of);
  let nowMs = 0;
  return { index, authorizer: authorizerOf(index, () => (nowMs += 1_000_000)) };
}

export function queryOf({ client, tls, headers, ...request }: RandomRequest): ExplainQuery {
  return {
    ...request,
    ip: ip(client),
    ...(typeof tls === 'string' ? { tls } : { identity: tls.identity }),
    headers: Object.entries(headers),
  };
}

const linkerd = 'policy.linkerd.io';
const of = fc.constantFrom;

function odd(
  kind: string,
  apiVersion: string,
  spec: fc.Arbitrary<Record<string, unknown>>,
): fc.Arbitrary<RandomDocument> {
  return fc.tuple(of('x0', 'x1'), spec).map(([name, body]) => ({
    apiVersion,
    kind,
    metadata: { name, namespace: 'shop' },
    spec: body,
  }));
}

const servers = of('a', 'b', 'c', 'd');
const peers = of('127.0.0.0/30', '127.0.0.2/32', '127.9.0.0/16', '10.0.0.0/8', '::/0');

/** What the worlds for the wire have none of: isolation, limits, routes by identity, odd spellings, several hosts. */
const oddDocument: fc.Arbitrary<RandomDocument> = fc.oneof(
  odd(
    'NetworkPolicy',
    'networking.k8s.io/v1',
    fc
      .array(fc.tuple(peers, of<unknown[]>([], [{ port: 8081 }], [{ port: 8080, endPort: 8082 }, { port: 9000 }])), {
        maxLength: 2,
      })
      .map((rules) => ({
        podSelector: {},
        policyTypes: ['Ingress'],
        ingress: rules.map(([cidr, open]) => ({
          from: [{ ipBlock: { cidr } }],
          ...(open.length === 0 ? {} : { ports: open }),
        })),
      })),
  ),
  odd(
    'HTTPLocalRateLimitPolicy',
    `${linkerd}/v1alpha1`,
    fc.tuple(servers, of(10, 20), of<object>({}, { identity: { requestsPerSecond: 5 } })).map(([name, rate, more]) => ({
      targetRef: { group: linkerd, kind: 'Server', name },
      total: { requestsPerSecond: rate },
      ...more,
    })),
  ),
  odd(
    'HTTPRoute',
    `${linkerd}/v1beta3`,
    fc
      .tuple(
        servers,
        of<string[] | undefined>(undefined, undefined, ['*.web.shop'], ['a.web.shop', '*.shop']),
        fc.array(
          fc.record({
            path: of(
              { type: 'PathPrefix', value: '/A' },
              { type: 'Exact', value: '/A' },
              { type: 'Exact', value: '/%61' },
              { type: 'PathPrefix', value: '/a' },
              { type: 'RegularExpression', value: '/[A-Z]+' },
              { type: 'RegularExpression', value: '/(?i:a).*' },
              { type: 'RegularExpression', value: '/svc\\.Foo/\\w+' },
            ),
            headers: of(
              [],
              [],
              [{ name: 'l5d-client-id', type: 'RegularExpression', value: '.*\\.shop\\..*' }],
              [{ name: 'l5d-client-id', value: identities.dns }],
              [{ name: 'l5d-client-id', type: 'RegularExpression', value: 'spiffe://.*' }],
              [
                { name: 'x-role', value: 'admin' },
                { name: 'cookie', type: 'RegularExpression', value: '.+' },
              ],
            ),
          }),
          { minLength: 1, maxLength: 3 },
        ),
      )
      .map(([name, hostnames, matches]) => ({
        parentRefs: [{ group: linkerd, kind: 'Server', name }],
        ...(hostnames === undefined ? {} : { hostnames }),
        rules: matches.map((match) => ({ matches: [match] })),
      })),
  ),
  odd(
    'AuthorizationPolicy',
    `${linkerd}/v1alpha1`,
    fc.tuple(of('x0', 'x1'), of('m0', 'n0', '')).map(([name, by]) => ({
      targetRef: { group: linkerd, kind: 'HTTPRoute', name },
      requiredAuthenticationRefs:
        by === ''
          ? []
          : [{ group: linkerd, kind: by === 'm0' ? 'MeshTLSAuthentication' : 'NetworkAuthentication', name: by }],
    })),
  ),
);

const kinds = { other: 3, without: 2, more: 3, changed: 2 } as const;

export const world: fc.Arbitrary<readonly RandomDocument[]> = fc
  .tuple(randomPolicy(ports), fc.array(oddDocument, { maxLength: 4 }))
  .map(([documents, more]) => [
    ...documents,
    ...new Map(more.map((one) => [`${one.kind} ${one.metadata.name}`, one])).values(),
  ]);

/** A policy and another one: one of its own, or the same with a document less, more, or in place of another. */
export const randomPair: fc.Arbitrary<readonly [readonly RandomDocument[], readonly RandomDocument[]]> = fc
  .tuple(world, world, fc.nat(99), weighted(kinds))
  .map(([first, second, at, kind]) => {
    const place = at % first.length;
    const fresh = second[at % second.length];
    const others: Readonly<Record<keyof typeof kinds, readonly RandomDocument[]>> = {
      other: second,
      without: first.filter((_, i) => i !== place),
      more: fresh === undefined ? first : [...first, fresh],
      changed: first.map((document, i) => (i === place ? (fresh ?? document) : document)),
    };
    return [first, others[kind]] as const;
  });

function weighted<Kind extends string>(weights: Readonly<Record<Kind, number>>): fc.Arbitrary<Kind> {
  return fc.oneof(
    ...(Object.entries(weights) as [Kind, number][]).map(([kind, weight]) => ({
      weight,
      arbitrary: fc.constant(kind),
    })),
  );
}

export interface Tally {
  asked: number;
  /** Answered otherwise by the two policies. */
  different: number;
  /** Of these, those that no block has as they stand, but for another reading of their paths. */
  byReading: number;
}

/** Puts questions to two policies; what they answer otherwise and no block has is returned. */
export function missed(
  pair: readonly [readonly unknown[], readonly unknown[]],
  questions: readonly ExplainQuery[],
  tally: Tally,
): ExplainQuery[] {
  const sides = pair.map((documents) => sideOf(documents));
  const blocks = [...partition({ sides, workload: comparedWorkload })];
  const judges = sides.map(({ authorizer }) => new Judge(authorizer));
  return questions.filter((query) => {
    tally.asked += 1;
    const [before, after] = judges.map((judge, i) => {
      const limit = sides[i]?.index.port(query.port).rateLimit ?? null;
      return outcomeKey(judge.outcome(query, limitText(limit, query.identity ?? null)));
    });
    if (before === after || isMalformed(query)) return false;
    tally.different += 1;
    return !isHad(blocks, query, tally);
  });
}

/** Whether HTTP would not take it for a request, whatever the policy. */
export function isMalformed(query: ExplainQuery): boolean {
  const { protocol = 'http1' } = query;
  if (protocol === 'tcp' || protocol === 'connect') return false;
  return 'reason' in requestFacts(query, protocol);
}

function isHad(blocks: readonly QuestionBlock[], query: ExplainQuery, tally: Tally): boolean {
  const asked = askedQuestion(query);
  if (blocks.some((block) => blockHas(block, asked, asked.path === null ? [] : [asked.path]))) return true;
  tally.byReading += 1;
  return blocks.some((block) => blockHas(block, asked, readingsOf(asked)));
}

/** Names, addresses, paths and hosts at the borders of what the policies say. */
const borders = fc.record({
  client: of(
    '127.0.0.0',
    '127.0.0.4',
    '127.0.1.0',
    '127.8.255.255',
    '127.9.0.0',
    '10.0.0.1',
    '9.255.255.255',
    '2001:db8::1',
    '::1',
  ),
  tls: of<RandomRequest['tls']>(
    'none',
    { identity: 'x.orders.shop.serviceaccount.identity.linkerd.cluster.local' },
    { identity: 'shop.serviceaccount.identity.linkerd.cluster.local' },
    { identity: 'somebody.local' },
    { identity: 'somebody.example' },
    { identity: 'spiffe://root.test/ns/shop/sa/other' },
  ),
  path: of(
    '/A',
    '/A/x',
    '/a/B',
    '/AB',
    '/aX',
    '/svc.foo/bar',
    '/svc.Foo/Other',
    '/a/b/c',
    '/ab',
    '/b',
    '/Healthz',
    '/a?x=1&x=2',
  ),
  host: of('x.web.shop', 'web.shop.', 'shop', 'x.other.test', 'a.b.web.shop'),
  headers: of<Record<string, string>>(
    { 'x-role': 'nobody', cookie: 'x' },
    { 'x-role': 'adm' },
    { 'x-role': '', cookie: '' },
    { 'content-length': '1' },
  ),
});

export const randomQuestion: fc.Arbitrary<ExplainQuery> = fc
  .tuple(randomRequest(ports), borders, fc.nat(31))
  .map(([request, other, bits]) =>
    queryOf({
      ...request,
      ...((bits & 1) === 0 ? {} : { client: other.client }),
      ...((bits & 2) === 0 ? {} : { tls: other.tls }),
      ...((bits & 4) === 0 ? {} : { path: other.path }),
      ...((bits & 8) === 0 ? {} : { host: other.host }),
      ...((bits & 16) === 0 ? {} : { headers: other.headers }),
    }),
  );
