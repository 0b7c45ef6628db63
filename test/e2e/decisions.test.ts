import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { temporaryFolder } from '../support/files.ts';
import { scrape } from '../support/metrics.ts';
import { openServer, policyEnvironment } from '../support/open-policy.ts';
import { freePort } from '../support/ports.ts';
import { runSallyport, type Sallyport, startSallyport } from '../support/sallyport.ts';
import { startSniffingApp } from '../support/sniffing-app.ts';
import { until } from '../support/until.ts';

/** The record of decisions of a running proxy: nothing is missing from it, and it is replayed as it was decided. */
t.setTimeout(900_000);

const requests = 50;

interface Ran {
  readonly sallyport: Sallyport;
  readonly port: number;
  readonly env: Readonly<Record<string, string>>;
}

async function run(t: Test, more: Readonly<Record<string, string>>): Promise<Ran> {
  const port = await freePort();
  const app = await startSniffingApp(t);
  const facts = policyEnvironment(temporaryFolder(t), openServer('web', port, 'HTTP/1'));
  const env = { ...facts, SALLYPORT_DECISIONS: 'all', ...more };
  const listen = { SALLYPORT_INBOUND_PORTS: `[127.0.0.1]:${port}=127.0.0.1:${app.port}` };
  return { sallyport: await startSallyport(t, { env: { ...env, ...listen } }), port, env: facts };
}

/** Allowed and refused in turn, each on a connection of its own, so that all workers have some. */
async function ask(port: number): Promise<void> {
  for (let i = 0; i < requests; i++) {
    const path = i % 2 === 0 ? '/a?token=secret' : '/a%00';
    const [response] = await once(http.get({ port, host: '127.0.0.1', path, agent: false }), 'response');
    await once(response.resume(), 'end');
  }
}

const rows: readonly (readonly [name: string, env: Record<string, string>, where: 'file' | 'stdout'])[] = [
  ['to standard output', {}, 'stdout'],
  ['to a file', {}, 'file'],
  ['refused ones alone', { SALLYPORT_DECISIONS: 'refused' }, 'file'],
  ['counted', { SALLYPORT_DECISIONS_INTERVAL: '1h' }, 'file'],
  ['by two workers', { SALLYPORT_WORKERS: '2' }, 'file'],
  ['counted by two workers', { SALLYPORT_WORKERS: '2', SALLYPORT_DECISIONS_INTERVAL: '1h' }, 'file'],
  ['in the slow lane', { SALLYPORT_HTTP1_FAST_LANE: 'false' }, 'file'],
];
for (const [name, env, where] of rows) {
  t.test(name, async (t) => {
    const file = join(temporaryFolder(t), 'decisions.jsonl');
    const to: Record<string, string> = where === 'file' ? { SALLYPORT_DECISIONS_FILE: file } : {};
    const { sallyport, port, env: facts } = await run(t, { ...env, ...to });
    await ask(port);
    t.match(await sallyport.stop(), { code: 0 });
    const text = where === 'file' ? readFileSync(file, 'utf8') : sallyport.child.stdout();
    t.notMatch(text, 'secret', 'a query that no route looks at is not in it');
    const log = join(temporaryFolder(t), 'log');
    // The log itself, on standard output, holds the refusals once more.
    writeFileSync(
      log,
      text
        .split('\n')
        .filter((line) => line.startsWith('{"decision":1,'))
        .join('\n'),
    );
    if (env.SALLYPORT_DECISIONS_INTERVAL !== undefined) t.ok(text.split('\n').length < 10, 'a few lines');
    const replayed = await runSallyport(t, ['replay', log, '--json'], facts);
    const { decisions, same, differences } = JSON.parse(replayed.stdout);
    t.match(
      { decisions, same, differences, code: replayed.code },
      {
        decisions: env.SALLYPORT_DECISIONS === 'refused' ? requests / 2 : requests,
        same: decisions,
        differences: [],
        code: 0,
      },
    );
  });
}

t.test('a disk that is full holds up nobody, and is counted', async (t) => {
  const { sallyport, port } = await run(t, { SALLYPORT_DECISIONS_FILE: '/dev/full' });
  await ask(port);
  await until('the log to say so', () => sallyport.child.stdout().includes('"msg":"Decisions cannot be recorded"'));
  const figures = await scrape(sallyport.adminPort);
  t.ok(figures.sum('sallyport_decision_records_total') >= requests);
  await ask(port);
  t.match(await sallyport.stop(), { code: 0 });
  const said = sallyport.child.stdout().match(/"msg":"Decisions cannot be recorded"/g);
  t.equal(said?.length, 1, 'one line a minute');
});
