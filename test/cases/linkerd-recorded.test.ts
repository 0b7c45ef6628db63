/**
 * What the real linkerd2-proxy and its policy controller decided, recorded on the wire, against our own decisions on the
 * same documents. Never wider; and where otherwise, for a reason that has its row in the README.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { type IpAddress, parseIp } from '../../lib/ip.ts';
import { createAuthorizer } from '../../lib/policy/authorizer.ts';
import { compileNow } from '../../lib/policy/compile.ts';
import { readDocuments } from '../../lib/policy/documents.ts';
import { type ExplainJson, type ExplainQuery, explain } from '../../lib/policy/explain.ts';
import { workloadFromPod } from '../../lib/policy/pod.ts';
import { parseDefaultPolicy, parsePortSet, type Workload } from '../../lib/policy/workload.ts';
import type { Problem } from '../../lib/problem.ts';
import type { ResourceRef } from '../../lib/resource-ref.ts';
import {
  knownDifferences,
  type RecordedCheck,
  type RecordedDecision,
  type RecordedWorld,
  readRecordedWorlds,
  recordedDecision,
} from '../support/linkerd-cases.ts';
import { checkout } from '../support/sallyport.ts';

const protocols = { 'http/1.1': 'http1', 'http/2': 'http2', grpc: 'grpc', tcp: 'tcp' } as const;

const shared = readRecordedWorlds();
if (!shared.found) {
  t.plan(0, shared.reason);
} else {
  const seen = new Map<string, number>();
  let checks = 0;
  for (const world of shared.cases) {
    t.test(world.title ?? world.id, async (t) => {
      const faults: string[] = [];
      const { ask, refused } = load(world);
      const unrefused = world.refused.map(({ doc }) => doc).filter((doc) => !refused.includes(doc));
      t.same(unrefused, [], 'what the API server or the webhook refused is refused');
      for (const check of world.checks) {
        checks++;
        if (check.request.dst_ip !== undefined) continue;
        const answer = ask(check);
        const wanted = recordedDecision(check);
        if (isSame(wanted, answer)) continue;
        const known = isWider(wanted, answer) ? undefined : knownDifferences.find(({ is }) => is(check, answer));
        if (known === undefined) faults.push(describe(check, wanted, answer));
        else seen.set(known.row, (seen.get(known.row) ?? 0) + 1);
      }
      t.same(faults, []);
    });
  }
  t.test('the differences', async (t) => {
    t.ok(checks >= 1_848, `${checks} checks`);
    const readme = readFileSync(join(checkout, 'README.md'), 'utf8').split('\n');
    for (const { row } of knownDifferences) {
      t.ok(seen.has(row), `"${row}" occurs: ${seen.get(row) ?? 0}`);
      t.ok(
        readme.some((line) => line.startsWith('| ') && line.includes(row)),
        `"${row}" is a row of the README`,
      );
    }
  });
}

/** The documents of a world, in force, and which of them are refused. */
function load(world: RecordedWorld): { ask(check: RecordedCheck): ExplainJson; refused: readonly string[] } {
  const workload = workloadOf(world);
  const read = readDocuments(
    world.resources.map((value) => ({ value, file: 'recorded.yaml', position: () => ({ line: 1, column: 1 }) })),
    { namespace: workload.namespace },
  );
  const authorizer = createAuthorizer({ nowMs: () => 1_000_000 });
  authorizer.swap(compileNow(read.documents, workload).index);
  const nameOf = ({ resource }: Problem): string => `${resource?.kind}/${resource?.name}`;
  return {
    ask: (check) => explain(authorizer, queryOf(check)),
    refused: read.problems.filter(({ severity }) => severity === 'error').map(nameOf),
  };
}

function workloadOf({ id, pod, settings }: RecordedWorld): Workload {
  const { workload } = workloadFromPod(pod, {
    defaultPolicy: parseDefaultPolicy(settings.defaultInboundPolicy) ?? 'deny',
    opaquePorts: parsePortSet('').ports,
    clusterNetworks: settings.clusterNetworks,
    probeNetworks: settings.probeNetworks,
    authorizeLocalhost: true,
    controlPlaneNamespace: settings.controlPlaneNamespace,
    trustDomain: settings.identityDomain,
    detectTimeoutMs: 10_000,
  });
  if (workload === null) throw new Error(`${id}: the pod cannot be read`);
  return workload;
}

function queryOf({ client, request }: RecordedCheck): ExplainQuery {
  const { port, method, path, host, headers } = request;
  return {
    port,
    ip: parseIp(client.ip) as IpAddress,
    ...(client.tls === 'mesh' && client.identity !== undefined ? { identity: client.identity } : {}),
    tls: client.tls === 'passthrough' ? 'passthrough' : client.tls === 'none' ? 'none' : 'anonymous',
    protocol: protocols[request.proto],
    ...(method === undefined ? {} : { method }),
    ...(path === undefined ? {} : { path }),
    ...(host === undefined ? {} : { host }),
    headers: headers ?? [],
  };
}

function name(ref: ResourceRef | null): string | null {
  return ref === null ? null : `${ref.group}/${ref.kind}/${ref.name}`;
}

function passes(verdict: string): boolean {
  return verdict === 'permit' || verdict === 'redirect';
}

function isWider({ verdict }: RecordedDecision, answer: ExplainJson): boolean {
  return passes(answer.verdict) && !passes(verdict);
}

function isSame(wanted: RecordedDecision, answer: ExplainJson): boolean {
  // Linkerd names nothing where it never came to a decision: it closes, resets the stream, or answers 400.
  if (wanted.verdict === 'closed') {
    return answer.tcp === 'close' || (answer.verdict === 'invalid' && answer.httpStatus === null);
  }
  if (wanted.verdict === 'invalid') return answer.verdict === 'invalid';
  // Linkerd credits any one of the authorizations that cover the client, in no fixed order.
  const granting = answer.candidates.filter(({ granted }) => granted).map(({ authz }) => name(authz));
  const credited = name(answer.authz) === wanted.authz || (answer.authz !== null && granting.includes(wanted.authz));
  return (
    verdictOf(answer) === wanted.verdict &&
    (answer.tcp === null ? 'http' : 'tcp') === wanted.wire &&
    name(answer.server) === wanted.server &&
    name(answer.route) === wanted.route &&
    credited
  );
}

function verdictOf({ verdict, httpStatus }: ExplainJson): string {
  return verdict === 'redirect' && httpStatus === 500 ? 'redirect-failed' : verdict;
}

function describe(
  { id, client, request, linkerd }: RecordedCheck,
  wanted: RecordedDecision,
  answer: ExplainJson,
): string {
  const { verdict, server, route, authz, reason } = answer;
  const ours = { verdict, server: name(server), route: name(route), authz: name(authz), reason };
  return `${id}: ${JSON.stringify({ client, request, outcome: linkerd.outcome, wanted, ours })}`;
}
