import fc from 'fast-check';
import type { AskedPolicy, QuestionBlock } from '../../lib/analysis/blocks.ts';
import { Judge, limitText, outcomeKey } from '../../lib/analysis/outcome.ts';
import { partition } from '../../lib/analysis/partition.ts';
import { createAuthorizer } from '../../lib/policy/authorizer.ts';
import { compileNow } from '../../lib/policy/compile/compile.ts';
import { readDocuments } from '../../lib/policy/documents/read.ts';
import { type ExplainQuery, explain } from '../../lib/policy/explain.ts';
import type { Probe } from '../../lib/policy/probes.ts';
import type { Workload } from '../../lib/policy/workload.ts';
import { askedQuestion, blockHas, readingsOf } from './analysis.ts';
import { ip, workload } from './policy-fixtures.ts';
import { type RandomDocument, type RandomRequest, randomPolicy, randomRequest } from './random-worlds.ts';

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
  const authorizer = createAuthorizer({
    nowMs: () => {
      nowMs += 1_000_000;
      return nowMs;
    },
  });
  authorizer.swap(index);
  return { index, authorizer };
}

export function queryOf({ client, tls, headers, ...request }: RandomRequest): ExplainQuery {
  return {
    ...request,
    ip: ip(client),
    ...(typeof tls === 'string' ? { tls } : { identity: tls.identity }),
    headers: Object.entries(headers),
  };
}

const kinds = { other: 3, without: 2, more: 3, changed: 2 } as const;

/** A policy and another one: one of its own, or the same with a document less, more, or in place of another. */
export const randomPair: fc.Arbitrary<readonly [readonly RandomDocument[], readonly RandomDocument[]]> = fc
  .tuple(randomPolicy(ports), randomPolicy(ports), fc.nat(99), weighted(kinds))
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
    if (before === after || sides.some((side) => isMalformed(side, query))) return false;
    tally.different += 1;
    return !isHad(blocks, query, tally);
  });
}

/** Is no request at all, whatever the policy. */
function isMalformed({ authorizer }: AskedPolicy, query: ExplainQuery): boolean {
  return explain(authorizer, query).reason.startsWith('the request is malformed');
}

function isHad(blocks: readonly QuestionBlock[], query: ExplainQuery, tally: Tally): boolean {
  const asked = askedQuestion(query);
  if (blocks.some((block) => blockHas(block, asked, asked.path === null ? [] : [asked.path]))) return true;
  tally.byReading += 1;
  return blocks.some((block) => blockHas(block, asked, readingsOf(asked)));
}

export const randomQuestion: fc.Arbitrary<ExplainQuery> = randomRequest(ports).map(queryOf);
