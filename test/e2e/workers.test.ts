/** Several threads that serve: `SALLYPORT_WORKERS`. */
import t from 'tap';
import { usageExit } from '../../lib/errors/exits.ts';
import { runSallyport } from '../support/sallyport.ts';
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

t.test('two workers share the connections', async (t) => {
  const { sallyport, port, thread } = await startTwoWorkers(t);
  const clients = await Promise.all(Array.from({ length: 32 }, () => served(port)));
  const inWorker = Number(await order(thread(), 'sockets'));
  // Each has one towards the app besides, and the first of them were given to whoever was there.
  t.ok(inWorker >= 20 && inWorker <= 44, `worker 1 has ${inWorker} sockets of 64`);
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
      return Number(await order(thread(), 'sockets')) > 0;
    });
    t.match(await sallyport.stop(), { code: 0 });
  });
}
