import t, { type Test } from 'tap';
import { createAuthorizer } from '../../lib/policy/authorizer.ts';
import { compileNow } from '../../lib/policy/compile/compile.ts';
import { type ExplainJson, explain } from '../../lib/policy/explain.ts';
import type { Workload } from '../../lib/policy/workload.ts';
import { queryOf, readAll, workloadOf } from '../support/case-world.ts';
import { forAllCases } from '../support/cases.ts';
import {
  afterStep,
  type PolicyCase,
  type PolicyCheck,
  type PolicyDocument,
  podOf,
  readPolicyCases,
  type SingleCheck,
} from '../support/policy-cases.ts';

/*
 * The cases, decided in this process: documents to index to explanation, with no server between. The same file is
 * run over real connections elsewhere.
 */

const verdicts = { allow: 'permit', deny: 'deny', 'not-found': 'no-route', 'rate-limited': 'rate-limited' } as const;

/** The part of an explanation that a check speaks of, in the check's words. */
function observed(answer: ExplainJson, { expect, request }: SingleCheck): Record<string, unknown> {
  const permitted = answer.verdict === 'permit';
  const http = request.proto === 'grpc' ? 'grpc' : 'http';
  const labels = Object.entries(expect.labels).map(([label, wanted]) => {
    if (label === 'srv_port') return [label, String(request.port)];
    const [kind, field] = label.split('_') as ['srv' | 'route' | 'authz', 'group' | 'kind' | 'name'];
    const value = { srv: answer.server, route: answer.route, authz: answer.authz }[kind]?.[field];
    // Where several authorizations match, any of those names is right.
    const equivalent = label === 'authz_name' && value !== undefined && expect.authz_any_of?.includes(value);
    return [label, equivalent ? wanted : value];
  });
  return {
    decision: answer.verdict,
    wire: answer.tcp === 'forward' ? 'tcp' : answer.tcp === 'close' ? 'closed' : http,
    ...(expect.status === undefined ? {} : { status: permitted ? 200 : answer.httpStatus }),
    ...(expect.grpc_status === undefined ? {} : { grpc_status: permitted ? 0 : answer.grpcStatus }),
    ...Object.fromEntries(labels),
  };
}

function wanted({ expect }: SingleCheck): Record<string, unknown> {
  const { decision, wire, status, grpc_status, labels } = expect;
  return {
    decision: verdicts[decision],
    wire,
    ...(status === undefined ? {} : { status }),
    ...(grpc_status === undefined ? {} : { grpc_status }),
    ...labels,
  };
}

function runCase(t: Test, policyCase: PolicyCase, workload: Workload): void {
  // Time stands still, so that a burst happens at one instant.
  const authorizer = createAuthorizer({ nowMs: () => 1_000_000 });
  const load = (documents: readonly PolicyDocument[]): void => {
    const refused = readAll(documents, workload)
      .problems.filter(({ severity }) => severity === 'error')
      .map(({ resource }) => `${resource?.kind}/${resource?.name}`);
    for (const rejected of policyCase.rejected ?? []) t.ok(refused.includes(rejected), `${rejected} is refused`);
    // In the cases an API server has refused them, and they never came to be; here they would close what they might refuse.
    const rejected = new Set(policyCase.rejected);
    const created = documents.filter(({ kind, metadata }) => !rejected.has(`${kind}/${metadata.name}`));
    const read = readAll(created, workload);
    authorizer.swap(compileNow(read.documents, workload).index);
  };
  const run = (check: PolicyCheck): void => {
    const ask = (): ExplainJson => explain(authorizer, queryOf(check.client, check.request));
    if (check.burst === undefined) {
      t.same(observed(ask(), check), wanted(check), check.id);
      return;
    }
    const answers = Array.from({ length: check.burst }, ask);
    const count = (verdict: string): number => answers.filter((answer) => answer.verdict === verdict).length;
    const allow = count('permit');
    const rate_limited = count('rate-limited');
    const { allow: mayPass, rate_limited: limited, other } = check.expect;
    t.same(
      { allow, rate_limited, other: check.burst - allow - rate_limited },
      { allow: mayPass, rate_limited: limited, other },
      check.id,
    );
  };

  let documents = policyCase.resources;
  load(documents);
  for (const check of policyCase.checks) run(check);
  for (const step of policyCase.steps ?? []) {
    documents = afterStep(documents, step);
    load(documents);
    for (const check of step.checks) run(check);
  }
}

await forAllCases(t, readPolicyCases(), async (t, cases) => {
  t.not(cases.cases.length, 0, 'there are cases');
  for (const one of cases.cases) {
    const settings = { ...cases.defaults.settings, ...one.settings };
    const workload = workloadOf(one.id, podOf(cases, one), settings);
    await t.test(`${one.id} ${one.title}`, async (t) => runCase(t, one, workload));
  }
});
