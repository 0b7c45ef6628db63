/** Several threads that serve: `SALLYPORT_WORKERS`. */
import t, { type Test } from 'tap';
import { usageExit } from '../../lib/errors/exits.ts';
import { temporaryFolder } from '../support/files.ts';
import { openServer, policyEnvironment } from '../support/open-policy.ts';
import { freePort } from '../support/ports.ts';
import { latin1, RawClient } from '../support/raw-http.ts';
import { runSallyport, type Sallyport, startSallyport } from '../support/sallyport.ts';
import { startSniffingApp } from '../support/sniffing-app.ts';
import { until } from '../support/until.ts';
import { order, threadsOf, type WorkerOrder, workerFaults } from '../support/worker-faults.ts';

interface Stage {
  readonly sallyport: Sallyport;
  readonly port: number;
  /** The thread that is worker 1 now. */
  thread(): string;
}

async function startTwo(t: Test, env: Record<string, string> = {}): Promise<Stage> {
  const app = await startSniffingApp(t);
  const port = await freePort();
  const threads = temporaryFolder(t);
  const sallyport = await startSallyport(t, {
    env: {
      ...policyEnvironment(temporaryFolder(t), openServer('web', port)),
      SALLYPORT_INBOUND_PORTS: `127.0.0.1:${port}=127.0.0.1:${app.port}`,
      SALLYPORT_WORKERS: '2',
      ...workerFaults(threads),
      ...env,
    },
  });
  const thread = (): string => threadsOf(threads, 1).at(-1) ?? '';
  await until('worker 1 to take orders', () => thread() !== '');
  return { sallyport, port, thread };
}

async function serves(port: number): Promise<RawClient> {
  const client = await RawClient.open({ port });
  client.send(latin1('GET / HTTP/1.1\r\nHost: web\r\n\r\n'));
  const [response] = await client.responses(['GET']);
  if (response?.status !== 200) throw new Error(`no 200 but ${response?.status}`);
  return client;
}

t.test('a number of workers that is none is refused', async (t) => {
  for (const given of ['0', 'x', '1.5', '-1']) {
    const run = await runSallyport(t, ['run'], { SALLYPORT_WORKERS: given });
    t.equal(run.code, usageExit, given);
    t.match(run.stderr, /^sallyport: SALLYPORT_WORKERS: .*\[bad-count\]$/m, given);
  }
});

t.test('two workers share the connections', async (t) => {
  const { sallyport, port, thread } = await startTwo(t);
  const clients = await Promise.all(Array.from({ length: 32 }, () => serves(port)));
  const inWorker = Number(await order(thread(), 'sockets'));
  t.ok(inWorker > 0, `worker 1 has ${inWorker} sockets`);
  for (const client of clients) client.destroy();
  t.match(await sallyport.stop(), { code: 0 });
});

const deaths: readonly (readonly [how: WorkerOrder, why: string])[] = [
  ['exit', 'exited'],
  ['exhaust', 'out_of_memory'],
];

for (const [how, why] of deaths) {
  t.test(`a worker that dies is replaced: ${why}`, async (t) => {
    const memory = { NODE_OPTIONS: `${workerFaults('').NODE_OPTIONS} --max-old-space-size=128` };
    const { sallyport, port, thread } = await startTwo(t, memory);
    const first = thread();
    await order(first, how);
    const line = await sallyport.waitForLog('the death', ({ code }) => code === 'worker-died', 30_000);
    t.match(line, { level: 'error', worker: 1, why });
    await serves(port);
    await until('another thread in its place', () => !['', first].includes(thread()));
    await until('the new one to serve', async () => {
      await serves(port);
      return Number(await order(thread(), 'sockets')) > 0;
    });
    t.match(await sallyport.stop(), { code: 0 });
  });
}
