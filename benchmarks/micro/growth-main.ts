/**
 * Prints a MicroResult: the memory of one Sallyport before and after every tenth of a million requests, a third of them on
 * connections kept alive, a third on a connection each, a third over HTTP/2. Fails where the heap grows.
 */

import { setTimeout as delay } from 'node:timers/promises';
import { attachHeapProbe, inspectable } from '../../test/support/heap.ts';
import { startApp } from '../apps/apps.ts';
import { h2load } from '../loads/h2load.ts';
import type { Load } from '../loads/load.ts';
import { divideCores, stayOn } from '../machine.ts';
import { sallyport } from '../peers/sallyport.ts';
import { expectAllowed, expectRefused, originalProtocol } from '../probes.ts';
import { residentBytes } from '../process-usage.ts';
import { answers } from '../rule.ts';
import { slope } from '../statistics.ts';
import { Workbench } from '../workbench.ts';
import { type MicroResult, progress } from './micro.ts';

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));

const steps = 10;
const asked = process.argv.find((arg) => arg.startsWith('--requests='))?.split('=')[1];
const requests = Number(asked ?? (process.argv.includes('--quick') ? 100_000 : 1_000_000));
/**
 * The heap moves by some hundred kilobytes from one collection to the next, by code that is compiled or thrown away. Two
 * bytes held of each of a million requests are more than this.
 */
const mostGrowthBytes = 2 * 2 ** 20;
/** Longer than any step takes; what is slower than this hangs. */
const stepSeconds = 300;
/** What closed a moment ago is still being put away: sockets on both sides, timers of the last requests. */
const settleMs = 1_000;

interface Sample {
  readonly requests: number;
  readonly heapBytes: number;
  readonly residentBytes: number;
}

const ways: readonly { readonly name: string; load(requests: number): Load }[] = [
  { name: 'kept alive', load: (requests) => http1(requests, []) },
  { name: 'a connection each', load: (requests) => http1(requests, ['connection: close']) },
  {
    name: 'HTTP/2',
    load: (requests) =>
      h2load({
        protocol: 'http2',
        connections: 8,
        streams: 16,
        requests,
        headers: [`${originalProtocol.name}: ${originalProtocol.value}`],
        path: '/',
        answerLength: answers.http.length,
      }),
  },
];

function http1(requests: number, headers: readonly string[]): Load {
  return h2load({
    protocol: 'http1',
    connections: 32,
    streams: 1,
    requests,
    headers,
    path: '/',
    answerLength: answers.http.length,
  });
}

/** Least of the first and of the last three: one sample may fall on an unlucky moment, three do not. */
function growthBytes(samples: readonly Sample[]): number {
  const least = (some: readonly Sample[]): number => Math.min(...some.map(({ heapBytes }) => heapBytes));
  return least(samples.slice(-3)) - least(samples.slice(0, 3));
}

const cores = divideCores();
if (cores === null) throw new Error('two cores are needed: one for the proxy, one for load and app');
stayOn(cores.load);
const bench = new Workbench(cores);
const samples: Sample[] = [];
try {
  const appPort = await startApp(bench, 'http1');
  const [port, inspectorPort] = [await bench.freePort(), await bench.freePort()];
  const site = { bench, name: 'growth', carriage: 'http1', mutualTls: false, listenPort: port, appPort } as const;
  const command = await sallyport.configure(site);
  const env = { ...command.env, ...inspectable(inspectorPort) };
  const { pid } = await bench.start('proxy', { ...command, env }, [port]);
  const probe = { port, app: 'http1', carriage: 'http1', mutualTls: false, credentials: bench.credentials } as const;
  await expectAllowed(probe);
  await expectRefused(probe);
  const heap = await attachHeapProbe(pid, inspectorPort);

  let done = 0;
  const ask = async (count: number): Promise<void> => {
    for (const [i, { name, load }] of ways.entries()) {
      // Thirds whose sum is the whole.
      const share = Math.floor(((i + 1) * count) / ways.length) - Math.floor((i * count) / ways.length);
      progress(`${done} of ${requests} requests, ${name}`);
      await load(share)({ bench, port, host: `127.0.0.1:${port}`, seconds: stepSeconds });
      done += share;
    }
  };
  const sample = async (): Promise<void> => {
    await delay(settleMs);
    const heapBytes = await heap.usedAfterCollection();
    samples.push({ requests: done, heapBytes, residentBytes: residentBytes(pid) });
  };
  // Once around uncounted: code is compiled, pools and caches fill.
  await ask(Math.max(requests / steps, 30_000));
  done = 0;
  await sample();
  for (let step = 1; step <= steps; step++) {
    await ask(Math.round((step * requests) / steps) - done);
    await sample();
  }
  heap.detach();
  await expectAllowed(probe);
  await expectRefused(probe);
} finally {
  await bench.end();
}

const grown = growthBytes(samples);
if (grown > mostGrowthBytes) {
  const heaps = samples.map(({ heapBytes }) => (heapBytes / 2 ** 20).toFixed(1)).join(', ');
  throw new Error(`the heap grew by ${grown} bytes over ${requests} requests; in MiB: ${heaps}`);
}
const mebibytes = (bytes: number): string => (bytes / 2 ** 20).toFixed(2);
const perRequest = (of: (sample: Sample) => number): string =>
  slope(samples.map((sample) => [sample.requests, of(sample)])).toFixed(2);
const result: MicroResult = {
  columns: ['requests', 'heap MiB', 'resident MiB'],
  rows: [
    ...samples.map((sample) => [sample.requests, mebibytes(sample.heapBytes), mebibytes(sample.residentBytes)]),
    ['bytes a request', perRequest(({ heapBytes }) => heapBytes), perRequest((sample) => sample.residentBytes)],
  ],
};
process.stdout.write(JSON.stringify(result));
process.exit(0);
