import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { testCertificate, workloadName } from '../support/certificates.ts';
import { identityEnvironment, replaceFile, temporaryFolder } from '../support/files.ts';
import { scrape } from '../support/metrics.ts';
import { openAdmin, openServer, policyEnvironment } from '../support/open-policy.ts';
import { freePort, freePorts } from '../support/ports.ts';
import { latin1, RawClient } from '../support/raw-http.ts';
import { startRecorder } from '../support/recorder-app.ts';
import { type Environment, runSallyport, startSallyport } from '../support/sallyport.ts';
import { startSniffingApp } from '../support/sniffing-app.ts';
import { until } from '../support/until.ts';
import { runExchange } from '../support/wire-exchange.ts';

// What people and machines get wrong: a clear word for those who can mend it, and no harm to anybody else.

t.test('configuration that cannot work is refused before any port opens', { timeout: 840_000 }, async (t) => {
  const folder = temporaryFolder(t);
  const port = await freePort();
  const identity = identityEnvironment(
    join(folder, 'identity'),
    testCertificate({ dnsNames: [workloadName('web', 'shop')] }),
  );
  const other = testCertificate({ dnsNames: [workloadName('web', 'shop')] });
  writeFileSync(join(folder, 'other.key'), other.keyPem);
  writeFileSync(join(folder, 'empty.crt'), '');
  const base = {
    SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:3000`,
    SALLYPORT_ADMIN_LISTEN: 'off',
    SALLYPORT_HEALTH_LISTEN: 'off',
  };
  const rows: readonly { name: string; env: Environment; code: number | readonly number[]; says: readonly RegExp[] }[] =
    [
      {
        name: 'several faults at once',
        env: {
          SALLYPORT_DETECT_TIMEOUT: 'soon',
          SALLYPORT_DEFAULT_INBOUND_POLICY: 'allow',
          SALLYPORT_CLUSTER_NETWORKS: '10.0.0.0/99',
        },
        code: 64,
        says: [/SALLYPORT_DETECT_TIMEOUT/, /SALLYPORT_DEFAULT_INBOUND_POLICY/, /SALLYPORT_CLUSTER_NETWORKS/],
      },
      {
        name: 'a listener without an app',
        env: { SALLYPORT_INBOUND_PORTS: '8080' },
        code: 64,
        says: [/SALLYPORT_INBOUND_PORTS/],
      },
      {
        name: 'a part of an identity',
        env: { SALLYPORT_IDENTITY_CERT: identity.SALLYPORT_IDENTITY_CERT ?? '' },
        code: 64,
        says: [/SALLYPORT_IDENTITY_KEY/, /SALLYPORT_IDENTITY_TRUST_ANCHORS/],
      },
      {
        name: 'a certificate that is not there',
        env: { ...identity, SALLYPORT_IDENTITY_CERT: join(folder, 'none.crt') },
        code: [1, 64],
        says: [/none\.crt/],
      },
      {
        name: "another certificate's key",
        env: { ...identity, SALLYPORT_IDENTITY_KEY: join(folder, 'other.key') },
        code: [1, 64],
        says: [/other\.key|SALLYPORT_IDENTITY_KEY/],
      },
      {
        name: 'trust anchors without a certificate',
        env: { ...identity, SALLYPORT_IDENTITY_TRUST_ANCHORS: join(folder, 'empty.crt') },
        code: [1, 64],
        says: [/empty\.crt/],
      },
    ];
  for (const { name, env, code, says } of rows) {
    const ended = await runSallyport(t, ['run'], { ...base, ...env });
    t.ok([code].flat().includes(ended.code ?? -1), `${name}: exit ${ended.code}`);
    for (const pattern of says) t.match(ended.stdout + ended.stderr, pattern, `${name}: says ${pattern}`);
    t.notMatch(ended.stdout + ended.stderr, /\n {4}at /, `${name}: no stack trace`);
  }
  const taken = createServer();
  t.teardown(() => taken.close());
  await new Promise<void>((resolve) => taken.listen(port, resolve));
  const ended = await runSallyport(t, ['run'], base);
  t.equal(ended.code, 1, 'a port in use: exit 1');
  t.match(
    ended.stdout + ended.stderr,
    new RegExp(`SALLYPORT_INBOUND_PORTS.*${port}`),
    'names the variable and the port',
  );
});

t.test('policy that cannot be read', { timeout: 840_000 }, async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'policy', 'policy.yaml');
  const app = await startSniffingApp(t);
  const port = await freePort();
  const good = openServer('web', port) + openAdmin;
  const broken = `${good}---\nkind: Server\nmetadata: {name: [oops\n`;
  const policy = policyEnvironment(folder, '');
  replaceFile(file, broken);
  const sallyport = await startSallyport(t, {
    awaitReady: false,
    env: {
      ...policy,
      SALLYPORT_DEFAULT_INBOUND_POLICY: 'all-unauthenticated',
      SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port}`,
    },
  });
  const ask = (): ReturnType<typeof runExchange> =>
    runExchange({ host: '127.0.0.1', port, proto: 'http/1.1', path: '/' });

  const line = await sallyport.waitForLog(
    'the fault',
    (entry) => entry.level === 'error' && JSON.stringify(entry).includes('policy.yaml'),
  );
  t.match(line, { file: /policy\.yaml$/, line: Number }, 'names the file and the line');
  t.equal(await sallyport.health('/live'), 200);
  t.equal(await sallyport.health('/ready'), 503, 'not ready before the first good load');
  await sallyport.waitForLog('the start', ({ msg }) => msg === 'Listening');
  t.match(await ask(), { status: 403 }, 'and nothing is authorized, whatever the default');
  t.equal(app.counts.connections, 0);

  replaceFile(file, good);
  await until('/ready', async () => (await sallyport.health('/ready')) === 200);
  t.match(await ask(), { status: 200 }, 'the mended file counts at once');

  const errors = async (): Promise<number> =>
    (await scrape(sallyport.adminPort)).sum('sallyport_policy_load_errors_total');
  const before = await errors();
  replaceFile(file, broken);
  await until('the bad load to be counted', async () => (await errors()) > before);
  t.match(await ask(), { status: 200 }, 'the last good policy stays in force');
  t.equal(await sallyport.health('/ready'), 200, 'and the proxy stays ready');
  t.match(await sallyport.stop(), { code: 0 });
});

t.test('an app that is down', { timeout: 840_000 }, async (t) => {
  const [port = 0, nobody = 0] = await freePorts(2);
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(temporaryFolder(t), openServer('web', port)),
      SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${nobody}`,
    },
  });
  const to = { host: '127.0.0.1', port, path: '/' };
  t.match(await runExchange({ ...to, proto: 'http/1.1' }), {
    status: 502,
    bodiless: true,
    headers: { connection: 'close' },
  });
  t.match(await runExchange({ ...to, proto: 'http/2' }), { status: 502, bodiless: true });
  // 14 is UNAVAILABLE.
  t.match(await runExchange({ ...to, proto: 'grpc' }), { status: 200, grpcStatus: '14', bodiless: true });
  t.match(await runExchange({ ...to, proto: 'tcp', payload: 'hello-not-http\n' }), { kind: 'closed', text: '' });
  const metrics = await scrape(sallyport.adminPort);
  t.equal(metrics.sum('inbound_http_authz_allow_total', { srv_name: 'web' }), 3, 'policy had allowed all of them');
  t.equal(metrics.sum('inbound_http_errors_total', { srv_name: 'web', error: 'i/o' }), 3);
  // The app comes up: nothing remembers that it was down.
  await startSniffingApp(t, { port: nobody });
  t.match(await runExchange({ ...to, proto: 'http/1.1' }), { status: 200 });
  t.match(await runExchange({ ...to, proto: 'grpc' }), { status: 200, grpcStatus: '0' });
  t.match(await sallyport.stop(), { code: 0 });
});

t.test('clients that vanish or talk nonsense', { timeout: 840_000 }, async (t) => {
  const recorder = await startRecorder(t, 'strict');
  const port = await freePort();
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(temporaryFolder(t), openServer('web', port)),
      SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${recorder.port}`,
    },
  });
  const preface = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';
  const rows: readonly { name: string; bytes: string; reachesApp: boolean; leave: (client: RawClient) => void }[] = [
    ['half-closes', (client: RawClient): void => client.halfClose()] as const,
    ['resets', (client: RawClient): void => client.reset()] as const,
  ].flatMap(([how, leave]) => [
    {
      name: `${how} in a sized body`,
      bytes: 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhel',
      reachesApp: true,
      leave,
    },
    {
      name: `${how} in a chunk`,
      bytes: 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhel',
      reachesApp: true,
      leave,
    },
    { name: `${how} in a header`, bytes: 'GET / HTTP/1.1\r\nHost: a', reachesApp: false, leave },
    { name: `${how} in an HTTP/2 frame`, bytes: `${preface}\0\0`, reachesApp: false, leave },
    { name: `${how} after HTTP/2 nonsense`, bytes: `${preface}${'\xff'.repeat(64)}`, reachesApp: false, leave },
    { name: `${how} in a ClientHello`, bytes: '\x16\x03\x01\x02\0\x01', reachesApp: false, leave },
    { name: `${how} at once`, bytes: '', reachesApp: false, leave },
  ]);
  for (const { name, bytes, reachesApp, leave } of rows) {
    const mark = recorder.mark();
    const client = await RawClient.open({ port });
    client.send(latin1(bytes));
    if (reachesApp) await until(`${name}: the app to see the beginning`, () => recorder.bytesSince(mark).length > 0);
    leave(client);
    if (!client.socket.destroyed) t.ok(await client.ends(5_000), `${name}: the proxy ends it, too`);
    client.destroy();
    await recorder.settled();
    t.equal(recorder.requestsSince(mark).length, 0, `${name}: no message is made whole`);
    t.equal(
      recorder.abortedSince(mark),
      reachesApp ? 1 : 0,
      `${name}: ${reachesApp ? 'the app sees the abort' : 'nothing reaches the app'}`,
    );
    t.match(
      await runExchange({ host: '127.0.0.1', port, proto: 'http/1.1' }),
      { status: 200 },
      `${name}: others are served`,
    );
  }
  const open = async (): Promise<number> =>
    (await scrape(sallyport.adminPort)).sum('tcp_open_connections', { peer: 'src', target_port: String(port) });
  await until('every connection to be let go', async () => (await open()) === 0);
  t.match(await sallyport.stop(), { code: 0 });
});
