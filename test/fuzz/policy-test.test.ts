/**
 * `sallyport test` and `explain` agree: policies and requests at random, asked of `explain` by the environment and its file of
 * requests, and of `test` by a test file. Every case that expects what `explain` has answered passes; with any one field of
 * the expectation turned it fails.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { parseCommandLine } from '../../bin/arguments.ts';
import { main as explainCommand } from '../../bin/explain.ts';
import { main as testCommand } from '../../bin/policy-test.ts';
import type { ExplainJson } from '../../lib/policy/explain.ts';
import { refText } from '../../lib/resource-ref.ts';
import { commandHere } from '../support/command-here.ts';
import { temporaryFolder } from '../support/files.ts';
import { type RandomRequest, randomPolicy, randomRequest } from '../support/random-worlds.ts';
import { search, timeLimitMs } from './budget.ts';

t.setTimeout(timeLimitMs);

const ports = [8001, 8002, 8003];
const folder = temporaryFolder(t);
const at = (name: string): string => join(folder, name);
mkdirSync(at('policy'));

/** The same pod, as the environment has it and as a test file does. */
const environment = {
  SALLYPORT_POD_NAMESPACE: 'shop',
  SALLYPORT_POD_LABELS: 'app=web',
  SALLYPORT_POD_PORTS: 'named=8001',
  SALLYPORT_POD_IPS: '127.0.0.3',
  SALLYPORT_PROBES: '8001/healthz,https:8001/secure,tcp:8002,grpc:8002,hook:8003/stop',
  SALLYPORT_PROBE_NETWORKS: '127.0.0.2/31',
  SALLYPORT_CLUSTER_NETWORKS: '127.0.0.2/32',
  SALLYPORT_DEFAULT_INBOUND_POLICY: 'cluster-authenticated',
  // As in tests, where the machine has no part.
  SALLYPORT_NODE_IPS: '192.0.2.1',
};
const pod = {
  namespace: 'shop',
  labels: { app: 'web' },
  ports: { named: 8001 },
  ips: '127.0.0.3',
  probes: ['8001/healthz', 'https:8001/secure', 'tcp:8002', 'grpc:8002', 'hook:8003/stop'],
  probeNetworks: ['127.0.0.2/31'],
  clusterNetworks: '127.0.0.2/32',
  defaultPolicy: 'cluster-authenticated',
  nodeIps: ['192.0.2.1'],
};

function question({ tls, headers, ...rest }: RandomRequest): object {
  const sent = Object.keys(headers).length === 0 ? {} : { headers };
  return { ...rest, ...sent, ...(typeof tls === 'string' ? { tls } : tls) };
}

const named = (ref: Parameters<typeof refText>[0] | null): string => (ref === null ? 'none' : refText(ref));

/** All that a test can say of an answer. */
function expectationOf(answer: ExplainJson): Record<string, unknown> {
  const { verdict, httpStatus, grpcStatus, tcp, audit, server, route, rule, authz, reason, candidates } = answer;
  const failing = Object.fromEntries(
    candidates.flatMap((one) => (one.failed === null ? [] : [[refText(one.authz), one.failed]])),
  );
  return {
    verdict,
    // 200, which refusals over gRPC have, is none that is asked for.
    ...(httpStatus === null || httpStatus === 200 ? {} : { status: httpStatus }),
    ...(grpcStatus === null ? {} : { grpcStatus }),
    ...(tcp === null ? {} : { tcp }),
    audit,
    server: named(server),
    route: named(route),
    ...(rule === null ? {} : { rule }),
    ...(verdict === 'deny' ? {} : { authorization: named(authz) }),
    ...(Object.keys(failing).length === 0 ? {} : { failing }),
    reason: reason.slice(0, 40),
  };
}

/** The same with one field turned: another value that the field may have. */
function turned(expected: Record<string, unknown>, at: number): Record<string, unknown> {
  const fields = Object.keys(expected).filter((name) => expected.verdict === 'permit' || name !== 'authorization');
  const name = fields[at % fields.length] as string;
  const value = expected[name];
  const other: Readonly<Record<string, unknown>> = {
    verdict: value === 'no-route' ? 'redirect' : 'no-route',
    status: value === 418 ? 419 : 418,
    grpcStatus: value === 3 ? 4 : 3,
    tcp: value === 'close' ? 'forward' : 'close',
    audit: value !== true,
    server: 'another',
    route: value === 'none' ? 'another' : 'none',
    rule: Number(value) + 1,
    authorization: 'another',
    failing: { another: 'identity' },
    reason: 'what explain never says',
  };
  return { ...expected, [name]: other[name] };
}

function testFile(requests: readonly RandomRequest[], expected: readonly object[]): string {
  const cases = requests.map((request, i) => ({ ...question(request), expect: expected[i] }));
  return JSON.stringify({ pod, policy: 'policy', cases });
}

let asked = 0;
const verdicts = new Map<string, number>();

async function look(
  documents: readonly object[],
  requests: readonly RandomRequest[],
  turn: number,
): Promise<string | null> {
  writeFileSync(at('policy/all.json'), JSON.stringify({ apiVersion: 'v1', kind: 'List', items: documents }));
  writeFileSync(at('requests.jsonl'), requests.map((request) => `${JSON.stringify(question(request))}\n`).join(''));
  const line = parseCommandLine('explain', ['--policy', at('policy'), '--requests', at('requests.jsonl')]);
  const explained = await commandHere((io) => explainCommand(line, io), environment);
  const answers: ExplainJson[] = explained.stdout
    .trimEnd()
    .split('\n')
    .map((text) => JSON.parse(text));
  if (answers.length !== requests.length) return `explain answered ${answers.length}: ${explained.stderr}`;
  for (const { verdict } of answers) verdicts.set(verdict, (verdicts.get(verdict) ?? 0) + 1);
  const right = answers.map(expectationOf);
  for (const [expectations, failed] of [
    [right, 0],
    [right.map((each, i) => turned(each, turn + i)), requests.length],
  ] as const) {
    writeFileSync(at('test.json'), testFile(requests, expectations));
    const tested = parseCommandLine('test', [at('test.json'), '--json']);
    const { code, stdout, stderr } = await commandHere((io) => testCommand(tested, io));
    // A policy that a running proxy would not take is not tested either.
    const isRefused = / error: /.test(explained.stderr);
    if (isRefused || code === 64) return isRefused && code === 64 ? null : `refused: ${stderr}`;
    const said = JSON.parse(stdout);
    const wrong = said.cases.filter(({ ok }: { ok: boolean }) => ok !== (failed === 0));
    if (wrong.length > 0 || said.failed !== failed)
      return `${failed === 0 ? 'failed' : 'passed'}: ${JSON.stringify(wrong[0])}`;
    for (const [i, { answer }] of said.cases.entries()) {
      if (JSON.stringify(answer) !== JSON.stringify({ ...answers[i], notes: undefined }))
        return `case ${i} is answered otherwise`;
    }
    asked += requests.length;
  }
  return null;
}

t.test('test says what explain says, and nothing else passes', async (t) => {
  const requests = fc.array(randomRequest(ports), { minLength: 20, maxLength: 20 });
  const property = fc.asyncProperty(
    randomPolicy(ports),
    requests,
    fc.nat({ max: 20 }),
    async (documents, some, turn) => {
      const found = await look(documents, some, turn);
      if (found !== null) throw new Error(found);
    },
  );
  t.equal(await search(property, 1, () => asked > 2_000), null);
  t.ok(asked > 2_000, `${asked} cases`);
  for (const verdict of ['permit', 'deny', 'no-route', 'invalid'])
    t.ok((verdicts.get(verdict) ?? 0) > 0, `${verdicts.get(verdict)} times ${verdict}`);
});
