/**
 * A candidate changes nothing: not the start, whatever its files are; not a byte of what clients and the app get; no token of a
 * rate limit; no connection. Two proxies are asked the same, one with a candidate.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { ask } from '../../support/candidate.ts';
import { documentsOf, type GuardedPort } from '../../support/candidate-documents.ts';
import { replaceFile, temporaryFolder } from '../../support/files.ts';
import { scrape } from '../../support/metrics.ts';
import { policyEnvironment } from '../../support/open-policy.ts';
import { freePort } from '../../support/ports.ts';
import { startRawApp } from '../../support/raw-app.ts';
import { latin1, RawClient } from '../../support/raw-http.ts';
import { type Sallyport, startSallyport } from '../../support/sallyport.ts';
import { until } from '../../support/until.ts';

t.setTimeout(900_000);

const open: GuardedPort = { from: ['127.0.0.0/8'] };

interface Proxy {
  readonly sallyport: Sallyport;
  readonly port: number;
}

async function proxy(
  t: Test,
  appPort: number,
  policy: (port: number) => string,
  candidate: ((port: number) => string) | null,
): Promise<Proxy> {
  const port = await freePort();
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(temporaryFolder(t), policy(port)),
      SALLYPORT_INBOUND_PORTS: `127.0.0.1:${port}=127.0.0.1:${appPort}`,
      ...(candidate === null ? {} : { SALLYPORT_CANDIDATE_POLICY: candidate(port) }),
    },
  });
  return { sallyport, port };
}

function written(t: Test, text: string): string {
  const folder = temporaryFolder(t);
  replaceFile(join(folder, 'candidate', 'policy.yaml'), text);
  return join(folder, 'candidate');
}

const request = latin1('GET /a HTTP/1.1\r\nHost: web\r\n\r\n');

async function statusOf(port: number): Promise<number | undefined> {
  const client = await RawClient.open({ port });
  client.send(request);
  const [answer] = await client.responses(['GET']);
  client.socket.destroy();
  return answer?.status;
}

interface Bad {
  readonly title: string;
  readonly path: (t: Test) => string;
  /** Of the line `candidate-not-loaded`, its reason. */
  readonly reason: RegExp;
}

const bad: readonly Bad[] = [
  { title: 'no such folder', path: (t) => join(temporaryFolder(t), 'none'), reason: /none/ },
  { title: 'no YAML', path: (t) => written(t, 'kind: [\n'), reason: /policy\.yaml:\d+:\d+: / },
  { title: 'bytes', path: (t) => written(t, '\0\x01\x02\0'), reason: /policy\.yaml/ },
  {
    title: 'a pipe that nobody writes to',
    path: (t) => {
      const path = join(temporaryFolder(t), 'policy.yaml');
      execFileSync('mkfifo', [path]);
      return path;
    },
    reason: /policy\.yaml/,
  },
];

t.test('candidates that do not load', async (t) => {
  const app = await startRawApp(t);
  for (const { title, path, reason } of bad) {
    const { sallyport, port } = await proxy(
      t,
      app.port,
      (port) => documentsOf(port, open),
      () => path(t),
    );
    t.equal(await statusOf(port), 200, `${title}: traffic`);
    t.equal(await sallyport.health('/ready'), 200, `${title}: ready`);
    const line = await sallyport.waitForLog(title, ({ code }) => code === 'candidate-not-loaded', 20_000);
    t.match(line.reason, reason, title);
    t.match(line.msg, /none is decided beside the policy in force$/);
    const shown = await scrape(sallyport.adminPort);
    t.equal(shown.sum('sallyport_candidate_loaded'), 0, title);
    t.equal(shown.sum('sallyport_candidate_stale'), 1, title);
    t.notOk(shown.has('sallyport_candidate_agreement_seconds'), `${title}: nothing agrees`);
    t.equal(shown.sum('sallyport_policy_stale'), 0, `${title}: the policy is not concerned`);
    t.match(JSON.parse((await ask(sallyport.adminPort, '/candidate')).body), { state: 'none', since: null });
    t.match(await sallyport.stop(), { code: 0 });
  }
});

t.test('without one there is no page and no metric', async (t) => {
  const app = await startRawApp(t);
  const { sallyport } = await proxy(t, app.port, (port) => documentsOf(port, open), null);
  t.equal((await ask(sallyport.adminPort, '/candidate')).status, 404);
  t.notMatch((await scrape(sallyport.adminPort)).text, /candidate/);
  await sallyport.stop();
});

/** Requests of every lane and outcome, each on a connection of its own, with a port that both proxies do not share left out. */
const asked: readonly { readonly title: string; readonly bytes: string }[] = [
  { title: 'plain', bytes: 'GET /a HTTP/1.1\r\nHost: web\r\n\r\n' },
  { title: 'twice', bytes: 'GET /a HTTP/1.1\r\nHost: web\r\n\r\nGET /a HTTP/1.1\r\nHost: web\r\n\r\n' },
  { title: 'no route', bytes: 'GET /elsewhere HTTP/1.1\r\nHost: web\r\n\r\n' },
  { title: 'content', bytes: 'POST /a HTTP/1.1\r\nHost: web\r\nContent-Length: 5\r\n\r\nhello' },
  {
    title: 'chunks',
    bytes: 'POST /a HTTP/1.1\r\nHost: web\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
  },
  { title: 'the library lane', bytes: 'GET /a HTTP/1.1\r\nHost: web\r\nConnection: x\r\nConnection: y\r\n\r\n' },
  { title: 'HTTP/1.0', bytes: 'GET /a HTTP/1.0\r\nHost: web\r\n\r\n' },
  { title: 'malformed', bytes: 'GET /a HTTP/1.1\r\nHost: web\r\nContent-Length: x\r\n\r\n' },
  { title: 'readings that differ', bytes: 'GET /a/%2e%2e/b HTTP/1.1\r\nHost: web\r\n\r\n' },
  { title: 'an identity of their own', bytes: 'GET /a HTTP/1.1\r\nHost: web\r\nl5d-client-id: root\r\n\r\n' },
];

t.test('every byte is the same', async (t) => {
  const app = await startRawApp(t);
  const header = '{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-set, value: here}]}}';
  const redirect = '{type: RequestRedirect, requestRedirect: {hostname: other.test, statusCode: 301}}';
  const policy = (port: number): string => documentsOf(port, { ...open, path: '/a', filters: header });
  const candidates: readonly (readonly [string, GuardedPort])[] = [
    ['refuses all', { access: 'deny' }],
    ['redirects', { ...open, path: '/', filters: redirect }],
    ['limits', { ...open, limit: 1 }],
    ['carries bytes', { ...open, protocol: 'opaque' }],
    ['is identical', { ...open, path: '/a', filters: header }],
  ];
  const alone = await proxy(t, app.port, policy, null);
  const taken = async ({ port }: Proxy, bytes: string): Promise<string> => {
    const before = app.requests.length;
    const client = await RawClient.open({ port });
    client.send(latin1(bytes));
    client.socket.end();
    await client.ends(10_000);
    const seen = app.requests.slice(before).map(({ body, ...head }) => [head, body.toString('latin1')]);
    // Whether the connection is said to stay depends on when the end of the client's side is seen.
    const passing = /(?:date|connection|keep-alive): [^\r]*\r\n/gi;
    return JSON.stringify([client.received.toString('latin1').replace(passing, ''), seen]);
  };
  for (const [title, guarded] of candidates) {
    const beside = await proxy(t, app.port, policy, (port) => written(t, documentsOf(port, guarded)));
    await beside.sallyport.waitForLog('the candidate', ({ msg }) => msg === 'Candidate policy loaded', 20_000);
    for (const { title: what, bytes } of asked) {
      t.equal(await taken(beside, bytes), await taken(alone, bytes), `${what}, and a candidate that ${title}`);
    }
    const shown = await scrape(beside.sallyport.adminPort);
    t.ok(shown.sum('sallyport_candidate_decisions_total', { srv_port: String(beside.port) }) > 5, title);
    t.equal(shown.sum('sallyport_internal_errors_total'), 0);
    t.match(await beside.sallyport.stop(), { code: 0 });
  }
});

for (const workers of ['1', '2']) {
  t.test(`rate limits have tokens of their own, ${workers} workers`, async (t) => {
    const app = await startRawApp(t);
    const port = await freePort();
    const limited: GuardedPort = { ...open, limit: 20 };
    const sallyport = await startSallyport(t, {
      env: {
        ...policyEnvironment(temporaryFolder(t), documentsOf(port, limited)),
        SALLYPORT_CANDIDATE_POLICY: written(t, documentsOf(port, limited)),
        SALLYPORT_INBOUND_PORTS: `127.0.0.1:${port}=127.0.0.1:${app.port}`,
        SALLYPORT_WORKERS: workers,
      },
    });
    await sallyport.waitForLog('the candidate', ({ msg }) => msg === 'Candidate policy loaded', 20_000);
    const client = await RawClient.open({ port });
    client.send(Buffer.concat(Array.from({ length: 200 }, () => request)));
    const answers = await client.responses(Array.from({ length: 200 }, () => 'GET'));
    const permitted = answers.filter(({ status }) => status === 200).length;
    t.ok(permitted >= 20, `${permitted} of 200: the candidate has taken no token`);
    const count = async (labels: Record<string, string>): Promise<number> =>
      (await scrape(sallyport.adminPort)).sum('sallyport_candidate_decisions_total', {
        srv_port: `${port}`,
        ...labels,
      });
    await until('all to be compared', async () => (await count({})) === 200);
    t.equal(await count({ enforced: 'permit' }), permitted);
    t.ok((await count({ candidate: 'permit' })) >= 20, 'and has its own');
    t.ok((await count({ candidate: 'rate-limited' })) > 0, 'which are spent as well');
    client.socket.destroy();
    t.match(await sallyport.stop(), { code: 0 });
  });
}

t.test('ten thousand documents: traffic goes on while they are loaded', async (t) => {
  const app = await startRawApp(t);
  const folder = temporaryFolder(t);
  const path = join(folder, 'candidate');
  mkdirSync(path);
  const { sallyport, port } = await proxy(
    t,
    app.port,
    (port) => documentsOf(port, open),
    () => path,
  );
  const routes = Array.from(
    { length: 10_000 },
    (_, i) => `apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: r${i}, namespace: shop}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: s${port}}]
  rules: [{matches: [{path: ${i % 10 === 0 ? `{type: RegularExpression, value: "/.*(x|y)${i}.*z"}` : `{type: Exact, value: /${i}}`}}]}]
`,
  ).join('---\n');
  const client = await RawClient.open({ port });
  let served = 0;
  const one = async (): Promise<number> => {
    const began = performance.now();
    client.send(request);
    await client.responses(Array.from({ length: ++served }, () => 'GET'));
    return performance.now() - began;
  };
  await one();
  replaceFile(join(path, 'policy.yaml'), documentsOf(port, open) + routes);
  let longest = 0;
  let loaded = false;
  while (!loaded) {
    longest = Math.max(longest, await one());
    loaded = sallyport.logs().some(({ msg, documents }) => msg === 'Candidate policy loaded' && documents !== 0);
  }
  t.comment(`${served} requests while it was loaded, the longest took ${longest.toFixed(1)} ms`);
  t.ok(served > 10, 'requests are served meanwhile');
  // A thousand expressions, each of which must look at the path: what takes too long is left out, and the request served.
  for (let i = 0; i < 50; i++) {
    client.send(latin1(`GET /${'x'.repeat(4000)}${i} HTTP/1.1\r\nHost: web\r\n\r\n`));
    served++;
  }
  const answers = await client.responses(Array.from({ length: served }, () => 'GET'));
  t.same(
    [...new Set(answers.map(({ status }) => status))],
    [200],
    'all are served, whatever the candidate makes of them',
  );
  const shown = await scrape(sallyport.adminPort);
  const labels = { srv_port: String(port) };
  const compared = shown.sum('sallyport_candidate_decisions_total', labels);
  const unasked = shown.sum('sallyport_candidate_decisions_total', { ...labels, candidate: 'unasked' });
  t.comment(`${compared} were compared or left out, ${unasked} of them left out`);
  t.equal(shown.sum('sallyport_candidate_decisions_total', { ...labels, candidate: 'error' }), 0);
  client.socket.destroy();
  t.match(await sallyport.stop(), { code: 0 });
});
