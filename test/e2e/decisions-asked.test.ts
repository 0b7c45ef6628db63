import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import http, { type IncomingMessage, type RequestOptions } from 'node:http';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { z } from 'zod';
import { temporaryFolder } from '../support/files.ts';
import { openServer, policyEnvironment } from '../support/open-policy.ts';
import { freePort } from '../support/ports.ts';
import { runSallyport, type Sallyport, startSallyport } from '../support/sallyport.ts';
import { startSniffingApp } from '../support/sniffing-app.ts';

/** `/decisions` of a running proxy, and what `suggest --from` and `replay --from` make of it. */
t.setTimeout(900_000);

const schemaFile = join(resolve(import.meta.dirname, '../..'), 'lib/records/decision.schema.json');
const schema = z.fromJSONSchema(JSON.parse(readFileSync(schemaFile, 'utf8')));

interface Answer {
  readonly status: number | undefined;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

async function ask(port: number, path: string, over: RequestOptions = {}): Promise<Answer> {
  const asked = http.get({ port, host: '127.0.0.1', path, agent: false, ...over });
  const [response] = await once(asked, 'response');
  return { status: response.statusCode, headers: response.headers, body: await text(response) };
}

interface Ran {
  readonly sallyport: Sallyport;
  readonly port: number;
  readonly facts: Readonly<Record<string, string>>;
}

/** Anybody may use the port; on `/secret` a header decides. */
async function run(t: Test, env: Readonly<Record<string, string>>): Promise<Ran> {
  const port = await freePort();
  const app = await startSniffingApp(t);
  const documents = policyEnvironment(temporaryFolder(t), `${openServer('web', port, 'HTTP/1')}${routes}`);
  const facts = { ...documents, SALLYPORT_ADMIN_LISTEN: `127.0.0.1:${await freePort()}` };
  const listen = { SALLYPORT_INBOUND_PORTS: `[127.0.0.1]:${port}=127.0.0.1:${app.port}` };
  return { sallyport: await startSallyport(t, { env: { ...facts, ...env, ...listen } }), port, facts };
}

const routes = `---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: { name: orders, namespace: shop }
spec:
  parentRefs: [{ group: policy.linkerd.io, kind: Server, name: web }]
  rules:
    - matches: [{ path: { value: /orders } }, { path: { value: /public } }]
    - matches: [{ path: { value: /secret }, headers: [{ name: authorization, value: Bearer known }] }]
`;

const rows: readonly (readonly [title: string, env: Readonly<Record<string, string>>])[] = [
  ['each by itself', {}],
  ['counted', { SALLYPORT_DECISIONS_INTERVAL: '1h' }],
  ['by two workers', { SALLYPORT_WORKERS: '2' }],
  ['counted by two workers', { SALLYPORT_WORKERS: '2', SALLYPORT_DECISIONS_INTERVAL: '1h' }],
];
for (const [title, env] of rows) {
  t.test(`what was decided is asked for: ${title}`, async (t) => {
    const file = join(temporaryFolder(t), 'decisions.jsonl');
    const { sallyport, port, facts } = await run(t, {
      SALLYPORT_DECISIONS: 'all',
      SALLYPORT_DECISIONS_FILE: file,
      ...env,
    });
    for (let i = 0; i < 30; i++) await ask(port, `/orders/${i % 3}`);
    for (let i = 0; i < 10; i++) await ask(port, '/nowhere');
    await ask(port, '/secret', { headers: { authorization: 'Bearer unknown' } });
    await ask(sallyport.adminPort, '/metrics');
    await ask(sallyport.adminPort, '/decisions');
    const { status, headers, body } = await ask(sallyport.adminPort, '/decisions');
    t.match(
      { status, headers },
      { status: 200, headers: { 'content-type': 'application/jsonl', 'sallyport-decisions': '1' } },
    );
    t.notMatch(body, 'Bearer', 'values of header fields are hashed');
    const lines = body
      .trimEnd()
      .split('\n')
      .map((line) => schema.parse(JSON.parse(line)) as Record<string, unknown>);
    const ofAdmin = lines.flatMap(({ path, count = 1, port: at }) =>
      at === sallyport.adminPort ? [[path, count]] : [],
    );
    t.same(ofAdmin, [['/metrics', 1]], 'but for the question itself');
    const counts = lines.flatMap(({ path, count = 1, port: at }) => (at === port ? [[path, count]] : []));
    t.same(counts.sort(), [
      ['/nowhere', 10],
      ['/orders/0', 10],
      ['/orders/1', 10],
      ['/orders/2', 10],
      ['/secret', 1],
    ]);

    const from = `http://127.0.0.1:${sallyport.adminPort}`;
    const replayed = await runSallyport(t, ['replay', '--from', from, '--json'], facts);
    const { same, differences, decisions } = JSON.parse(replayed.stdout);
    t.match({ code: replayed.code, same, differences }, { code: 0, same: decisions, differences: [] }, replayed.stderr);
    t.ok(decisions >= 41);
    const suggested = await runSallyport(t, ['suggest', '--from', from], facts);
    t.equal(suggested.code, 0, suggested.stderr);
    t.match(suggested.stdout, /value: "\/orders\/\[0-9\]\+" \}, method: GET/);
    t.match(suggested.stdout, /# 30 times, by 1 client/);
    t.notMatch(suggested.stdout, /nowhere|secret/, 'what was refused');
    t.notMatch(suggested.stdout, /value: \/decisions/, 'nor what the question itself takes');
    t.match(await sallyport.stop(), { code: 0 });
    const log = join(temporaryFolder(t), 'log');
    writeFileSync(log, readFileSync(file));
    const fromFile = await runSallyport(t, ['suggest', log], facts);
    const policyOf = (text: string): string => text.replaceAll(/#.*/g, '');
    t.equal(policyOf(suggested.stdout), policyOf(fromFile.stdout), 'as the file itself would have it');
  });
}

t.test('a proxy that records nothing says so, and others are not told', async (t) => {
  const { sallyport, facts } = await run(t, { SALLYPORT_ADMIN_LISTEN: `0.0.0.0:${await freePort()}` });
  const off = await ask(sallyport.adminPort, '/decisions');
  t.match(off, { status: 404, body: /^no decisions are recorded: SALLYPORT_DECISIONS is off\n$/ });
  const suggested = await runSallyport(t, ['suggest', '--from', `http://localhost:${sallyport.adminPort}`], facts);
  t.equal(suggested.code, 64);
  t.match(suggested.stderr, '[not-recording]');
  t.equal((await ask(sallyport.adminPort, '/decisions', { host: '127.0.0.2', localAddress: '127.0.0.2' })).status, 403);
  t.equal((await ask(sallyport.adminPort, '/decisions', { headers: { host: 'evil.example' } })).status, 403);
  const elsewhere = await runSallyport(t, ['suggest', '--from', `http://evil.localhost:${sallyport.adminPort}`], facts);
  t.equal(elsewhere.code, 64);
});

t.test('what was refused alone is recorded, and may be allowed', async (t) => {
  const { sallyport, port, facts } = await run(t, {
    SALLYPORT_DECISIONS: 'refused',
    SALLYPORT_DECISIONS_INTERVAL: '1h',
  });
  for (let i = 0; i < 3; i++) await ask(port, i === 0 ? '/orders' : '/nowhere');
  const from = ['suggest', '--from', `http://127.0.0.1:${sallyport.adminPort}`];
  const nothing = await runSallyport(t, from, facts);
  t.match(nothing.stderr, /holds nothing that was allowed/);
  const suggested = await runSallyport(t, [...from, '--refused'], facts);
  t.match(suggested.stdout, /value: \/nowhere/);
  t.notMatch(suggested.stdout, /orders/);
});
