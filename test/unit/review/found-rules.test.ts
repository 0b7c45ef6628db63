/**
 * A rule that is reported as found by no request is the route of no random question's decision, and the other way round: one
 * that no cell of all questions has is reported.
 */

import t from 'tap';
import { foundRules } from '../../../lib/analysis/found-rules.ts';
import { partition } from '../../../lib/analysis/partition.ts';
import { explain } from '../../../lib/policy/explain.ts';
import { type ResourceRef, refText } from '../../../lib/resource-ref.ts';
import fc from '../../support/properties.ts';
import { type RandomDocument, randomPolicy } from '../../support/random-worlds.ts';
import { comparedWorkload, ports, randomQuestion, sideOf } from '../../support/two-policies.ts';

const seed = Number(process.env.FUZZ_SEED ?? 12);
const policies = Number(process.env.ANALYSIS_PAIRS ?? 30);
const questionsOfPolicy = 300;

const nameOf = (port: number, route: ResourceRef, place: number | null): string => `${port} ${refText(route)} ${place}`;

/** Three policies in one, on Servers that all of their routes find. */
const manyRoutes: fc.Arbitrary<readonly RandomDocument[]> = fc
  .tuple(randomPolicy(ports), randomPolicy(ports), randomPolicy(ports))
  .map((parts) => [
    ...['a', 'b', 'c', 'd'].map((name, i) => ({
      apiVersion: 'policy.linkerd.io/v1beta3',
      kind: 'Server',
      metadata: { name, namespace: 'shop' },
      spec: { podSelector: {}, port: ports[i], ...(name === 'd' ? { proxyProtocol: 'gRPC' } : {}) },
    })),
    ...parts.flatMap((part, i) =>
      part
        .filter(({ kind }) => kind !== 'Server' && kind !== 'NetworkPolicy')
        .map((document): RandomDocument => {
          const { metadata, kind, spec } = document;
          if (!kind.endsWith('Route')) return document;
          // Routes of both kinds would keep each other out.
          const server = kind === 'GRPCRoute' ? 'd' : i === 2 ? 'b' : 'a';
          const parentRefs = [{ group: 'policy.linkerd.io', kind: 'Server', name: server }];
          return {
            ...document,
            metadata: { ...metadata, name: `${metadata.name}-${i}` },
            spec: { ...spec, parentRefs },
          };
        }),
    ),
  ]);

t.setTimeout(0);

t.test('rules that no request finds', async (t) => {
  const questions = fc.sample(randomQuestion, { seed, numRuns: questionsOfPolicy });
  const wrong: string[] = [];
  let nevers = 0;
  let decided = 0;
  for (const documents of fc.sample(manyRoutes, { seed, numRuns: policies })) {
    const side = sideOf(documents);
    const never = new Set<string>();
    const found = new Set<string>();
    for (const { port, routes } of side.index.servers) {
      if (routes === null) continue;
      for (const [rule, { kind }] of foundRules(routes, ({ place }) => place !== null, {
        left: 1_000_000,
        effort: { left: 60_000_000 },
      })) {
        if (kind === 'unexamined') wrong.push(`unexamined: ${JSON.stringify(documents)}`);
        (kind === 'never' ? never : found).add(nameOf(port, rule.route, rule.place));
      }
    }
    nevers += never.size;
    for (const query of questions) {
      const { route, rule } = explain(side.authorizer, query);
      if (route === null || rule === null) continue;
      decided += 1;
      const name = nameOf(query.port, route, rule);
      if (never.has(name)) wrong.push(`${name} is found: ${JSON.stringify({ query: { ...query, ip: 0 }, documents })}`);
    }
    const cells = new Set<string>();
    for (const { port, requests } of partition({ sides: [side], workload: comparedWorkload })) {
      for (const link of (requests ?? []).flatMap((leaf) => leaf.found)) {
        if (link !== null) cells.add(nameOf(port.sample, link.rule.route, link.rule.place));
      }
    }
    for (const name of never) if (cells.has(name)) wrong.push(`${name} has a cell: ${JSON.stringify(documents)}`);
    for (const name of found) if (!cells.has(name)) wrong.push(`${name} has no cell: ${JSON.stringify(documents)}`);
  }
  t.same(wrong.slice(0, 3), [], `${wrong.length} are wrong`);
  t.ok(nevers > policies / 15, `${nevers} rules are never found`);
  t.ok(decided > (policies * questionsOfPolicy) / 50, `${decided} questions find a rule`);
});
