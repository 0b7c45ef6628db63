import { Worker } from 'node:worker_threads';
import t, { type Test } from 'tap';
import { dataFrame, headersFrame, requestFields } from '../../support/http2-frames.ts';
import { type FramePeer, openClient } from '../../support/http2-peers.ts';
import { openServer, policyEnvironment } from '../../support/open-policy.ts';
import { freePort } from '../../support/ports.ts';
import { startSallyport } from '../../support/sallyport.ts';
import { scheduled } from '../../support/scheduling.ts';
import { attacks, type WorkerJob } from './http2-attacks.ts';

/*
 * While one client does its worst, every request of another one, through the same sessions to the same app, is answered,
 * and in time.
 */

const mebibyte = 2 ** 20;
/** What may wait for the slow, as it is configured here; the resident set holds garbage between collections besides. */
const maxBuffered = 16 * mebibyte;
const maxGrowth = 350 * mebibyte;
const attackMs = 2500;
/**
 * Milliseconds, beside three times what it takes without an attack: of what a request waits longer, only the share in
 * which the proxy ran, and did not wait for a processor itself, is its own doing.
 */
const maxP99 = 50;
/** The attack goes on; a single measurement can be bad luck. No request may fail in any of them. */
const attempts = 4;
/** So many requests say something about how long they take. */
const fewest = 20;

/** Its first message. */
function startWorker(t: Test, job: WorkerJob): Promise<{ readonly said: number; end(): Promise<number> }> {
  const worker = new Worker(new URL('./http2-attacks.ts', import.meta.url), { workerData: job });
  t.teardown(() => worker.terminate());
  return new Promise((resolve, reject) => {
    worker.once('error', reject);
    worker.once('message', (said: number) => resolve({ said, end: () => worker.terminate() }));
  });
}

interface Served {
  readonly requests: number;
  readonly failed: readonly string[];
  readonly p99: number;
}

let nextStream = 1;

/** One request after another, every other one with content, for so long. */
async function served(client: FramePeer, ms: number): Promise<Served> {
  const took: number[] = [];
  const failed: string[] = [];
  const content = Buffer.alloc(3000, 'x');
  for (const until = performance.now() + ms; performance.now() < until; ) {
    const stream = nextStream;
    nextStream += 2;
    const from = performance.now();
    if (took.length % 2 === 0) client.send(headersFrame(stream, requestFields('/')));
    else client.send(headersFrame(stream, requestFields('/', [], 'POST'), false), dataFrame(stream, content, true));
    const outcome = await client.over(stream).catch(() => 'no response');
    took.push(performance.now() - from);
    if (outcome !== '200') failed.push(`${stream}: ${outcome}`);
    if (client.ended) break;
    client.messages.delete(stream);
    client.frames.length = 0;
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  took.sort((a, b) => a - b);
  return { requests: took.length, failed, p99: took[Math.floor(took.length * 0.99)] ?? Number.POSITIVE_INFINITY };
}

t.setTimeout(1_800_000);
const noProc = process.platform === 'linux' ? false : 'the resident set is read from /proc';

await t.test('neighbours', { skip: noProc }, async (t) => {
  for (const attack of Object.keys(attacks)) {
    await t.test(attack, { timeout: 600_000 }, async (t) => {
      const app = await startWorker(t, { attack: '', port: 0 });
      const port = await freePort();
      const sallyport = await startSallyport(t, {
        env: {
          ...policyEnvironment(t.testdir(), openServer('web', port, 'HTTP/2')),
          SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.said}`,
          SALLYPORT_MAX_BUFFERED_BYTES: String(maxBuffered),
        },
      });
      const client = await openClient(t, port);
      nextStream = 1;
      const before = await served(client, 700);
      t.same(before.failed, [], 'it is served before');
      const residentBefore = sallyport.residentBytes();
      const attacker = await startWorker(t, { attack, port });
      let own = Number.POSITIVE_INFINITY;
      let requests = 0;
      for (let attempt = 1; attempt <= attempts && (own >= maxP99 || requests <= fewest); attempt++) {
        const from = scheduled(sallyport.pid);
        const meanwhile = await served(client, attackMs);
        const { ranMs, waitedMs } = scheduled(sallyport.pid, from);
        const grown = sallyport.residentBytes() - residentBefore;
        const share = ranMs / Math.max(1, ranMs + waitedMs);
        own = Math.max(0, meanwhile.p99 - 3 * before.p99) * share;
        t.comment(
          `${meanwhile.requests} requests, p99 ${meanwhile.p99.toFixed(1)} ms, before ${before.p99.toFixed(1)} ms; ran ${ranMs.toFixed(0)} ms, waited ${waitedMs.toFixed(0)} ms`,
        );
        t.same(meanwhile.failed, [], 'every request is answered');
        requests += meanwhile.requests;
        t.ok(grown < maxGrowth, `the proxy has grown by ${Math.round(grown / mebibyte)} MiB`);
      }
      t.ok(requests > fewest, `${requests} of them`);
      t.ok(own < maxP99, `p99 is ${own.toFixed(1)} ms more than before`);
      await attacker.end();
      client.destroy();
      t.match(await sallyport.stop(), { code: 0 }, 'and it stops with nothing left');
    });
  }
});
