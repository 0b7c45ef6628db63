/** Every policy case through `sallyport explain --requests`: one process for each state of a case's documents. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { stringify } from 'yaml';
import { forAllCases } from '../support/cases.ts';
import {
  afterStep,
  type BurstExpectation,
  type CaseClient,
  type PolicyCase,
  type PolicyCases,
  type PolicyCheck,
  type PolicyDocument,
  podOf,
  readPolicyCases,
  type SingleExpectation,
} from '../support/policy-cases.ts';
import { runSallyport } from '../support/sallyport.ts';
import { mapBounded } from '../support/until.ts';

type Reference = { readonly group: string; readonly kind: string; readonly name: string };
interface Answer {
  readonly verdict: string;
  readonly httpStatus: number | null;
  readonly grpcStatus: number | null;
  readonly tcp: string | null;
  readonly server: Reference;
  readonly route: Reference | null;
  readonly authz: Reference | null;
}

interface State {
  readonly documents: readonly PolicyDocument[];
  readonly checks: readonly PolicyCheck[];
  /** False: nothing may be wider than the case says. */
  readonly exactly: boolean;
}

const verdicts = { allow: 'permit', deny: 'deny', 'not-found': 'no-route', 'rate-limited': 'rate-limited' };

await forAllCases(t, readPolicyCases(), allCases);

async function allCases(t: Test, cases: PolicyCases): Promise<void> {
  const folder = t.testdir();
  const results = await mapBounded(cases.cases, 2, (policyCase) =>
    faultsOf(t, cases, policyCase, join(folder, policyCase.id)),
  );
  for (const [index, faults] of results.entries()) {
    const { id, title } = cases.cases[index] as PolicyCase;
    t.same(faults, [], `${id} ${title}`);
  }
}

/** What disagrees, by check; the documents of a step are a state of their own. */
async function faultsOf(t: Test, cases: PolicyCases, policyCase: PolicyCase, folder: string): Promise<string[]> {
  mkdirSync(folder);
  const manifest = join(folder, 'pod.yaml');
  writeFileSync(manifest, stringify(podOf(cases, policyCase)));
  const settings = { ...cases.defaults.settings, ...policyCase.settings };
  const env = {
    SALLYPORT_POD_MANIFEST: manifest,
    SALLYPORT_DEFAULT_INBOUND_POLICY: settings.defaultInboundPolicy,
    SALLYPORT_CLUSTER_NETWORKS: settings.clusterNetworks.join(','),
    SALLYPORT_PROBE_NETWORKS: settings.probeNetworks.join(','),
    SALLYPORT_TRUST_DOMAIN: settings.identityDomain,
    SALLYPORT_CONTROL_PLANE_NAMESPACE: settings.controlPlaneNamespace,
    SALLYPORT_DETECT_TIMEOUT: settings.detectTimeout,
  };
  // Documents that an API server refuses are not there in a cluster. Files may hold them, and at the first load they must
  // let nobody in whom the rest would not; what they might have refused they refuse.
  const { rejected = [], resources } = policyCase;
  let documents = resources.filter(({ kind, metadata }) => !rejected.includes(`${kind}/${metadata.name}`));
  const faults: string[] = [];
  const states: State[] = [{ documents, checks: policyCase.checks, exactly: true }];
  if (rejected.length > 0) states.push({ documents: resources, checks: policyCase.checks, exactly: false });
  for (const step of policyCase.steps ?? []) {
    documents = afterStep(documents, step);
    states.push({ documents, checks: step.checks, exactly: true });
  }
  for (const [number, { documents, checks, exactly }] of states.entries()) {
    const policy = join(folder, `policy-${number}.yaml`);
    const requests = join(folder, `requests-${number}.jsonl`);
    writeFileSync(policy, documents.map((document) => `---\n${stringify(document)}`).join(''));
    const lines = checks.flatMap((check) => Array<string>(check.burst ?? 1).fill(lineOf(check)));
    writeFileSync(requests, `${lines.join('\n')}\n`);
    const args = ['explain', '--policy', policy, '--requests', requests, '--json'];
    const { code, stdout, stderr } = await runSallyport(t, args, env);
    if (code !== 0) faults.push(`exit status ${code}: ${stderr}`);
    const answers = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Answer);
    if (answers.length !== lines.length) faults.push(`${answers.length} answers to ${lines.length} requests`);
    for (const check of checks) {
      const mine = answers.splice(0, check.burst ?? 1);
      if (!exactly) {
        if (check.burst === undefined && check.expect.decision !== 'allow' && mine[0]?.verdict === 'permit') {
          faults.push(`${check.id}: let in by a document that is refused`);
        }
        continue;
      }
      const found =
        check.burst === undefined ? singleFaults(check.expect, mine[0] as Answer) : burstFaults(check.expect, mine);
      faults.push(...found.map((fault) => `${check.id}: ${fault}`));
    }
  }
  return faults;
}

function lineOf({ client, request }: PolicyCheck): string {
  const protocols = { 'http/1.1': 'http1', 'http/2': 'http2', grpc: 'grpc', tcp: 'tcp' };
  const headers: Record<string, string[]> = {};
  for (const [name, value] of request.headers ?? []) headers[name] = [...(headers[name] ?? []), value];
  const { port, method, path, host } = request;
  return JSON.stringify({
    port,
    client: client.ip,
    ...tlsOf(client),
    protocol: protocols[request.proto],
    method,
    path,
    host,
    headers,
  });
}

function tlsOf(client: CaseClient): object {
  switch (client.tls) {
    case 'mesh':
      return { identity: client.identity };
    case 'mesh-no-cert':
      return { tls: 'anonymous' };
    default:
      return { tls: client.tls };
  }
}

function singleFaults(expect: SingleExpectation, answer: Answer): string[] {
  const faults: string[] = [];
  const compare = (what: string, found: unknown, wanted: unknown): void => {
    if (found !== wanted) faults.push(`${what} is ${JSON.stringify(found)}, not ${JSON.stringify(wanted)}`);
  };
  compare('verdict', answer.verdict, verdicts[expect.decision]);
  if (expect.wire === 'tcp') compare('tcp', answer.tcp, 'forward');
  if (expect.wire === 'closed') compare('tcp', answer.tcp, 'close');
  if (expect.wire === 'http' || expect.wire === 'grpc') compare('tcp', answer.tcp, null);
  if (expect.decision !== 'allow' && expect.wire === 'http') compare('httpStatus', answer.httpStatus, expect.status);
  if (expect.decision !== 'allow' && expect.wire === 'grpc')
    compare('grpcStatus', answer.grpcStatus, expect.grpc_status);
  for (const [prefix, reference] of [
    ['srv', answer.server],
    ['route', answer.route],
    ['authz', answer.authz],
  ] as const) {
    for (const part of ['group', 'kind', 'name'] as const) {
      const wanted = expect.labels[`${prefix}_${part}`];
      if (wanted === undefined) continue;
      const anyOf = prefix === 'authz' && part === 'name' ? (expect.authz_any_of ?? [wanted]) : [wanted];
      const found = reference?.[part];
      if (found === undefined || !anyOf.includes(found)) compare(`${prefix} ${part}`, found, anyOf.join(' or '));
    }
  }
  return faults;
}

function burstFaults(expect: BurstExpectation, answers: readonly Answer[]): string[] {
  const count = (verdict: string): number => answers.filter((answer) => answer.verdict === verdict).length;
  const found = { allow: count('permit'), rate_limited: count('rate-limited') };
  return found.allow === expect.allow && found.rate_limited === expect.rate_limited
    ? []
    : [`${JSON.stringify(found)}, not ${JSON.stringify(expect)}`];
}
