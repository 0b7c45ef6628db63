/** Several threads that serve: `SALLYPORT_WORKERS`. */
import t from 'tap';
import { usageExit } from '../../lib/errors/exits.ts';
import { scrape } from '../support/metrics.ts';
import { runSallyport, type Sallyport } from '../support/sallyport.ts';
import { served, startTwoWorkers } from '../support/two-workers.ts';
import { until } from '../support/until.ts';
import { order, type WorkerOrder, workerFaults } from '../support/worker-faults.ts';

t.test('a number of workers that is none is refused', async (t) => {
  for (const given of ['0', 'x', '1.5', '-1']) {
    const run = await runSallyport(t, ['run'], { SALLYPORT_WORKERS: given });
    t.equal(run.code, usageExit, given);
    t.match(run.stderr, /^sallyport: SALLYPORT_WORKERS: .*\[bad-count\]$/m, given);
  }
});

/** Connections of each worker; the scrape is one of them. */
async function sharesOf({ adminPort }: Sallyport): Promise<readonly number[]> {
  return (await scrape(adminPort)).find('sallyport_worker_connections').map(({ value }) => value);
}

/** Whether worker 1 has a client. Before it serves it has sockets already: those of its rehearsal. */
async function hasClients({ adminPort }: Sallyport): Promise<boolean> {
  const shown = await scrape(adminPort);
  return shown.sum('sallyport_workers') === 2 && shown.sum('sallyport_worker_connections', { worker: '1' }) >= 2;
}

t.test('two workers share the connections', async (t) => {
  const { sallyport, port } = await startTwoWorkers(t);
  const clients = await Promise.all(Array.from({ length: 32 }, () => served(port)));
  const shares = await sharesOf(sallyport);
  t.equal(shares.length, 2);
  t.ok(
    shares.every((share) => share >= 13 && share <= 20),
    `${shares.join(' and ')} of 33`,
  );
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
    const { sallyport, port, thread } = await startTwoWorkers(t, { env: memory });
    const first = thread();
    await order(first, how);
    const line = await sallyport.waitForLog('the death', ({ code }) => code === 'worker-died', 30_000);
    t.match(line, { level: 'error', worker: 1, why });
    await served(port);
    await until('another thread in its place', () => !['', first].includes(thread()));
    await until('the new one to serve', async () => {
      await served(port);
      return hasClients(sallyport);
    });
    t.match(await sallyport.stop(), { code: 0 });
  });
}

t.test('a worker that takes its place amid many connections has its share of those that follow', async (t) => {
  const { sallyport, port, thread } = await startTwoWorkers(t);
  let isOver = false;
  const come = async (): Promise<void> => {
    // Those of the worker that dies are lost.
    while (!isOver) await served(port).then((client) => client.destroy(), ignored);
  };
  const coming = Array.from({ length: 64 }, come);
  for (let death = 0; death < 3; death++) {
    const before = thread();
    await order(before, 'exit');
    await until('another thread in its place', () => !['', before].includes(thread()));
    await until('it to serve', () => hasClients(sallyport));
  }
  isOver = true;
  await Promise.all(coming);
  await until('all to be gone', async () => (await sharesOf(sallyport)).reduce((sum, each) => sum + each, 0) <= 1);
  const clients = await Promise.all(Array.from({ length: 64 }, () => served(port)));
  const shares = await sharesOf(sallyport);
  t.ok(Math.min(...shares) >= 20, shares.join(' and '));
  for (const client of clients) client.destroy();
  t.match(await sallyport.stop(), { code: 0 });
});

function ignored(): void {}

t.test('where there is no room for a thread, it is tried again', async (t) => {
  const { sallyport, port } = await startTwoWorkers(t, { env: { WORKER_REFUSALS: '2' } });
  const lines = () => sallyport.logs().filter(({ code }) => code === 'worker-died');
  await until('a line of each', () => lines().length >= 2);
  t.match(lines(), [
    { worker: 1, why: 'failed', error: /no thread could be started: .*EAGAIN/, replacedInMs: 100 },
    { worker: 1, why: 'failed', replacedInMs: 200 },
  ]);
  await served(port);
  await until('two to serve', async () => {
    return (await scrape(sallyport.adminPort)).sum('sallyport_workers') === 2;
  });
  t.match(await sallyport.stop(), { code: 0 });
});
