import { createServer, type Socket } from 'node:net';
import t from 'tap';
import { askFault } from '../../../bin/ask-fault.ts';
import { createHealthServer } from '../../../lib/ops/health-server.ts';
import { freePort } from '../../support/ports.ts';
import { runSallyport } from '../../support/sallyport.ts';
import { until } from '../../support/until.ts';

t.test('asks the health server that the environment names', async (t) => {
  const missing: string[] = ['policy'];
  const doubts: string[] = [];
  let asked = 0;
  const server = createHealthServer({
    ready: () => {
      asked++;
      return { ready: missing.length === 0, missing, doubts };
    },
    live: () => true,
  });
  const port = await freePort();
  await server.listen('0.0.0.0', port);
  t.teardown(() => server.close());
  const nobody = await freePort();
  const ask = (listen: string, ...args: string[]): ReturnType<typeof runSallyport> =>
    runSallyport(t, ['health', ...args], { SALLYPORT_HEALTH_LISTEN: listen });

  t.match(await ask(`0.0.0.0:${port}`), { code: 1, stdout: '', stderr: /\/ready: 503 .*policy/ }, 'not ready, and why');
  t.match(await ask(`0.0.0.0:${port}`, '--live'), { code: 0, stdout: '', stderr: '' }, 'but it runs');
  t.match(await ask(`127.0.0.1:${port}`, '--wait', '150ms'), { code: 1, stderr: /\/ready: 503 .*policy/ }, 'in vain');
  const awaited = ask(`127.0.0.1:${port}`, '--wait=60s');
  const before = asked;
  await until('it to ask again and again', () => asked > before + 2);
  missing.pop();
  t.match(await awaited, { code: 0, stdout: '', stderr: '' }, 'as soon as it is ready');
  t.match(await ask(`127.0.0.1:${port}`, '--wait', 'long'), { code: 64, stderr: /--wait: .*duration/ });
  for (const listen of [`0.0.0.0:${port}`, `127.0.0.1:${port}`, `:${port}`]) {
    t.match(await ask(listen), { code: 0, stdout: '', stderr: '' }, listen);
  }
  const hint = /\(See that the proxy runs, and that SALLYPORT_HEALTH_LISTEN is its own\.\) \[unhealthy\]\n$/;
  const alone = await ask(`127.0.0.1:${nobody}`, '--live');
  t.match(alone, { code: 1, stderr: `http://127.0.0.1:${nobody}/live: nobody listens there (` });
  t.match(alone.stderr, hint);
  const url = `http://127.0.0.1:${port}/ready`;
  const said = await ask(`127.0.0.1:${port}`, '--json');
  t.match(said, { code: 0, stderr: '' });
  t.match(JSON.parse(said.stdout), { ok: true, url, said: /^200/ });
  doubts.push('policy: a restart would authorize nothing');
  t.match(
    await ask(`127.0.0.1:${port}`),
    {
      code: 0,
      stdout: '',
      stderr: /^sallyport health: warning: policy: a restart would authorize nothing \[stale-files\]\n$/,
    },
    'ready, and yet not well',
  );
  t.match(JSON.parse((await ask(`127.0.0.1:${port}`, '--json')).stdout), { ok: true, said: /a restart/ });
  doubts.pop();
  const unsaid = await ask(`127.0.0.1:${nobody}`, '--json');
  t.match(unsaid, { code: 1, stderr: hint });
  t.match(JSON.parse(unsaid.stdout), { ok: false, said: /^nobody listens there$/ });
  t.match(await ask('off'), { code: 64, stderr: /is off, so there is nobody to ask/ });
  t.match(await ask(`127.0.0.1:${port}`, '--dead'), { code: 64, stderr: /unknown flag --dead/ });
  const inTrouble = { SALLYPORT_HEALTH_LISTEN: `127.0.0.1:${port}`, SALLYPORT_POD_LABELS_FILE: '/absent/labels' };
  t.match(
    await runSallyport(t, ['health'], inTrouble),
    { code: 0, stderr: '' },
    'a running proxy keeps what it has read',
  );
  t.match(await ask('loud'), { code: 64, stderr: /not that of a running proxy/ });
});

t.test('who answers otherwise than a health server is said in words', async (t) => {
  const rows: readonly (readonly [said: string, answer: (socket: Socket) => void])[] = [
    ['the connection broke off', (socket) => socket.end()],
    ['the connection broke off', (socket) => socket.resetAndDestroy()],
    ['the connection broke off', (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nready')],
    ['what answers there speaks no HTTP', (socket) => socket.end('SSH-2.0-OpenSSH_9.2\r\n')],
  ];
  for (const [said, answer] of rows) {
    const server = createServer((socket) => {
      socket.on('error', () => {}).once('data', () => answer(socket));
    });
    const port = await freePort();
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
    t.teardown(() => server.close());
    const done = await runSallyport(t, ['health', '--json'], { SALLYPORT_HEALTH_LISTEN: `127.0.0.1:${port}` });
    t.match(done, { code: 1, stderr: `/ready: ${said} (See that the proxy runs, ` });
    t.equal(JSON.parse(done.stdout).said, said);
  }
});

t.test('why nobody answered, by what the system or the client says', async (t) => {
  const coded = (code: string): Error => Object.assign(new Error('raw'), { code });
  const rows: readonly (readonly [error: unknown, said: string])[] = [
    [coded('EHOSTUNREACH'), 'no way leads there'],
    [coded('ENETUNREACH'), 'no way leads there'],
    [coded('ETIMEDOUT'), 'no answer came in time'],
    [coded('UND_ERR_HEADERS_TIMEOUT'), 'no answer came in time'],
    [coded('UND_ERR_SOCKET'), 'the connection broke off'],
    [coded('ENOTFOUND'), 'nobody knows that name'],
    [coded('HPE_INVALID_CONSTANT'), 'what answers there speaks no HTTP'],
    [new Error('no answer within 5 s'), 'no answer within 5 s'],
    [coded('EOTHER'), 'raw'],
    [Object.assign(new AggregateError([]), { code: 'EOTHER' }), 'EOTHER'],
    ['a word', 'a word'],
  ];
  for (const [error, said] of rows) t.equal(askFault(error), said);
});
