/**
 * A candidate while it lives: reloads of either policy under open connections, files that go bad or away, promotion, and the gauge
 * that says when to promote.
 */
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { ask, startWithCandidate, type WithCandidate } from '../../support/candidate.ts';
import { documentsOf, type GuardedPort } from '../../support/candidate-documents.ts';
import { replaceFile, temporaryFolder } from '../../support/files.ts';
import { scrape } from '../../support/metrics.ts';
import { openAdmin, policyEnvironment } from '../../support/open-policy.ts';
import { freePort } from '../../support/ports.ts';
import { latin1, RawClient } from '../../support/raw-http.ts';
import { startSallyport } from '../../support/sallyport.ts';
import { startSniffingApp } from '../../support/sniffing-app.ts';
import { until } from '../../support/until.ts';

t.setTimeout(900_000);

const open: GuardedPort = { from: ['127.0.0.0/8'] };
const shut: GuardedPort = { from: ['127.0.0.9/32'] };

interface Stage extends WithCandidate {
  readonly port: number;
  documents(guarded: GuardedPort): string;
  /** Of the counter, with these labels. */
  counted(labels: Record<string, string>): Promise<number>;
  gauge(name: string): Promise<number>;
}

async function stage(t: Test, workers = '1'): Promise<Stage> {
  const app = await startSniffingApp(t);
  const port = await freePort();
  const documents = (guarded: GuardedPort): string => documentsOf(port, guarded);
  const started = await startWithCandidate(
    t,
    { policy: documents(open), candidate: documents(open) },
    { SALLYPORT_INBOUND_PORTS: `127.0.0.1:${port}=127.0.0.1:${app.port}`, SALLYPORT_WORKERS: workers },
  );
  const { adminPort } = started.sallyport;
  return {
    ...started,
    port,
    documents,
    counted: async (labels) =>
      (await scrape(adminPort)).sum('sallyport_candidate_decisions_total', { srv_port: String(port), ...labels }),
    gauge: async (name) => (await scrape(adminPort)).sum(`sallyport_candidate_${name}`),
  };
}

const request = latin1('GET /a HTTP/1.1\r\nHost: web\r\n\r\n');

/** Asks on a connection that stays, and expects the app's answer. */
async function asks(t: Test, client: RawClient, times: number): Promise<void> {
  client.send(request);
  const answers = await client.responses(Array.from({ length: times }, () => 'GET'));
  t.equal(answers.at(-1)?.status, 200, 'the client is answered as ever');
}

/** The status of a request on a connection of its own. */
async function fresh(port: number): Promise<number | undefined> {
  const client = await RawClient.open({ port });
  client.send(request);
  const [answer] = await client.responses(['GET']);
  client.socket.destroy();
  return answer?.status;
}

for (const workers of ['1', '2']) {
  t.test(`reloads under open connections, ${workers} workers`, async (t) => {
    const { sallyport, port, put, documents, counted, page } = await stage(t, workers);
    const http = await RawClient.open({ port });
    await asks(t, http, 1);
    const tcp = await RawClient.open({ port });
    tcp.send(latin1('\x01\x02 bytes'));
    await until('bytes to come back', () => tcp.received.includes('bytes'));
    await until('both to be counted', async () => (await counted({ agreement: 'same' })) === 2);

    await put('candidate', documents(shut));
    await until('the open one to be compared again', async () => (await counted({ subject: 'open' })) === 1);
    t.equal(await counted({ subject: 'open', enforced: 'permit', candidate: 'deny', agreement: 'differs' }), 1);
    await asks(t, http, 2);
    await until(
      'the next request to differ',
      async () => (await counted({ subject: 'request', agreement: 'differs' })) === 1,
    );
    t.same((await page()).disagreements.map(({ subject }) => subject).sort(), ['open', 'request']);

    await put('candidate', documents(open));
    await until('the open one to be compared again', async () => (await counted({ subject: 'open' })) === 2);
    t.same((await page()).disagreements, [], 'what was said of the candidate before is gone');
    await asks(t, http, 3);
    await until(
      'the next one to be the same',
      async () => (await counted({ subject: 'request', agreement: 'same' })) === 2,
    );

    await put('policy', documents(shut));
    t.ok(await tcp.ends(10_000), 'the policy in force ends it');
    const ended = { subject: 'open', enforced: 'deny', candidate: 'permit', agreement: 'differs' };
    await until('the end to be compared', async () => (await counted(ended)) === 1);
    http.send(request);
    const answers = await http.responses(['GET', 'GET', 'GET', 'GET']);
    t.equal(answers.at(-1)?.status, 403);
    await until(
      'the refusal to be compared',
      async () => (await counted({ enforced: 'deny', subject: 'request' })) === 1,
    );

    await put('candidate', documents(shut));
    await put('policy', documents(open));
    await put('policy', documents(shut));
    http.socket.destroy();
    const total = await counted({});
    await fresh(port);
    await until('both policies to say the same', async () => (await counted({})) === total + 1);
    t.same((await page()).disagreements, []);
    t.match(await sallyport.stop(), { code: 0 });
  });
}

t.test('files of the candidate go bad and away, and traffic does not notice', async (t) => {
  const { sallyport, port, folder, counted, gauge, documents, page, text } = await stage(t);
  const client = await RawClient.open({ port });
  const file = join(folder.candidate, 'policy.yaml');
  let asked = 0;
  const still = async (title: string): Promise<void> => {
    await asks(t, client, ++asked);
    await until(`${title}: still compared`, async () => (await counted({ agreement: 'same' })) === asked);
    t.equal(await gauge('loaded'), 1, title);
  };
  await still('at first');

  replaceFile(file, `${documents(shut)}---\nkind: [`);
  const line = await sallyport.waitForLog('the refusal', ({ code }) => code === 'candidate-not-loaded', 20_000);
  t.match(line, { level: 'error', reason: /candidate\/policy\.yaml:\d+:\d+: /, msg: /the last good one stays$/ });
  t.equal(await gauge('stale'), 1);
  t.ok((await gauge('load_errors_total')) >= 1);
  t.equal((await page()).state, 'stale');
  t.match(await text(), /its files are not what is decided by: .*policy\.yaml/);
  await still('half-written');

  replaceFile(file, documents(open) + openAdmin);
  await until('it to be mended', async () => (await gauge('stale')) === 0);
  await still('mended');

  writeFileSync(file, '');
  await until('an emptied file to be stale', async () => (await gauge('stale')) === 1);
  await still('emptied');

  replaceFile(file, documents(open) + openAdmin);
  await until('it to be mended again', async () => (await gauge('stale')) === 0);

  rmSync(folder.candidate, { recursive: true });
  await until('a folder that is gone to be stale', async () => (await gauge('stale')) === 1, { timeoutMs: 30_000 });
  await still('gone');

  mkdirSync(folder.candidate);
  replaceFile(file, documents(shut) + openAdmin);
  await until('it to be back', async () => (await gauge('stale')) === 0 && (await page()).load.generation > 1);
  await asks(t, client, ++asked);
  await until('another one to differ', async () => (await counted({ agreement: 'differs' })) === 1);
  client.socket.destroy();
  t.equal((await ask(sallyport.adminPort, '/ready')).status, 200);
  t.match(await sallyport.stop(), { code: 0 });
});

t.test('an optional ConfigMap: a folder that is empty at first, and filled as a kubelet does', async (t) => {
  const app = await startSniffingApp(t);
  const [port, home] = [await freePort(), temporaryFolder(t)];
  const folder = join(home, 'candidate');
  mkdirSync(folder);
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(home, documentsOf(port, open)),
      SALLYPORT_CANDIDATE_POLICY: folder,
      SALLYPORT_INBOUND_PORTS: `127.0.0.1:${port}=127.0.0.1:${app.port}`,
    },
  });
  t.equal(await fresh(port), 200);
  t.match(JSON.parse((await ask(sallyport.adminPort, '/candidate')).body), { state: 'none', load: { generation: 0 } });
  const volume = '..2026_11_22_15_00_00.1';
  mkdirSync(join(folder, volume));
  writeFileSync(join(folder, volume, 'policy.yaml'), documentsOf(port, shut) + openAdmin);
  symlinkSync(volume, join(folder, '..data_tmp'));
  renameSync(join(folder, '..data_tmp'), join(folder, '..data'));
  symlinkSync('..data/policy.yaml', join(folder, 'policy.yaml'));
  const gauge = async (): Promise<number> => (await scrape(sallyport.adminPort)).sum('sallyport_candidate_loaded');
  await until('the candidate', async () => (await gauge()) === 1);
  t.equal(await fresh(port), 200);
  await until('it to differ', async () =>
    (await ask(sallyport.adminPort, '/candidate?format=text')).body.includes('deny by the candidate'),
  );
  t.match(await sallyport.stop(), { code: 0 });
});

t.test('promotion: the gauge, and files that are moved', async (t) => {
  const { sallyport, port, folder, put, counted, gauge, documents, page, text } = await stage(t);
  const client = await RawClient.open({ port });
  await put('candidate', documents({ ...shut, who: ['*'] }));
  const since = await gauge('agreement_seconds');
  await until('the gauge to grow', async () => (await gauge('agreement_seconds')) > since);
  await asks(t, client, 1);
  await until('it to differ', async () => (await counted({ agreement: 'differs' })) === 1);
  const { agreementSeconds, disagreements } = await page();
  t.ok(agreementSeconds !== null && agreementSeconds <= 60, 'it begins anew');
  t.match(await text(), /permit, and deny by the candidate, once/);
  t.match(disagreements, [{ candidate: { clauses: [{ authz: `s${port}` }] } }], 'with the clause that failed');

  const { load } = await page();
  renameSync(join(folder.candidate, 'policy.yaml'), join(folder.policy, 'policy.yaml'));
  await until('the candidate to be in force', async () => (await fresh(port)) === 403);
  await until('both to say the same', async () => (await counted({ enforced: 'deny', agreement: 'same' })) > 0);
  await until('a candidate without documents to be none', async () => (await gauge('loaded')) === 0, {
    timeoutMs: 30_000,
  });
  t.match(await page(), { state: 'none', load: { generation: load.generation + 1, stale: null }, disagreements: [] });
  t.match(await text(), /not loaded/);
  const before = await counted({});
  t.equal(await fresh(port), 403);
  t.equal(await counted({}), before, 'and nothing is compared with it');
  replaceFile(join(folder.candidate, 'policy.yaml'), documents(open) + openAdmin);
  await until('the next candidate', async () => (await gauge('loaded')) === 1);
  t.equal(await fresh(port), 403);
  await until('it to be compared', async () => (await counted({ enforced: 'deny', candidate: 'permit' })) === 1);
  client.socket.destroy();
  t.match(await sallyport.stop(), { code: 0 });
});
