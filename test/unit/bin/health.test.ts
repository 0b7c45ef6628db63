import t from 'tap';
import { createHealthServer } from '../../../lib/ops/health-server.ts';
import { freePort } from '../../support/ports.ts';
import { runSallyport } from '../../support/sallyport.ts';
import { until } from '../../support/until.ts';

t.test('asks the health server that the environment names', async (t) => {
  const missing: string[] = ['policy'];
  let asked = 0;
  const server = createHealthServer({
    ready: () => {
      asked++;
      return { ready: missing.length === 0, missing };
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
  t.match(await ask(`127.0.0.1:${nobody}`, '--live'), { code: 1, stderr: /ECONNREFUSED/ });
  const url = `http://127.0.0.1:${port}/ready`;
  const said = await ask(`127.0.0.1:${port}`, '--json');
  t.match(said, { code: 0, stderr: '' });
  t.match(JSON.parse(said.stdout), { ok: true, url, said: /^200/ });
  const unsaid = await ask(`127.0.0.1:${nobody}`, '--json');
  t.match(unsaid, { code: 1, stderr: /ECONNREFUSED/ });
  t.match(JSON.parse(unsaid.stdout), { ok: false, said: /ECONNREFUSED/ });
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
