/** What two workers do together as one would: rate limits, metrics, the log, limits. */
import { request } from 'node:http';
import t from 'tap';
import { type Scrape, scrape } from '../support/metrics.ts';
import { latin1, RawClient } from '../support/raw-http.ts';
import type { LogLine } from '../support/sallyport.ts';
import { served, startTwoWorkers, type TwoWorkers } from '../support/two-workers.ts';
import { until } from '../support/until.ts';
import { order } from '../support/worker-faults.ts';

/** Connections, of which both workers have some, and on each of which one request has been answered. */
async function spread({ sallyport, port }: TwoWorkers, count = 24, localAddress = '127.0.0.1'): Promise<RawClient[]> {
  const clients: RawClient[] = [];
  const connections = async () => (await scrape(sallyport.adminPort)).find('sallyport_worker_connections');
  const isSpread = async (): Promise<boolean> => {
    const more = Array.from({ length: count - clients.length }, () => RawClient.open({ port, localAddress }));
    clients.push(...(await Promise.all(more)));
    if ((await connections()).every(({ value }) => value >= 3)) return true;
    for (const client of clients.splice(count / 2)) client.destroy();
    // The scrape's own is one of them.
    const all = async (): Promise<number> => (await connections()).reduce((sum, { value }) => sum + value, 0);
    await until('those to be gone', async () => (await all()) === clients.length + 1);
    return false;
  };
  await until('connections of both workers', isSpread);
  // One after the other: a test may allow no more.
  for (const client of clients) {
    client.send(latin1('GET /open HTTP/1.1\r\nHost: web\r\n\r\n'));
    const [response] = await client.responses(['GET']);
    if (response?.status !== 200) throw new Error(`no 200 but ${response?.status}`);
  }
  return clients;
}

/** Asks for so many paths on each connection, on which `before` have been answered. */
async function statuses(clients: readonly RawClient[], before: number, each: number, path: (i: string) => string) {
  const all = await Promise.all(
    clients.map(async (client, at) => {
      const requests = Array.from(
        { length: each },
        (_, i) => `GET ${path(`${at}-${i}`)} HTTP/1.1\r\nHost: web\r\n\r\n`,
      );
      client.send(latin1(requests.join('')));
      return client.responses(Array(before + each).fill('GET'));
    }),
  );
  return new Set(all.flatMap((responses) => responses.slice(before).map(({ status }) => status)));
}

/** No other path leads anywhere. */
const openRoute = (): string => `---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: open, namespace: shop}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]
  rules: [{matches: [{path: {value: /open}}]}]
`;

const limited = (): string => `---
apiVersion: policy.linkerd.io/v1alpha1
kind: HTTPLocalRateLimitPolicy
metadata: {name: ten, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: Server, name: web}
  total: {requestsPerSecond: 10}
`;

t.test('a rate limit admits what it would with one worker', async (t) => {
  const two = await startTwoWorkers(t, { documents: limited });
  const clients: RawClient[] = [];
  // Unanswered so far: each that is answered has spent a token.
  await until('connections of both workers', async () => {
    clients.push(await RawClient.open({ port: two.port }));
    const each = (await scrape(two.sallyport.adminPort)).find('sallyport_worker_connections');
    return clients.length >= 16 && each.every(({ value }) => value >= 3);
  });
  const startedAt = performance.now();
  const answers = await Promise.all(
    clients.map(async (client) => {
      client.send(latin1('GET / HTTP/1.1\r\nHost: web\r\n\r\n'.repeat(20)));
      return (await client.responses(Array(20).fill('GET'))).map(({ status }) => status);
    }),
  );
  const seconds = (performance.now() - startedAt) / 1000;
  const admitted = answers.flat().filter((status) => status === 200).length;
  t.ok(admitted >= 10, `${admitted} in ${seconds} s`);
  t.ok(admitted <= 10 + Math.ceil(10 * seconds), `${admitted} in ${seconds} s`);
  t.equal(answers.flat().filter((status) => status === 429).length, clients.length * 20 - admitted);
  const shown = await scrape(two.sallyport.adminPort);
  t.equal(shown.sum('inbound_http_local_ratelimit_total'), clients.length * 20 - admitted);
  t.match(await two.sallyport.stop(), { code: 0 });
});

t.test('a scrape shows what both have counted, and the log has each line once', async (t) => {
  // Each refusal has its line: there are more of them than a minute has lines for by default.
  const env = { SALLYPORT_ACCESS_LOG: 'apache', SALLYPORT_LOG_LINES: '100000' };
  const two = await startTwoWorkers(t, { documents: openRoute, env });
  const clients = await spread(two);
  const before = await scrape(two.sallyport.adminPort);
  const open = clients.length;
  t.same(await statuses(clients, 1, 10, (i) => `/closed/${i}`), new Set([404]));
  t.same(await statuses(clients, 11, 10, (i) => `/open/${i}`), new Set([200]));
  const after = await scrape(two.sallyport.adminPort);
  // Scrapes are requests, too, at a port of their own.
  const of = { target_port: String(two.port) };
  const grown = (name: string): number => after.sum(name, of) - before.sum(name, of);
  t.equal(grown('inbound_http_route_not_found_total'), open * 10);
  t.equal(grown('request_total'), open * 10);
  t.equal(grown('response_total'), open * 10);
  t.equal(grown('response_latency_ms_count'), open * 10);
  t.equal(after.sum('tcp_open_connections', { peer: 'src', ...of }), open);
  t.equal(after.sum('sallyport_workers'), 2);
  noSeriesTwice(after);
  const ages = after.find('sallyport_worker_figures_age_seconds');
  t.ok(ages.length === 1 && ages.every(({ value }) => value < 5));

  t.match(await two.sallyport.stop(), { code: 0 });
  const denied = two.sallyport.logs().filter(({ msg }) => msg === 'Request not routed');
  const paths = denied.map(({ path }) => String(path)).sort();
  const wanted = clients.flatMap((_, client) => Array.from({ length: 10 }, (_, i) => `/closed/${client}-${i}`)).sort();
  t.same(paths, wanted, 'each once, and none lost at the stop');
  const access = two.sallyport.child.stderr().split('\n');
  const ofOpen = access.filter((line) => line.includes(' /open/')).map((line) => /\/open\/\S+/.exec(line)?.[0]);
  t.same(ofOpen.sort(), wanted.map((path) => path.replace('closed', 'open')).sort());
});

function noSeriesTwice({ samples }: Scrape): void {
  const names = samples.map(({ name, labels }) => `${name} ${JSON.stringify([...labels].sort())}`);
  const twice = names.filter((name, at) => names.indexOf(name) !== at);
  if (twice.length > 0) throw new Error(`twice: ${twice[0]}`);
}

function setLevel(port: number, level: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const headers = { 'sallyport-admin': '1', 'content-length': level.length };
    const put = request({ port, host: '127.0.0.1', method: 'PUT', path: '/log-level', headers }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode));
    });
    put.on('error', reject).end(level);
  });
}

t.test('a level of the log holds for both', async (t) => {
  const two = await startTwoWorkers(t);
  const clients = await spread(two);
  const allowed = (word: string): LogLine[] =>
    two.sallyport.logs().filter(({ msg, path }) => msg === 'Request allowed' && String(path).startsWith(`/${word}`));
  const ask = async (word: string, level: string): Promise<void> => {
    t.equal(await setLevel(two.sallyport.adminPort, level), 204);
    await Promise.all(
      clients.map(async (client) => {
        client.send(latin1(`GET /${word} HTTP/1.1\r\nHost: web\r\nConnection: keep-alive\r\n\r\n`));
      }),
    );
  };
  await ask('quiet', 'info');
  await Promise.all(clients.map((client) => client.responses(['GET', 'GET'])));
  await ask('loud', 'debug');
  await Promise.all(clients.map((client) => client.responses(['GET', 'GET', 'GET'])));
  await until('a line of each', () => allowed('loud').length === clients.length);
  t.equal(allowed('quiet').length, 0);
  t.match(await two.sallyport.stop(), { code: 0 });
});

t.test('a worker that dies takes its connections along, and none of its counts', async (t) => {
  const two = await startTwoWorkers(t);
  const clients = await spread(two);
  const before = await scrape(two.sallyport.adminPort);
  await order(two.thread(), 'exit');
  await two.sallyport.waitForLog('the death', ({ code }) => code === 'worker-died');
  const after = await scrape(two.sallyport.adminPort);
  const of = { target_port: String(two.port) };
  const open = after.sum('tcp_open_connections', { peer: 'src', ...of });
  t.ok(open > 0 && open < clients.length, `${open} of ${clients.length} are left`);
  await until('the others to have ended', () => clients.filter(({ ended }) => !ended).length === open);
  const inNext = after.sum('sallyport_worker_connections', { worker: '1' });
  t.ok(inNext <= 1, `${inNext}: at most the scrape's own, where the next one is there by then`);
  for (const name of ['request_total', 'response_total', 'tcp_open_total', 'response_latency_ms_count']) {
    t.equal(after.sum(name, of), before.sum(name, of), name);
  }
  await until('the next worker', async () => (await scrape(two.sallyport.adminPort)).sum('sallyport_workers') === 2);
  await until('requests that the next one counts', async () => {
    (await served(two.port, '/open')).destroy();
    return (await scrape(two.sallyport.adminPort)).sum('sallyport_worker_figures_age_seconds', { worker: '1' }) < 5;
  });
  t.match(await two.sallyport.stop(), { code: 0 });
});

t.test('a worker that stands still holds up no scrape, and the scrape says so', async (t) => {
  const two = await startTwoWorkers(t);
  const clients = await spread(two);
  await scrape(two.sallyport.adminPort);
  t.equal(await order(two.thread(), 'hang'), 'stands still');
  const age = async (): Promise<number> =>
    (await scrape(two.sallyport.adminPort)).sum('sallyport_worker_figures_age_seconds', { worker: '1' });
  await until('figures of more than a second', async () => (await age()) > 1);
  const shown = await scrape(two.sallyport.adminPort);
  t.equal(shown.sum('request_total', { target_port: String(two.port) }), clients.length, 'the figures of before');
  await two.sallyport.waitForLog('the death', ({ code }) => code === 'worker-died', 30_000);
});

t.test('limits hold over both', async (t) => {
  const held: (() => void)[] = [];
  const hold = (url: string): Promise<void> =>
    url === '/slow' ? new Promise((resolve) => held.push(resolve)) : Promise.resolve();
  const env = { SALLYPORT_MAX_IN_FLIGHT: '20', SALLYPORT_MAX_CONNECTIONS_PER_CLIENT: '24' };
  const two = await startTwoWorkers(t, { hold, env });
  // Not the address of scrapes.
  const localAddress = '127.0.0.2';
  const clients = await spread(two, 24, localAddress);
  const reached = async (limit: string): Promise<number> =>
    (await scrape(two.sallyport.adminPort)).sum('sallyport_limit_reached_total', { limit });
  t.equal(await reached('max_connections_per_client'), 0);
  for (const client of clients) client.send(latin1('GET /slow HTTP/1.1\r\nHost: web\r\n\r\n'));
  await until('each to be refused or to be with the app', async () => {
    return held.length + (await reached('max_in_flight')) === 24;
  });
  // Two that come to both at one moment may each find the other's in the way.
  t.ok(held.length === 20 || held.length === 19, `${held.length} requests in flight`);

  // The refused are told that their connections end, which stay for a while: others come in their place.
  const refused = () => clients.filter(({ ended }) => ended);
  await until('the others to have ended', () => refused().length === 24 - held.length);
  for (const client of refused()) client.destroy();
  const connections = async (): Promise<number> =>
    (await scrape(two.sallyport.adminPort)).sum('sallyport_worker_connections');
  await until('those to be gone', async () => (await connections()) === held.length + 1);
  const open = () => RawClient.open({ port: two.port, localAddress });
  const more = await Promise.all(refused().map(open));
  await until('as many as there may be', async () => (await connections()) === 24 + 1);
  const late = await open();
  await until('one connection too many', async () => (await reached('max_connections_per_client')) === 1);
  const left = await connections();
  t.ok(left === 24 || left === 25, `${left}: 24, whether an idle one went or the late one, and the scrape's`);
  for (const client of [late, ...more]) client.destroy();
  for (const answer of held) answer();
  t.match(await two.sallyport.stop(), { code: 0 });
});
