import { join } from 'node:path';
import t from 'tap';
import { missing, runToEnd } from '../support/children.ts';
import { identityEnvironment, temporaryFolder } from '../support/files.ts';
import { scrape } from '../support/metrics.ts';
import { openServer, policyEnvironment } from '../support/open-policy.ts';
import { freePort } from '../support/ports.ts';
import { runSallyport, startSallyport } from '../support/sallyport.ts';
import { type Call, own, ownName, tlsClients } from '../support/tls-clients.ts';
import { until } from '../support/until.ts';

/* TLS ends here for our names alone. Who calls by another is told so in the log, and certs issue says how to call. */

t.setTimeout(900_000);

const needed = { skip: await missing(t, 'openssl', 'curl') };
const { serve, openssl, curl, appPort } = await tlsClients(t);

t.test('TLS that does not end here, though there is an identity', needed, async (t) => {
  const stage = await serve(t, own);
  const { port, sallyport } = stage;
  const rows: readonly (readonly [what: string, call: Call, sni: string | null])[] = [
    [
      'curl by localhost',
      (from) => runToEnd(t, 'curl', ['-sk', '--interface', from, `https://localhost:${port}/`]),
      'localhost',
    ],
    [
      'curl by address',
      (from) => runToEnd(t, 'curl', ['-sk', '--interface', from, `https://127.0.0.1:${port}/`]),
      null,
    ],
    ['another name', curl('-k', 'https://elsewhere.shop/'), 'elsewhere.shop'],
    ['openssl without a name', openssl('-noservername'), null],
  ];
  for (const [index, [what, call, sni]] of rows.entries()) {
    const from = `127.0.2.${index + 1}`;
    for (let times = 0; times < 3; times++) await call(from, port);
    const line = await sallyport.waitForLog(
      what,
      ({ msg, client }) => msg === 'TLS not for our names' && (client as { ip: string }).ip === from,
    );
    const outcome = sni === null ? /taken for plaintext/ : /passed through/;
    t.match(line, { level: 'info', sni, ours: [ownName], outcome, target: { port } }, what);
    t.notOk('tls' in line);
  }
  await sallyport.stop();
  t.equal(sallyport.logs().filter(({ msg }) => msg === 'TLS not for our names').length, rows.length, 'a line each');
});

t.test("where TLS is declared to be the app's, or nobody has an identity, nothing is said", needed, async (t) => {
  const home = temporaryFolder(t);
  const port = await freePort();
  const base = {
    ...policyEnvironment(home, openServer('web', port, 'TLS')),
    SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${appPort}`,
  };
  for (const identity of [identityEnvironment(join(home, 'identity'), own), {}]) {
    const sallyport = await startSallyport(t, { env: { ...base, ...identity } });
    await curl('-k', 'https://elsewhere.shop/')('127.0.0.1', port);
    await until(
      'the connection',
      async () => (await scrape(sallyport.adminPort)).sum('inbound_tcp_authz_allow_total', { tls: 'opaque' }) === 1,
    );
    await sallyport.stop();
    t.notOk(sallyport.logs().some(({ msg }) => msg === 'TLS not for our names'));
  }
});

t.test('the line that certs issue prints works as printed', needed, async (t) => {
  const home = temporaryFolder(t);
  const out = join(home, 'with space');
  const port = await freePort();
  const ports = { SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${appPort}` };
  t.equal((await runSallyport(t, ['certs', 'init', '--out', out])).code, 0);
  const issued = await runSallyport(
    t,
    ['certs', 'issue', '--out', out, '--service-account', 'web', '--namespace', 'shop'],
    ports,
  );
  const printed = issued.stdout.split('\n');
  const assignments = printed.filter((line) => line.startsWith('SALLYPORT_'));
  t.equal(assignments.length, 3);
  const shell = (script: string) => runToEnd(t, '/bin/sh', ['-c', script]);
  const { stdout: variables } = await shell(`${assignments.join('; ')}; set | grep ^SALLYPORT_IDENTITY`);
  const identity = Object.fromEntries(
    variables
      .split('\n')
      .filter(Boolean)
      .map((line) => [line.split('=')[0], line.slice(line.indexOf('=') + 1).replaceAll("'", '')]),
  );
  const documents = openServer('web', port);
  const sallyport = await startSallyport(t, {
    env: { ...policyEnvironment(home, documents), ...ports, ...identity, SALLYPORT_LOG: 'debug' },
  });
  const line = printed.find((each) => each.startsWith('curl ')) ?? '';
  t.match(line, /--connect-to/);
  const answer = await shell(`${line} -sS -o /dev/null -w '%{http_code}'`);
  t.same([answer.code, answer.stdout, answer.stderr], [0, '200', '']);
  t.match(
    await sallyport.waitForLog('who called', ({ msg }) => msg === 'Request allowed'),
    { tls: 'true', client: { id: ownName } },
    'with the identity that it says',
  );
  const spiffe = await runSallyport(t, ['certs', 'issue', '--out', out, '--spiffe', 'spiffe://cluster.local/orders']);
  t.match(
    spiffe.stdout,
    /As a client, for NAME .*\ncurl --cert .* --connect-to ::127\.0\.0\.1:8080 https:\/\/NAME\/\n$/,
  );
  const used = spiffe.stdout.split('\n').find((each) => each.startsWith('curl ')) ?? '';
  const asked = used.replace(':8080', `:${port}`).replace('NAME', ownName);
  t.equal((await shell(`${asked} -sS -o /dev/null -w '%{http_code}'`)).stdout, '200');
});
