/**
 * What is counted of the candidate is what `explain` says under both policies: pairs of policies and requests at random, over real
 * connections from several addresses, with and without TLS.
 */
import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import type { ExplainJson } from '../../lib/policy/explain.ts';
import { ask } from '../support/candidate.ts';
import { appTls, connectAndEnd, exchangeOf, explained, otherProtocol, own } from '../support/explained-wire.ts';
import { identityEnvironment, replaceFile, temporaryFolder } from '../support/files.ts';
import { type Scrape, scrape } from '../support/metrics.ts';
import { freePort, freePorts } from '../support/ports.ts';
import { type RandomDocument, type RandomRequest, randomPolicy, randomRequest } from '../support/random-worlds.ts';
import { startSallyport } from '../support/sallyport.ts';
import { startSniffingApp } from '../support/sniffing-app.ts';
import { mapBounded, until } from '../support/until.ts';
import { runExchange } from '../support/wire-exchange.ts';
import { search, timeLimitMs } from './budget.ts';
import { inTurn, lastLook } from './looks.ts';

t.setTimeout(timeLimitMs);

const folder = temporaryFolder(t);
const files = {
  policy: join(folder, 'policy', 'policy.json'),
  candidate: join(folder, 'candidate', 'policy.json'),
} as const;
type Which = keyof typeof files;
const ports = await freePorts(5);
const adminPort = await freePort();
const app = await startSniffingApp(t, {
  tls: { cert: appTls.certificatePem, key: appTls.keyPem },
  servesInTls: true,
});

/** Lets this test read the counters, whatever the random documents say. */
const openAdmin: RandomDocument = {
  apiVersion: 'policy.linkerd.io/v1beta3',
  kind: 'Server',
  metadata: { name: 'proxy-admin', namespace: 'shop' },
  spec: { podSelector: {}, port: 'linkerd-admin', proxyProtocol: 'HTTP/1', accessPolicy: 'all-unauthenticated' },
};
function put(which: Which, documents: readonly RandomDocument[]): void {
  replaceFile(files[which], JSON.stringify({ apiVersion: 'v1', kind: 'List', items: [openAdmin, ...documents] }));
}
put('policy', []);
put('candidate', []);

const facts = {
  SALLYPORT_POD_NAMESPACE: 'shop',
  SALLYPORT_POD_LABELS: 'app=web',
  SALLYPORT_POD_PORTS: `named=${ports[0]}`,
  SALLYPORT_POD_IPS: '127.0.0.3',
  SALLYPORT_PROBES: ports
    .flatMap((port, i) => (i < 2 ? [`${port}/healthz`, `https:${port}/secure`, `tcp:${port}`] : [`${port}/healthz`]))
    .join(),
  SALLYPORT_PROBE_NETWORKS: '127.0.0.2/31',
  SALLYPORT_CLUSTER_NETWORKS: '127.0.0.2/32',
  SALLYPORT_DEFAULT_INBOUND_POLICY: 'cluster-authenticated',
};
const sallyport = await startSallyport(t, {
  env: {
    ...facts,
    SALLYPORT_POLICY: join(folder, 'policy'),
    SALLYPORT_CANDIDATE_POLICY: join(folder, 'candidate'),
    SALLYPORT_ADMIN_LISTEN: `127.0.0.1:${adminPort}`,
    SALLYPORT_INBOUND_PORTS: ports.map((port) => `${port}=127.0.0.1:${app.port}`).join(),
    ...identityEnvironment(join(folder, 'identity'), own),
    SALLYPORT_LOG: 'warn',
  },
});

/** Of all the pod's ports, but for the one by which this test reads the counters. */
const networkPolicy: fc.Arbitrary<readonly RandomDocument[]> = fc
  .tuple(fc.constantFrom('127.0.0.2/32', '127.0.0.2/31', '127.0.0.0/8'), fc.subarray([...ports], { minLength: 1 }))
  .map(([cidr, open]) => [
    {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: { name: 'isolated', namespace: 'shop' },
      spec: {
        podSelector: {},
        ingress: [
          { ports: [{ port: adminPort }] },
          { from: [{ ipBlock: { cidr } }], ports: open.map((port) => ({ port })) },
        ],
      },
    },
  ]);
const world: fc.Arbitrary<readonly RandomDocument[]> = fc
  .tuple(
    randomPolicy(ports),
    fc.oneof({ weight: 3, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: networkPolicy }),
  )
  .map((lists) => lists.flat());

/** What is known of a decision, and how it is counted; `loose` where that depends on what explain cannot be told. */
type Expected = { readonly kind: 'counted'; readonly labels: readonly string[] } | { readonly kind: 'loose' | 'none' };

const opaque = new Set(['opaque', 'TLS']);

function expectedOf(request: RandomRequest, inForce: ExplainJson, candidate: ExplainJson): Expected {
  const { reason, tcp, networkPolicies } = inForce;
  const port = String(request.port);
  if (networkPolicies.length > 0) {
    const other = candidate.networkPolicies.length > 0 ? 'network-refused' : 'let-in';
    return { kind: 'counted', labels: ['connection', 'network-refused', other, port] };
  }
  const isClosed = candidate.networkPolicies.length > 0;
  if (request.protocol === 'connect') {
    // A connection of an opaque port is decided before it is known to be silent.
    if (!reason.startsWith('a TCP probe')) return { kind: reason.startsWith('nothing came') ? 'none' : 'loose' };
    const other = candidate.reason.startsWith('a TCP probe')
      ? 'probed'
      : isClosed
        ? 'network-refused'
        : verdictOf(candidate);
    return { kind: 'counted', labels: ['connection', 'probed', other, port] };
  }
  // Refused before any policy.
  if (reason.startsWith('the request is malformed')) return { kind: 'none' };
  // How far other protocols are read, and whether they come to be decided, is no matter here.
  if (reason.endsWith(otherProtocol)) return { kind: 'loose' };
  const subject = tcp === null ? 'request' : 'connection';
  if (isClosed) return { kind: 'counted', labels: [subject, verdictOf(inForce), 'network-refused', port] };
  // What one policy reads as bytes, and the other would look into, is not told by their protocols alone.
  if (subject === 'connection' && mayBeUnseen(request)) return { kind: 'loose' };
  if (candidate.reason.startsWith('the request is malformed')) return { kind: 'loose' };
  return { kind: 'counted', labels: [subject, verdictOf(inForce), verdictOf(candidate), port] };
}

/** Bytes that somebody might look into further: those of a port that either policy carries unread, and TLS for others. */
function mayBeUnseen({ port, tls }: RandomRequest): boolean {
  return tls === 'passthrough' || unread.has(port);
}

/** Ports that either policy of this world may carry unread. */
let unread = new Set<number>();

function unreadPorts(...policies: readonly (readonly RandomDocument[])[]): Set<number> {
  const found = policies
    .flat()
    .filter(({ kind, spec }) => kind === 'Server' && opaque.has(String(spec.proxyProtocol)))
    .map(({ spec }) => (spec.port === 'named' ? ports[0] : spec.port));
  return new Set(found as number[]);
}

function verdictOf({ verdict, audit }: ExplainJson): string {
  return verdict === 'permit' && audit ? 'audit' : verdict;
}

const counter = 'sallyport_candidate_decisions_total';

/** By labels, how often each was counted on the ports of the world. */
function countsOf(shown: Scrape): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { labels, value } of shown.find(counter)) {
    const port = labels.get('srv_port') ?? '';
    if (!ports.some((each) => String(each) === port)) continue;
    const key = ['subject', 'enforced', 'candidate']
      .map((name) => labels.get(name))
      .concat(port)
      .join(' ');
    counts.set(key, (counts.get(key) ?? 0) + value);
  }
  return counts;
}

const generations: Record<Which, () => Promise<number>> = {
  policy: async () => (await scrape(adminPort)).sum('sallyport_policy_generation'),
  candidate: async () => JSON.parse((await ask(adminPort, '/candidate')).body).load.generation,
};
await until('the first candidate', async () => (await generations.candidate()) > 0);
const last: Record<Which, string> = { policy: '[]', candidate: '[]' };

async function inForce(which: Which, documents: readonly RandomDocument[]): Promise<void> {
  // What is in force already is not loaded again.
  if (JSON.stringify(documents) === last[which]) return;
  last[which] = JSON.stringify(documents);
  const before = await generations[which]();
  put(which, documents);
  await until(`the ${which} to be decided by`, async () => (await generations[which]()) > before);
}

const seen = { worlds: 0, requests: 0, exact: 0, differing: 0, loose: 0 };

async function look(requests: readonly RandomRequest[]): Promise<string[]> {
  const [enforced, candidate] = await Promise.all(
    (['policy', 'candidate'] as const).map((which) =>
      explained(
        { ...facts, SALLYPORT_ADMIN_LISTEN: `127.0.0.1:${adminPort}`, SALLYPORT_POLICY: join(folder, which) },
        requests,
      ),
    ),
  );
  if (enforced === undefined || candidate === undefined) throw new Error('nothing was explained');
  const before = countsOf(await scrape(adminPort));
  await mapBounded([...requests.entries()], 8, async ([i, request]) => {
    const answer = enforced[i] as ExplainJson;
    await (request.protocol === 'connect' ? connectAndEnd(request) : runExchange(exchangeOf(request, answer)));
  });
  const expected = new Map<string, number>();
  let loose = 0;
  for (const [i, request] of requests.entries()) {
    const each = expectedOf(request, enforced[i] as ExplainJson, candidate[i] as ExplainJson);
    if (each.kind === 'loose') loose++;
    if (each.kind !== 'counted') continue;
    const key = [...each.labels.slice(0, 3), each.labels[3]].join(' ');
    expected.set(key, (expected.get(key) ?? 0) + 1);
    seen.exact++;
    if (each.labels[1] !== each.labels[2]) seen.differing++;
  }
  seen.worlds++;
  seen.requests += requests.length;
  seen.loose += loose;
  return compare(before, expected, loose);
}

async function compare(
  before: ReadonlyMap<string, number>,
  expected: ReadonlyMap<string, number>,
  loose: number,
): Promise<string[]> {
  let faults: string[] = [];
  // A connection that was closed at once is told a moment later.
  const agrees = async (): Promise<boolean> => {
    const after = countsOf(await scrape(adminPort));
    const grown = new Map([...after].map(([key, count]) => [key, count - (before.get(key) ?? 0)]));
    const slow = [...grown].filter(([key, count]) => key.includes(' unasked ') && count > 0);
    faults = [...expected]
      .filter(([key, count]) => (grown.get(key) ?? 0) < count)
      .map(([key, count]) => `${key}: ${grown.get(key) ?? 0} instead of ${count}`);
    const more = [...grown].reduce((sum, [key, count]) => sum + Math.max(0, count - (expected.get(key) ?? 0)), 0);
    if (slow.length > 0) faults.push(`not asked: ${slow}`);
    if (more > loose)
      faults.push(`${more} were counted that nobody expected, and ${loose} may be: ${[...grown].join('; ')}`);
    return faults.length === 0;
  };
  await until('the counters', agrees, { timeoutMs: 2000 }).catch(() => {});
  return faults;
}

t.test('the candidate and explain', async (t) => {
  const property = fc.asyncProperty(
    fc.oneof(
      fc.tuple(world, world),
      // Often they have nearly all in common, and sometimes everything.
      fc.tuple(world, fc.nat({ max: 12 })).map(([all, without]) => [all, all.filter((_, i) => i !== without)] as const),
    ),
    fc.array(randomRequest(ports), { minLength: 1, maxLength: 100, size: 'max' }),
    ([policy, candidate], requests) =>
      inTurn(async () => {
        unread = unreadPorts(policy, candidate);
        await Promise.all([inForce('policy', policy), inForce('candidate', candidate)]);
        const faults = await look(requests);
        const under = () => `under ${JSON.stringify(policy)}\nand ${JSON.stringify(candidate)}`;
        if (faults.length > 0) throw new Error(`${faults.join('\n')}\n${under()}`);
      }),
  );
  const isEnough = (): boolean => seen.exact > 100 && seen.differing > 10;
  t.equal(await search(property, 1, isEnough), null);
  t.ok(isEnough(), JSON.stringify(seen));
  t.comment(JSON.stringify(seen));
  await lastLook();
  t.match(await sallyport.stop(), { code: 0 });
});
