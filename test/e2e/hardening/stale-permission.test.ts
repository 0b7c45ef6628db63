import { connect as http2Connect } from 'node:http2';
import { join } from 'node:path';
import t from 'tap';
import { closedServer, http1Request, lanes } from '../../support/attacked-routes.ts';
import { replaceFile } from '../../support/files.ts';
import { headersFrame, requestFields, resetFrame, setting, windowFrame } from '../../support/http2-frames.ts';
import { openClient, startFrameApp } from '../../support/http2-peers.ts';
import { scrape } from '../../support/metrics.ts';
import { openAdmin, openServer, policyEnvironment } from '../../support/open-policy.ts';
import { freePorts } from '../../support/ports.ts';
import { latin1, RawClient } from '../../support/raw-http.ts';
import { startSallyport } from '../../support/sallyport.ts';
import { patience, until } from '../../support/until.ts';
import { startWitness } from '../../support/witness.ts';

/*
 * A permission is worth as much as the policy of this moment: after a revocation the next request on an open connection
 * is refused, and bytes that are now forbidden stop within a second (istio/ztunnel#311, istio#46624).
 */
t.setTimeout(900_000);

/** A client that may send its content, without which the app gets nothing, and takes its time. `goOn` yields what it is told then. */
async function toldToGoOn(port: number, framing: string, content: string): Promise<{ goOn(): Promise<string> }> {
  const client = await RawClient.open({ port });
  const text = (): string => client.received.toString('latin1');
  client.send(latin1(http1Request('/late', [framing, 'Expect: 100-continue'], 'POST')));
  const asked = 'HTTP/1.1 100 Continue\r\n\r\n';
  await client.reaches(() => text() === asked, 5_000);
  return {
    async goOn() {
      client.send(latin1(content));
      await client.ends(5_000);
      return text().slice(asked.length);
    },
  };
}

/** How it is announced, and it. */
const contents = [
  ['Content-Length: 5', 'hello'],
  ['Content-Length: 100000', 'x'.repeat(100_000)],
  ['Transfer-Encoding: chunked', '5\r\nhello\r\n0\r\n\r\n'],
  ['Transfer-Encoding: chunked', '0\r\n\r\n'],
] as const;

for (const { name, env } of lanes) {
  t.test(name, async (t) => {
    const folder = t.testdir();
    const app = await startWitness(t);
    const [web = 0, raw = 0, kept = 0] = await freePorts(3);
    const sallyport = await startSallyport(t, {
      env: {
        ...policyEnvironment(
          folder,
          openServer('web', web) + openServer('raw', raw, 'opaque') + openServer('kept', kept, 'opaque'),
        ),
        SALLYPORT_INBOUND_PORTS: [web, raw, kept].map((port) => `${port}=127.0.0.1:${app.port}`).join(),
        ...env,
      },
    });
    const first = await RawClient.open({ port: web });
    const ask = async (path: string, count: number): Promise<number> => {
      first.send(latin1(http1Request(path)));
      const answers = await first.responses(new Array(count).fill('GET'));
      return answers.at(-1)?.status ?? 0;
    };
    const session = http2Connect(`http://127.0.0.1:${web}`);
    session.on('error', () => {});
    t.teardown(() => session.destroy());
    const stream = (path: string): Promise<number> =>
      new Promise((resolve, reject) => {
        const request = session.request({ ':path': path });
        request.on('response', (headers) => resolve(Number(headers[':status'])));
        request.on('error', reject);
        request.resume();
      });
    const tunnels = await Promise.all([raw, kept].map((port) => RawClient.open({ port })));
    const [forbidden, allowed] = tunnels as [RawClient, RawClient];
    t.equal(await ask('/a', 1), 200);
    t.equal(await stream('/b'), 200);
    for (const tunnel of tunnels) {
      tunnel.send(latin1('\0hello'));
      t.ok(await tunnel.reaches(() => tunnel.receivedLength === 6, 5_000), 'bytes come back');
    }
    const late = await Promise.all(contents.map(([framing, content]) => toldToGoOn(web, framing, content)));
    const before = app.requests.length;
    // A tunnel that is never quiet is cut like one that is.
    const talking = setInterval(() => forbidden.send(latin1('\0more')), 5);
    t.teardown(() => clearInterval(talking));

    const generation = async (): Promise<number> =>
      (await scrape(sallyport.adminPort)).sum('sallyport_policy_generation');
    const old = await generation();
    const revoked = closedServer('web', web) + closedServer('raw', raw, 'opaque') + openServer('kept', kept, 'opaque');
    replaceFile(join(folder, 'policy', 'policy.yaml'), revoked + openAdmin);
    await until('the new policy', async () => (await generation()) > old);
    const swapped = performance.now();

    t.ok(await forbidden.ends(1_000), 'the forbidden tunnel ends within a second');
    t.ok(performance.now() - swapped < 1_000 * patience());
    t.equal(await ask('/c', 2), 403, 'HTTP/1: the next request on the same connection');
    t.equal(await stream('/d'), 403, 'HTTP/2: the next stream of the same session');
    for (const client of late)
      t.match(await client.goOn(), /^HTTP\/1.1 403 /, 'who was told to go on, and comes too late');
    t.equal(app.requests.length, before, 'the app saw none');
    t.equal((await scrape(sallyport.adminPort)).sum('sallyport_internal_errors_total'), 0);
    t.notOk(first.ended, 'the connection itself stays');
    allowed.send(latin1('again'));
    t.ok(
      await allowed.reaches(() => allowed.received.toString('latin1') === '\0helloagain', 5_000),
      'the other goes on',
    );

    // And back: nothing is remembered of the refusal.
    replaceFile(
      join(folder, 'policy', 'policy.yaml'),
      openServer('web', web) + closedServer('raw', raw, 'opaque') + openServer('kept', kept, 'opaque') + openAdmin,
    );
    await until('the old permission', async () => (await generation()) > old + 1);
    t.equal(await ask('/e', 3), 200);
    t.equal(await stream('/f'), 200);

    // The port becomes opaque under open HTTP connections: no request has a route there (Linkerd).
    replaceFile(join(folder, 'policy', 'policy.yaml'), openServer('web', web, 'opaque') + openAdmin);
    await until('the third policy', async () => (await generation()) > old + 2);
    t.equal(await ask('/g', 4), 404);
    t.equal(await stream('/h'), 404);
    // No Server at all any more, and the default is deny: the other tunnel goes, too.
    t.ok(await allowed.ends(1_000), 'a deleted Server leaves no tunnel behind');
    first.destroy();
  });
}

t.test('a request that waits behind uploads of its own client', async (t) => {
  const folder = t.testdir();
  const app = await startFrameApp(t, { consumes: false, settings: [[setting.initialWindowSize, 1 << 20]] });
  const [web = 0] = await freePorts(1);
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(folder, openServer('web', web, 'HTTP/2')),
      SALLYPORT_INBOUND_PORTS: `${web}=127.0.0.1:${app.port}`,
    },
  });
  const metrics = (): ReturnType<typeof scrape> => scrape(sallyport.adminPort);
  const client = await openClient(t, web);
  client.send(headersFrame(1, requestFields('/upload', [], 'POST'), false));
  for (let left = 65_535; left > 0; left -= 15_000) client.data(1, Buffer.alloc(Math.min(left, 15_000)));
  await until('the upload', () => app.requests[0]?.message.bytes === 65_535);
  client.send(headersFrame(3, requestFields('/late', [], 'POST'), false));
  client.data(3, Buffer.from('hello'), true);
  t.ok(await client.lives(), 'it has been decided');
  const before = await metrics();
  replaceFile(join(folder, 'policy', 'policy.yaml'), closedServer('web', web, 'HTTP/2') + openAdmin);
  await until('the new policy', async () => (await metrics()).sum('sallyport_policy_generation') > 1);
  client.send(resetFrame(1, 8));
  app.connections[0]?.send(windowFrame(0, 65_535));
  t.equal(await client.over(3), '403');
  t.same(
    app.requests.map(({ path }) => path),
    ['/upload'],
    'the app never sees it',
  );
  const after = await metrics();
  const more = (name: string, labels = {}): number => after.sum(name, labels) - before.sum(name, labels);
  const ended = more('sallyport_http_authz_terminate_total', { target_port: String(web) });
  t.equal(ended, 2, 'it is counted as what a change of policy has ended, and so is the upload');
  t.equal(after.sum('sallyport_internal_errors_total'), 0);
  const line = await sallyport.waitForLog('the refusal', ({ path }) => path === '/late');
  t.match(line, { method: 'POST', level: 'info' });
});
