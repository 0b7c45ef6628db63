/**
 * What a test of floods needs beside the flood: an app, and a client that goes on asking, each on a thread of its own, so
 * that neither waits for the attacker's event loop.
 */
import http from 'node:http';
import { createServer as createHttp2Server } from 'node:http2';
import net, { type AddressInfo } from 'node:net';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import type { Teardown } from './children.ts';
import { patience } from './until.ts';

export interface FloodApp {
  readonly http: number;
  /** HTTP/2, of the same targets. */
  readonly http2: number;
  /** Sends for as long as it is let, and reads nothing. */
  readonly firehose: number;
}

/** Latencies in milliseconds, and what went wrong. */
export interface Served {
  /** On connections that it had. */
  readonly kept: readonly number[];
  /** On a new connection each, of those that were asked since the last call. */
  readonly fresh: readonly number[];
  readonly failures: readonly string[];
}

export interface Bystander {
  /** Since the last call, for each port in the order given. */
  take(): Promise<readonly Served[]>;
}

type Role = { readonly role: 'app' } | { readonly role: 'bystander'; readonly ports: readonly number[] };

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

/** `/` answers at once, `/large` with 1 MB, `/pieces` with 64 KB in chunks of one byte, `/hang` never; content is read, unless it is for `/unread`. */
export async function startFloodApp(t: Teardown): Promise<FloodApp> {
  const { ready } = await start<FloodApp>(t, { role: 'app' });
  return ready;
}

/**
 * Asks each port for `/` every few milliseconds on connections that it keeps, and on a new one each tenth time. All from
 * one thread: what delays the asking delays it for all of them.
 */
export async function startBystander(t: Teardown, ports: readonly number[]): Promise<Bystander> {
  const { worker } = await start(t, { role: 'bystander', ports });
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
  const pieces = Buffer.from(
    `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(65_536)}0\r\n\r\n`,
  );
  const web = http.createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
    if (request.url === '/unread') return;
    request.resume();
    if (request.url === '/hang') return;
    if (request.url === '/pieces') {
      request.socket.end(pieces);
      return;
    }
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
  const web2 = createHttp2Server({ settings: { maxConcurrentStreams: 10_000 } }, (request, response) => {
    request.resume();
    if (request.url !== '/hang') response.end(request.url === '/large' ? large : 'ok');
  });
  return { http: await listening(web), http2: await listening(web2), firehose: await listening(firehose) };
}

/** Connections that a bystander has from the start. */
const keptConnections = 16;

interface Asker {
  ask(): void;
  take(): Served;
}

function asker(port: number): Asker {
  // All of them in use, one after the other: one more behind a storm would wait to be accepted.
  const agent = new http.Agent({ keepAlive: true, maxSockets: keptConnections, scheduling: 'fifo' });
  let kept: number[] = [];
  let fresh: number[] = [];
  let failures: string[] = [];
  let count = 0;
  let takenAt = 0;
  const ask = (): void => {
    const started = performance.now();
    const isFresh = count++ % 10 === 0 && count > keptConnections;
    let told = false;
    const fail = (why: string): void => {
      if (!told) failures.push(why);
      told = true;
    };
    const request = http.get(
      { host: '127.0.0.1', port, path: '/', agent: isFresh ? false : agent, timeout: 10_000 * patience() },
      (response) => {
        if (response.statusCode !== 200) fail(`status ${response.statusCode}`);
        response.resume();
        response.once('end', () => {
          const took = performance.now() - started;
          if (!isFresh && request.reusedSocket) kept.push(took);
          // One that waited among those who came before the last call says nothing of the time since.
          else if (started >= takenAt) fresh.push(took);
        });
      },
    );
    request.on('timeout', () => request.destroy(new Error('no response in time')));
    request.on('error', (error) => fail(error.message));
  };
  const take = (): Served => {
    const taken = { kept, fresh, failures };
    kept = [];
    fresh = [];
    failures = [];
    takenAt = performance.now();
    return taken;
  };
  for (let i = 0; i < keptConnections; i++) ask();
  return { ask, take };
}

function bystander(ports: readonly number[]): void {
  const askers = ports.map(asker);
  setInterval(() => {
    for (const each of askers) each.ask();
  }, 10);
  parentPort?.on('message', () => parentPort?.postMessage(askers.map((each) => each.take())));
}

if (!isMainThread && parentPort !== null) {
  const data = workerData as Role;
  if (data.role === 'app') parentPort.postMessage(await app());
  else {
    bystander(data.ports);
    parentPort.postMessage(null);
  }
}
