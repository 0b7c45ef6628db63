import t from 'tap';
import { createHealthServer } from '../../../lib/ops/health-server.ts';
import { freePort } from '../../support/ports.ts';
import { runSallyport } from '../../support/sallyport.ts';

t.test('asks the health server that the environment names', async (t) => {
  const missing: string[] = ['policy'];
  const server = createHealthServer({
    ready: () => ({ ready: missing.length === 0, missing }),
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
  missing.pop();
  for (const listen of [`0.0.0.0:${port}`, `127.0.0.1:${port}`, `:${port}`]) {
    t.match(await ask(listen), { code: 0, stdout: '', stderr: '' }, listen);
  }
  t.match(await ask(`127.0.0.1:${nobody}`, '--live'), { code: 1, stderr: /ECONNREFUSED/ });
  t.match(await ask('off'), { code: 64, stderr: /is off, so there is nobody to ask/ });
  t.match(await ask(`127.0.0.1:${port}`, '--dead'), { code: 64, stderr: /unknown flag --dead/ });
  t.match(await ask('loud'), { code: 64, stderr: /not that of a running proxy/ });
});
