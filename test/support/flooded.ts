/**
 * What a test of floods needs beside the flood: an app, and a client that goes on asking, each on a thread of its own, so
 * that neither waits for the attacker's event loop.
 */
import http from 'node:http';
import net, { type AddressInfo } from 'node:net';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import type { Teardown } from './children.ts';

export interface FloodApp {
  readonly http: number;
  /** Sends for as long as it is let, and reads nothing. */
  readonly firehose: number;
}

export interface Bystander {
  /** Latencies in milliseconds since the last call, and what went wrong. */
  take(): Promise<{ readonly latencies: readonly number[]; readonly failures: readonly string[] }>;
}

type Role = { readonly role: 'app' } | { readonly role: 'bystander'; readonly port: number };

function start<T>(t: Teardown, data: Role): Promise<{ worker: Worker; ready: T }> {
  const worker = new Worker(new URL(import.meta.url), { workerData: data });
  t.teardown(async () => {
    await worker.terminate();
  });
  return new Promise((resolve, reject) => {
    worker.once('error', reject);
    worker.once('message', (ready: T) => resolve({ worker, ready }));
  });
}

/** `/` answers at once, `/large` with 1 MB, `/hang` never; content is read, unless it is for `/unread`. */
export async function startFloodApp(t: Teardown): Promise<FloodApp> {
  const { ready } = await start<FloodApp>(t, { role: 'app' });
  return ready;
}

/** Asks for `/` every few milliseconds on connections that it keeps, and on a new one each tenth time. */
export async function startBystander(t: Teardown, port: number): Promise<Bystander> {
  const { worker } = await start(t, { role: 'bystander', port });
  return {
    take: () =>
      new Promise((resolve) => {
        worker.once('message', resolve);
        worker.postMessage('take');
      }),
  };
}

/** The value below which a share of all lies; 0 where there is none. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}

async function app(): Promise<FloodApp> {
  const large = Buffer.alloc(1 << 20, 'x');
  const web = http.createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
    if (request.url === '/unread') return;
    request.resume();
    if (request.url === '/hang') return;
    request.once('end', () => response.end(request.url === '/large' ? large : 'ok'));
  });
  const chunk = Buffer.alloc(64 * 1024, 'y');
  const firehose = net.createServer((socket) => {
    const pour = (): void => {
      while (!socket.destroyed && socket.write(chunk));
    };
    socket.pause();
    socket.on('drain', pour);
    socket.on('error', () => {});
    pour();
  });
  const listening = (server: net.Server): Promise<number> =>
    new Promise((resolve) => {
      server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, () =>
        resolve((server.address() as AddressInfo).port),
      );
    });
  return { http: await listening(web), firehose: await listening(firehose) };
}

function bystander(port: number): void {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 4 });
  let latencies: number[] = [];
  let failures: string[] = [];
  let count = 0;
  const ask = (): void => {
    const started = performance.now();
    const own = count++ % 10 === 0 ? false : agent;
    let told = false;
    const fail = (why: string): void => {
      if (!told) failures.push(why);
      told = true;
    };
    const request = http.get({ host: '127.0.0.1', port, path: '/', agent: own, timeout: 10_000 }, (response) => {
      if (response.statusCode !== 200) fail(`status ${response.statusCode}`);
      response.resume();
      response.once('end', () => latencies.push(performance.now() - started));
    });
    request.on('timeout', () => request.destroy(new Error('no answer in 10 s')));
    request.on('error', (error) => fail(error.message));
  };
  const timer = setInterval(ask, 10);
  parentPort?.on('message', () => {
    parentPort?.postMessage({ latencies, failures });
    latencies = [];
    failures = [];
  });
  timer.ref();
}

if (!isMainThread && parentPort !== null) {
  const data = workerData as Role;
  if (data.role === 'app') parentPort.postMessage(await app());
  else {
    bystander(data.port);
    parentPort.postMessage(null);
  }
}
