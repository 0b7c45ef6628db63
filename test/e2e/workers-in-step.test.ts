/** What comes into force, comes into force in all workers; what ends, ends in all of them. */
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { replaceFile, temporaryFolder } from '../support/files.ts';
import { scrape } from '../support/metrics.ts';
import { openAdmin } from '../support/open-policy.ts';
import { latin1, RawClient } from '../support/raw-http.ts';
import { served, startTwoWorkers, type TwoWorkers } from '../support/two-workers.ts';
import { until, within } from '../support/until.ts';
import { order } from '../support/worker-faults.ts';

/** /toggle is open in odd policies, closed in even ones. */
function toggled(port: number, policy: number): string {
  const grant = `---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: toggle, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: HTTPRoute, name: toggle}
  requiredAuthenticationRefs: []
`;
  return `${openAdmin}---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: web, namespace: shop, annotations: {policy: '${policy}'}}
spec: {podSelector: {}, port: ${port}}
---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: toggle, namespace: shop}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]
  rules: [{matches: [{path: {type: PathPrefix, value: /toggle}}]}]
${policy % 2 === 1 ? grant : ''}`;
}

const statusOf = (policy: number): number => (policy % 2 === 1 ? 200 : 403);

/** One request after the other on a connection, until it is told to end. Each answer is of the policy in force when it was asked. */
async function keepAsking(port: number, current: () => number | null, ended: () => boolean): Promise<string[]> {
  const wrong: string[] = [];
  const client = await RawClient.open({ port });
  let asked = 0;
  while (!ended()) {
    const before = current();
    client.send(latin1('GET /toggle HTTP/1.1\r\nHost: web\r\n\r\n'));
    asked++;
    const answered = client.responses(Array.from({ length: asked }, () => 'GET'));
    const responses = await answered.catch((error: Error) => error);
    // Its worker has been ended.
    if (responses instanceof Error && client.ended) break;
    if (responses instanceof Error) throw responses;
    const status = responses.at(-1)?.status;
    // While a policy is on its way either is right.
    if (before !== null && before === current() && status !== statusOf(before)) wrong.push(`${status} in ${before}`);
    if (asked >= 100) break;
  }
  client.destroy();
  return wrong;
}

async function inForce({ sallyport }: TwoWorkers, generation: number): Promise<void> {
  const is = (line: Readonly<Record<string, unknown>>): boolean =>
    line.msg === 'Policy loaded' && line.generation === generation;
  await sallyport.waitForLog(`generation ${generation}`, is, 30_000);
}

t.test('once a load counts as in force, no worker answers by the one before', async (t) => {
  const folder = temporaryFolder(t);
  const write = (text: string): void => replaceFile(join(folder, 'policy', 'policy.yaml'), text);
  write('');
  const two = await startTwoWorkers(t, { env: { SALLYPORT_POLICY: join(folder, 'policy') } });
  const { port } = two;
  let current: number | null = null;
  let isOver = false;
  write(toggled(port, 1));
  await two.sallyport.waitForLog(
    'the first',
    ({ msg, documents }) => msg === 'Policy loaded' && documents !== 0,
    30_000,
  );
  const first = two.sallyport.logs().filter(({ msg }) => msg === 'Policy loaded').length;
  current = 1;
  const ask = async (): Promise<string[]> => {
    const wrong: string[] = [];
    while (!isOver)
      wrong.push(
        ...(await keepAsking(
          port,
          () => current,
          () => isOver,
        )),
      );
    return wrong;
  };
  const clients = Array.from({ length: 8 }, ask);
  for (let policy = 2; policy <= 12; policy++) {
    current = null;
    write(toggled(port, policy));
    await inForce(two, first + policy - 1);
    current = policy;
    // One that takes the other's place meanwhile knows the policy of now, too.
    if (policy === 6) await order(two.thread(), 'exit');
    const probes = await Promise.all(Array.from({ length: 8 }, () => keepAsking(port, () => current, once())));
    t.same(probes.flat(), [], `policy ${policy}`);
  }
  isOver = true;
  t.same((await Promise.all(clients)).flat(), [], 'no answer was of another policy');
  t.match(await two.sallyport.stop(), { code: 0 });
});

/** False the first time. */
function once(): () => boolean {
  let asked = false;
  return () => {
    if (asked) return true;
    asked = true;
    return false;
  };
}

t.test('an exception in a worker is counted, and the worker goes on', async (t) => {
  const { sallyport, port, thread } = await startTwoWorkers(t);
  const before = thread();
  await order(before, 'throw');
  await sallyport.waitForLog('the fault', ({ where }) => where === 'an uncaught exception');
  const { text } = await scrape(sallyport.adminPort);
  t.match(text, /^sallyport_internal_errors_total.* 1$/m);
  await served(port);
  t.equal(thread(), before);
  t.match(await sallyport.stop(), { code: 0 });
});

t.test('a worker whose event loop stands still is replaced', async (t) => {
  const { sallyport, port, thread } = await startTwoWorkers(t);
  const before = thread();
  t.equal(await order(before, 'hang'), 'stands still');
  // Some of them are handed to it, and never taken.
  const waiting = Array.from({ length: 16 }, () => served(port));
  const line = await sallyport.waitForLog('its end', ({ code }) => code === 'worker-died', 40_000);
  t.equal((await Promise.all(waiting)).length, 16, 'no client has lost a connection that it had not taken');
  t.match(line, { worker: 1, why: 'hung' });
  await until('another in its place', () => !['', before].includes(thread()));
  await served(port);
  t.match(await sallyport.stop(), { code: 0 });
});

t.test('a stop ends a worker that stands still', async (t) => {
  const { sallyport, thread } = await startTwoWorkers(t, { env: { SALLYPORT_SHUTDOWN_GRACE_PERIOD: '2s' } });
  t.equal(await order(thread(), 'hang'), 'stands still');
  const exit = await sallyport.stop(60_000);
  t.match(exit, { code: 1, signal: null }, 'what it had was cut');
});

/** Two requests in each worker that wait for the app. */
async function startWaiting(t: Test, env: Record<string, string>) {
  const gate = Promise.withResolvers<void>();
  let held = 0;
  const hold = (url: string): Promise<void> => {
    if (!url.startsWith('/slow')) return Promise.resolve();
    held++;
    return gate.promise;
  };
  const two = await startTwoWorkers(t, { hold, env });
  const clients = await Promise.all(Array.from({ length: 4 }, () => RawClient.open({ port: two.port })));
  for (const client of clients) client.send(latin1('GET /slow HTTP/1.1\r\nHost: web\r\n\r\n'));
  await until('all to wait', () => held === clients.length);
  t.ok(Number(await order(two.thread(), 'sockets')) > 0, 'some of them in the worker');
  return { ...two, clients, open: gate.resolve };
}

t.test('a stop waits for what is in flight in every worker', async (t) => {
  const { sallyport, port, clients, open } = await startWaiting(t, {});
  sallyport.child.process.kill('SIGTERM');
  const draining = await sallyport.waitForLog('the drain', ({ msg }) => msg === 'Draining');
  t.equal(draining.connections, clients.length);
  await until('no new connections', async () => RawClient.open({ port }).then(unwanted, () => true));
  open();
  for (const client of clients) {
    const [response] = await client.responses(['GET']);
    t.equal(response?.status, 200);
    t.ok(await client.ends(5_000), 'its connection then ends');
  }
  t.match(await within('the exit', 20_000, sallyport.child.exited), { code: 0, signal: null });
});

function unwanted(client: RawClient): boolean {
  client.destroy();
  return false;
}

t.test('when the grace period is over, what is left is cut in every worker', async (t) => {
  const { sallyport, clients } = await startWaiting(t, { SALLYPORT_SHUTDOWN_GRACE_PERIOD: '1s' });
  sallyport.child.process.kill('SIGTERM');
  t.match(await within('the exit', 20_000, sallyport.child.exited), { code: 1, signal: null });
  for (const client of clients) t.ok(await client.ends(5_000));
  const told = sallyport.logs().find(({ code }) => code === 'cut-at-stop');
  t.equal(told?.connections, clients.length, 'and counted in all of them');
});

t.test('the level of the log is that of every worker', async (t) => {
  const { sallyport, port } = await startTwoWorkers(t);
  const lines = (): number => sallyport.logs().filter(({ msg }) => msg === 'Request malformed').length;
  const level = async (to: string): Promise<void> => {
    const url = `http://127.0.0.1:${sallyport.adminPort}/log-level`;
    t.equal((await fetch(url, { method: 'PUT', headers: { 'sallyport-admin': '1' }, body: to })).status, 204);
  };
  let last = 10;
  // Each from an address of its own, which has a line of its own.
  const malformed = async (count: number): Promise<void> => {
    const from = last;
    last += count;
    const open = (_: unknown, at: number) => RawClient.open({ port, localAddress: `127.0.0.${from + at}` });
    const clients = await Promise.all(Array.from({ length: count }, open));
    for (const client of clients) client.send(latin1('GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n'));
    for (const client of clients) t.equal((await client.responses(['GET']))[0]?.status, 400);
    for (const client of clients) client.destroy();
  };
  await malformed(12);
  await until('a line of each', () => lines() === 12);
  await level('error');
  await malformed(12);
  await level('info');
  await malformed(12);
  await until('a line of each that came later', () => lines() === 24, { lastSeen: () => String(lines()) });
  t.match(await sallyport.stop(), { code: 0 });
});
