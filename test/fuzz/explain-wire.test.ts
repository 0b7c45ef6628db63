/**
 * What `explain` says of a request is what happens to it, and what is recorded of it is decided again alike: policies and requests at random, over real connections from
 * several addresses, with and without TLS. Compared are the answer, what the app saw and whom it was told, and the
 * counters with their labels.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import fc from 'fast-check';
import t from 'tap';
import { parseCommandLine } from '../../bin/arguments.ts';
import { main as replayCommand } from '../../bin/replay.ts';
import type { ExplainJson } from '../../lib/policy/explain.ts';
import { appTls, connectAndEnd, exchangeOf, explained, otherProtocol, own } from '../support/explained-wire.ts';
import { identityEnvironment, replaceFile, temporaryFolder } from '../support/files.ts';
import { growth, type Scrape, scrape } from '../support/metrics.ts';
import { freePorts } from '../support/ports.ts';
import { type RandomDocument, type RandomRequest, randomPolicy, randomRequest } from '../support/random-worlds.ts';
import { startSallyport } from '../support/sallyport.ts';
import { type SeenRequest, startSniffingApp } from '../support/sniffing-app.ts';
import { mapBounded, until } from '../support/until.ts';
import { type ExchangeResult, runExchange } from '../support/wire-exchange.ts';
import { search, timeLimitMs } from './budget.ts';
import { inTurn, lastLook } from './looks.ts';

t.setTimeout(timeLimitMs);

const folder = temporaryFolder(t);
const policyFile = join(folder, 'policy', 'policy.json');
const ports = await freePorts(5);
const [named = 0] = ports;
const app = await startSniffingApp(t, {
  tls: { cert: appTls.certificatePem, key: appTls.keyPem },
  servesInTls: true,
});

/** Lets this test read the counters, whatever the random documents say. */
const openAdmin: readonly RandomDocument[] = [
  {
    apiVersion: 'policy.linkerd.io/v1beta3',
    kind: 'Server',
    metadata: { name: 'proxy-admin', namespace: 'shop' },
    spec: { podSelector: {}, port: 'linkerd-admin', proxyProtocol: 'HTTP/1', accessPolicy: 'all-unauthenticated' },
  },
];
function put(documents: readonly RandomDocument[]): void {
  replaceFile(policyFile, JSON.stringify({ apiVersion: 'v1', kind: 'List', items: [...openAdmin, ...documents] }));
}
put([]);

/** Every decision, as the proxy records it. */
const recordFile = join(folder, 'decisions.jsonl');

const facts = {
  SALLYPORT_POLICY: join(folder, 'policy'),
  SALLYPORT_POD_NAMESPACE: 'shop',
  SALLYPORT_POD_LABELS: 'app=web',
  SALLYPORT_POD_PORTS: `named=${named}`,
  SALLYPORT_POD_IPS: '127.0.0.3',
  // The last two ports have none of the kinds that Linkerd does not let through.
  SALLYPORT_PROBES: ports
    .flatMap((port, i) => {
      const more = [`https:${port}/secure`, `tcp:${port}`, `grpc:${port}`, `hook:${port}/stop`];
      return [`${port}/healthz`, ...(i < 3 ? more : [])];
    })
    .join(),
  SALLYPORT_PROBE_NETWORKS: '127.0.0.2/31',
  SALLYPORT_CLUSTER_NETWORKS: '127.0.0.2/32',
  SALLYPORT_DEFAULT_INBOUND_POLICY: 'cluster-authenticated',
};
const sallyport = await startSallyport(t, {
  env: {
    ...facts,
    SALLYPORT_INBOUND_PORTS: ports.map((port) => `${port}=127.0.0.1:${app.port}`).join(),
    ...identityEnvironment(join(folder, 'identity'), own),
    SALLYPORT_LOG: 'warn',
    SALLYPORT_DECISIONS: 'all',
    SALLYPORT_DECISIONS_FILE: recordFile,
  },
});

/** What a request counts as; null for what is refused before any policy. */
function counterOf(answer: ExplainJson): string | null {
  const { server, route, authz } = answer;
  if (answer.reason.startsWith('nothing came')) return null;
  if (answer.reason.startsWith('a TCP probe')) {
    const probe = { srv_kind: server.kind, srv_name: server.name, probe: 'tcp' };
    return JSON.stringify(['sallyport_probes_admitted_total', probe]);
  }
  const tcp = answer.tcp === null ? 'http' : 'tcp';
  const metric = {
    permit: `inbound_${tcp}_authz_allow_total`,
    redirect: 'inbound_http_authz_allow_total',
    deny: `inbound_${tcp}_authz_deny_total`,
    'no-route': 'inbound_http_route_not_found_total',
  } as const;
  if (answer.verdict === 'invalid' || answer.verdict === 'rate-limited') return null;
  // They are refused connections, or `unexpected` ones, by how far they were read.
  if (answer.reason.endsWith(otherProtocol)) return null;
  const labels = {
    srv_kind: server.kind,
    srv_name: server.name,
    ...(answer.tcp !== null || answer.verdict === 'no-route'
      ? {}
      : { route_kind: route?.kind ?? '', route_name: route?.name ?? '' }),
    ...(authz === null ? {} : { authz_kind: authz.kind, authz_name: authz.name }),
  };
  return JSON.stringify([metric[answer.verdict], labels]);
}

/** The app answers so what says that it is a call of gRPC. */
function isCall({ protocol, headers }: RandomRequest): boolean {
  return protocol === 'grpc' || (protocol === 'http2' && /^application\/grpc/.test(headers['content-type'] ?? ''));
}

/** Null where it is as explained. */
function fault(request: RandomRequest, answer: ExplainJson, result: ExchangeResult): string | null {
  const wanted = JSON.stringify(answer);
  // Inside TLS for probes an answer that is no HTTP for the client is told as the end.
  if (request.protocol === 'tcp' && answer.verdict === 'invalid') return result.kind === 'echo' ? wanted : null;
  const was = `was ${JSON.stringify(result)}, explained ${wanted}`;
  if (request.protocol === 'connect') return result.kind === 'closed' ? null : was;
  if (answer.tcp === 'close') {
    // Inside HTTP/2 a refusal of the connection cannot be told from a reset; over HTTP/1 some say 400 first.
    return result.kind === 'closed' || (result.kind === 'http' && result.status === 400) ? null : was;
  }
  if (answer.tcp === 'forward') return result.kind === 'echo' ? null : was;
  if (answer.verdict !== 'permit') {
    if (answer.httpStatus === null) return result.kind === 'closed' ? null : was;
    const told = isCall(request) && result.kind === 'http' ? Number(result.grpcStatus) : null;
    if (result.kind !== 'http' || result.status !== answer.httpStatus) return was;
    return isCall(request) && answer.httpStatus === 200 && told !== answer.grpcStatus ? was : null;
  }
  if (result.kind !== 'http' || result.status !== 200) return was;
  if (isCall(request)) return result.grpcStatus === '0' ? null : was;
  if (request.method === 'HEAD') return null;
  const { headers } = JSON.parse(result.body) as SeenRequest;
  const identity = typeof request.tls === 'string' ? undefined : request.tls.identity;
  if (headers['l5d-client-id'] !== identity || 'l5d_client_id' in headers) {
    return `the app was told ${JSON.stringify(headers)}, and the client was ${identity}`;
  }
  return null;
}

const decisionCounters = [
  'inbound_http_authz_allow_total',
  'inbound_http_authz_deny_total',
  'inbound_http_route_not_found_total',
  'inbound_tcp_authz_allow_total',
  'inbound_tcp_authz_deny_total',
] as const;

/** Lines of the record that have been looked at. */
let replayed = 0;

/** Decides again what the proxy has recorded since the last look, by the policy that it has decided by: nothing differs. */
async function replayFaults(recorded: number): Promise<string[]> {
  const lines = (): string[] => readFileSync(recordFile, 'utf8').split('\n');
  await until('the record to be written', () => lines().length > recorded, { lastSeen: () => String(lines().length) });
  // Scrapes are decided while policies change, too.
  const scraped = `"port":${sallyport.adminPort},`;
  const fresh = lines().slice(replayed, recorded);
  const text = fresh.filter((line) => !line.includes(scraped)).join('\n');
  replayed = recorded;
  const stdin = new PassThrough();
  const stdout = new PassThrough();
  stdin.end(text);
  const io = { stdin, stdout, stderr: new PassThrough().resume(), env: facts };
  const reading = stdout.setEncoding('utf8').toArray();
  await replayCommand(
    parseCommandLine('replay', ['-', '--json']),
    io as unknown as Parameters<typeof replayCommand>[1],
  );
  stdout.end();
  const said = JSON.parse((await reading).join(''));
  seen.replayed += said.same;
  const isSound = said.differences.length === 0 && said.unknown.length === 0 && said.bad === 0 && said.lost === 0;
  return isSound ? [] : [`replayed otherwise: ${JSON.stringify(said)}`];
}

let before: Scrape = await scrape(sallyport.adminPort);
const seen = { policies: 0, requests: 0, permits: 0, replayed: 0 };

let last = '[]';

async function inForce(documents: readonly RandomDocument[]): Promise<void> {
  // A policy that is in force already is not loaded again.
  if (JSON.stringify(documents) === last) return;
  last = JSON.stringify(documents);
  const generation = before.sum('sallyport_policy_generation');
  put(documents);
  await until('the policy to be in force', async () => {
    before = await scrape(sallyport.adminPort);
    if (before.sum('sallyport_policy_refused') === 1) throw new Error('the random policy is refused');
    return before.sum('sallyport_policy_generation') > generation;
  });
}

async function look(requests: readonly RandomRequest[]): Promise<string[]> {
  const answers = await explained(facts, requests);
  const served = app.counts.requests;
  const faults = await mapBounded([...requests.entries()], 8, async ([i, request]) => {
    const answer = answers[i] as ExplainJson;
    const asked = request.protocol === 'connect' ? connectAndEnd(request) : runExchange(exchangeOf(request, answer));
    const said = fault(request, answer, await asked);
    return said === null ? [] : [`${JSON.stringify(request)}: ${said}`];
  });
  const permitted = answers.filter(({ verdict, tcp }) => verdict === 'permit' && tcp === null).length;
  const reached = app.counts.requests - served;
  // Opaque bytes that happen to be a request count at the app, too.
  const opaque = answers.filter(({ tcp }) => tcp === 'forward').length;
  if (reached < permitted || reached > permitted + opaque)
    faults.push([`${permitted} permits, the app saw ${reached}`]);

  const after = await scrape(sallyport.adminPort);
  const expected = new Map<string, number>();
  for (const answer of answers) {
    const counter = counterOf(answer);
    if (counter !== null) expected.set(counter, (expected.get(counter) ?? 0) + 1);
  }
  const undeclared = answers.filter(({ reason }) => reason.endsWith(otherProtocol)).length;
  const onPorts = ports.map(String);
  for (const [key, count] of expected) {
    const [metric, labels] = JSON.parse(key) as [string, Record<string, string>];
    const grown = onPorts.reduce((sum, port) => sum + growth(before, after, metric, { ...labels, srv_port: port }), 0);
    if (grown < count || grown > count + undeclared) faults.push([`${key} grew by ${grown} instead of ${count}`]);
  }
  const all = decisionCounters.reduce(
    (sum, metric) => sum + onPorts.reduce((each, port) => each + growth(before, after, metric, { srv_port: port }), 0),
    0,
  );
  const decisions = [...expected].filter(([key]) => !key.includes('sallyport_probes_admitted_total'));
  const decided = decisions.reduce((sum, [, count]) => sum + count, 0);
  if (all < decided || all > decided + undeclared) faults.push([`${all} decisions were counted, ${decided} explained`]);
  faults.push(await replayFaults(after.sum('sallyport_decision_records_total')));
  before = after;
  seen.policies += 1;
  seen.requests += requests.length;
  seen.permits += permitted;
  return faults.flat();
}

/** One rule for each field that asks for any value of it, on a port that lets everybody in. */
const fieldPolicy: readonly RandomDocument[] = [
  {
    apiVersion: 'policy.linkerd.io/v1beta3',
    kind: 'Server',
    metadata: { name: 'a', namespace: 'shop' },
    spec: { podSelector: {}, port: ports[4] ?? 0, accessPolicy: 'all-unauthenticated' },
  },
  {
    apiVersion: 'policy.linkerd.io/v1beta3',
    kind: 'HTTPRoute',
    metadata: { name: 'r0', namespace: 'shop' },
    spec: {
      parentRefs: [{ group: 'policy.linkerd.io', kind: 'Server', name: 'a' }],
      rules: [
        ...['te', 'expect', 'keep-alive', 'proxy-connection', 'connection', 'upgrade', 'transfer-encoding'],
        ...['l5d-client-id', 'l5d-orig-proto', 'x-role', 'content-type', 'content-length', 'trailer', 'http2-settings'],
      ].map((name) => ({ matches: [{ headers: [{ name, type: 'RegularExpression', value: '.+' }] }] })),
    },
  },
];
const anyVersion: readonly Readonly<Record<string, string>>[] = [
  {},
  { 'x-role': 'admin' },
  { te: 'trailers' },
  { 'l5d-client-id': 'root' },
  { 'l5d-orig-proto': 'HTTP/1.1' },
  { trailer: 'x-role' },
  { 'content-type': 'text/plain' },
  { 'content-type': 'application/grpc' },
  { 'content-type': 'application/grpc-web' },
  { host: 'web.shop' },
  { host: 'WEB.shop', 'x-role': 'admin' },
];
const inHttp1: readonly Readonly<Record<string, string>>[] = [
  { expect: 'other' },
  { expect: '100-continue' },
  { te: 'gzip' },
  { 'keep-alive': 'timeout=5' },
  { 'proxy-connection': 'keep-alive' },
  { 'http2-settings': 'AAMAAABkAAQAoAAAAAIAAAAA' },
  { connection: 'keep-alive' },
  { connection: 'x-role', 'x-role': 'admin' },
  { connection: 'keep-alive, X-Role', 'x-role': 'admin' },
  { connection: 'te', te: 'trailers' },
  { connection: 'content-type, content-length', 'content-type': 'text/plain' },
  { connection: 'upgrade', upgrade: 'h2c' },
  { 'transfer-encoding': 'gzip' },
  { 'transfer-encoding': 'gzip, chunked' },
  { 'content-length': '+0' },
  { 'content-length': 'none' },
  { 'content-length': '0' },
  { 'x-role': 'ad\u0001min' },
  { 'x role': 'admin' },
];

t.test('fields that are not what policy decides on', async (t) => {
  const asked = { port: ports[4] ?? 0, client: '127.0.0.2', tls: 'none', method: 'GET', path: '/a', host: 'web.shop' };
  const requests = [
    ...anyVersion.flatMap((headers) => [
      { ...asked, protocol: 'http1', headers },
      { ...asked, protocol: 'http2', headers },
    ]),
    ...inHttp1.map((headers) => ({ ...asked, protocol: 'http1', headers })),
  ] as RandomRequest[];
  await inTurn(async () => {
    await inForce(fieldPolicy);
    const outOf = [...requests.entries()].filter(
      ([, { protocol, headers }]) => protocol !== 'http1' || !('host' in headers),
    );
    t.same(await look(outOf.map(([, request]) => request)), []);
  });
});

t.test('explain and the wire', async (t) => {
  const property = fc.asyncProperty(
    randomPolicy(ports),
    fc.array(randomRequest(ports), { minLength: 1, maxLength: 100, size: 'max' }),
    (documents, requests) =>
      inTurn(async () => {
        await inForce(documents);
        const faults = await look(requests);
        if (faults.length > 0) throw new Error(`${faults.join('\n')}\nunder ${JSON.stringify(documents)}`);
      }),
  );
  const isEnough = (): boolean => seen.requests > 100 && seen.permits > 10 && seen.replayed > 100;
  t.equal(await search(property, 1, isEnough), null);
  t.ok(isEnough(), JSON.stringify(seen));
  await lastLook();
  t.match(await sallyport.stop(), { code: 0 });
});
