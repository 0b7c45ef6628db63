import t, { type Test } from 'tap';
import { type IpAddress, parseIp } from '../../lib/ip.ts';
import { createAuthorizer } from '../../lib/policy/authorizer.ts';
import { compileNow } from '../../lib/policy/compile/compile.ts';
import { readDocuments } from '../../lib/policy/documents/read.ts';
import { type ExplainJson, type ExplainQuery, explain } from '../../lib/policy/explain.ts';
import { parseDefaultPolicy, parsePortSet, type Workload } from '../../lib/policy/workload.ts';
import { workloadFromPod } from '../support/pod-workload.ts';
import {
  afterStep,
  type PolicyCase,
  type PolicyCases,
  type PolicyCheck,
  type PolicyDocument,
  podOf,
  readPolicyCases,
  type SingleCheck,
} from '../support/policy-cases.ts';

/*
 * The shared cases, decided in this process: documents to index to explanation, with no server between. The same file is
 * run over real connections elsewhere.
 */

function workloadOf(cases: PolicyCases, policyCase: PolicyCase): Workload {
  const settings = { ...cases.defaults.settings, ...policyCase.settings };
  const { workload } = workloadFromPod(podOf(cases, policyCase), {
    defaultPolicy: parseDefaultPolicy(settings.defaultInboundPolicy) ?? 'deny',
    opaquePorts: parsePortSet('').ports,
    clusterNetworks: settings.clusterNetworks,
    probeNetworks: settings.probeNetworks,
    authorizeLocalhost: true,
    controlPlaneNamespace: settings.controlPlaneNamespace,
    trustDomain: settings.identityDomain,
    detectTimeoutMs: 10_000,
  });
  if (workload === null) throw new Error(`${policyCase.id}: the pod cannot be read`);
  return workload;
}

function queryOf({ client, request }: PolicyCheck): ExplainQuery {
  const { port, method, path, host, headers } = request;
  const protocols = { 'http/1.1': 'http1', 'http/2': 'http2', grpc: 'grpc', tcp: 'tcp' } as const;
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
    const readAll = (all: readonly PolicyDocument[]): ReturnType<typeof readDocuments> =>
      readDocuments(
        all.map((value) => ({ value, file: 'case.yaml', position: () => ({ line: 1, column: 1 }) })),
        { namespace: workload.namespace },
      );
    const refused = readAll(documents)
      .problems.filter(({ severity }) => severity === 'error')
      .map(({ resource }) => `${resource?.kind}/${resource?.name}`);
    for (const rejected of policyCase.rejected ?? []) t.ok(refused.includes(rejected), `${rejected} is refused`);
    // In the cases an API server has refused them, and they never came to be; here they would close what they might refuse.
    const rejected = new Set(policyCase.rejected);
    const read = readAll(documents.filter(({ kind, metadata }) => !rejected.has(`${kind}/${metadata.name}`)));
    authorizer.swap(compileNow(read.documents, workload).index);
  };
  const run = (check: PolicyCheck): void => {
    const ask = (): ExplainJson => explain(authorizer, queryOf(check));
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

const shared = readPolicyCases();
if (!shared.found) {
  t.plan(0, shared.reason);
} else {
  const { cases } = shared;
  t.not(cases.cases.length, 0, 'there are cases');
  for (const one of cases.cases) {
    t.test(`${one.id} ${one.title}`, async (t) => runCase(t, one, workloadOf(cases, one)));
  }
}
