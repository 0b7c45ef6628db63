import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import t, { type Test } from 'tap';
import { http1Outcome, http1Request } from '../../support/attacked-routes.ts';
import { inspectorEnvironment, probeHeap } from '../../support/heap.ts';
import {
  FrameClient,
  flag,
  frame,
  type as frameType,
  headerBlock,
  headersFrame,
  http2Outcome,
  requestFields,
  resetFrame,
  setting,
  settingsFrame,
} from '../../support/http2-frames.ts';
import { openServer, policyEnvironment } from '../../support/open-policy.ts';
import { freePort } from '../../support/ports.ts';
import { type Sallyport, startSallyport } from '../../support/sallyport.ts';
import { patience } from '../../support/until.ts';
import { startWitness } from '../../support/witness.ts';

/*
 * Frames that cost the sender little and the receiver much. Whatever one client does, the proxy's memory stays within a
 * bound, other clients are served meanwhile, and the process ends when it is told to, with nothing left.
 */
interface Attack {
  readonly title: string;
  /** Sends its worst on one connection until it has been cut off or has nothing left to send. */
  run(client: FrameClient): Promise<void>;
  readonly settings?: readonly (readonly [number, number])[];
  /** The connection must be ended by the proxy. */
  readonly ended: boolean;
  readonly connections: number;
}

const mebibyte = 2 ** 20;
/** How far the resident set may grow: most of it is garbage between two collections. */
const maxGrowth = 600 * mebibyte;
/** What may stay in the heap when the attackers are gone: caches, compiled code. A leak of one object a stream is more. */
const maxKept = 12 * mebibyte;

/** Writes the same bytes `count` times with regard to the kernel's buffer, and stops when the peer is gone. */
async function pour(client: FrameClient, chunks: Iterable<Buffer>): Promise<void> {
  const { socket } = client.raw;
  for (const chunk of chunks) {
    if (client.raw.ended || !socket.writable) return;
    if (socket.write(chunk)) continue;
    // A peer that has stopped reading, or is gone, would be waited for here: bounded.
    await Promise.race([new Promise((resolve) => socket.once('drain', resolve)), client.raw.ends(2_000)]);
    if (socket.writableNeedDrain) return;
  }
}

function* repeated(count: number, chunk: Buffer): Iterable<Buffer> {
  for (let i = 0; i < count; i++) yield chunk;
}

function batched(count: number, make: (i: number) => Buffer): Iterable<Buffer> {
  return (function* batches() {
    for (let at = 0; at < count; at += 500) {
      yield Buffer.concat(Array.from({ length: Math.min(500, count - at) }, (_, i) => make(at + i)));
    }
  })();
}

const streamId = (i: number): number => 2 * i + 1;

const attacks: readonly Attack[] = [
  {
    title: '100,000 rapid resets (CVE-2023-44487)',
    connections: 10,
    ended: true,
    run: (client) =>
      pour(
        client,
        batched(10_000, (i) =>
          Buffer.concat([headersFrame(streamId(i), requestFields('/reset')), resetFrame(streamId(i), 8)]),
        ),
      ),
  },
  {
    title: 'resets by protocol errors of ours (CVE-2025-8671, MadeYouReset)',
    connections: 4,
    ended: true,
    // A WINDOW_UPDATE of 0 makes the receiver reset the stream.
    run: (client) =>
      pour(
        client,
        batched(5_000, (i) =>
          Buffer.concat([
            headersFrame(streamId(i), requestFields('/reset'), false),
            frame(frameType.windowUpdate, 0, streamId(i), Buffer.alloc(4)),
          ]),
        ),
      ),
  },
  {
    title: 'endless CONTINUATION (CVE-2024-27983, RUSTSEC-2024-0332)',
    connections: 8,
    ended: true,
    run: async (client) => {
      client.send(frame(frameType.headers, flag.endStream, 1, headerBlock(requestFields('/endless'))));
      const fields = headerBlock(Array.from({ length: 300 }, (_, i) => [`x-${i}`, 'a'.repeat(32)] as const));
      await pour(client, repeated(1_000, frame(frameType.continuation, 0, 1, fields)));
    },
  },
  {
    title: 'endless empty CONTINUATION',
    connections: 8,
    ended: true,
    run: async (client) => {
      client.send(frame(frameType.headers, flag.endStream, 1, headerBlock(requestFields('/endless'))));
      const empty = Buffer.concat(Array.from({ length: 500 }, () => frame(frameType.continuation, 0, 1)));
      await pour(client, repeated(200, empty));
    },
  },
  {
    title: 'a header list of 1,500 fields',
    connections: 8,
    ended: false,
    run: async (client) => {
      const fields = Array.from({ length: 1_500 }, (_, i) => [`x${i}`, ''] as const);
      client.send(headersFrame(1, requestFields('/many', fields)));
      await client.outcome(1);
    },
  },
  {
    title: '100,000 SETTINGS (CVE-2019-9515)',
    connections: 4,
    ended: true,
    run: (client) =>
      pour(
        client,
        batched(100_000, (i) => settingsFrame([[setting.initialWindowSize, 65_535 + (i % 2)]])),
      ),
  },
  {
    title: '100,000 PINGs (CVE-2019-9512)',
    connections: 4,
    ended: true,
    run: (client) => {
      // The responses are not read; otherwise this is only traffic.
      client.raw.socket.pause();
      return pour(
        client,
        batched(100_000, () => frame(frameType.ping, 0, 0, Buffer.alloc(8))),
      );
    },
  },
  {
    title: '100,000 empty DATA frames (CVE-2019-9518)',
    connections: 4,
    ended: false,
    run: async (client) => {
      client.send(headersFrame(1, requestFields('/empty', [], 'POST'), false));
      await pour(
        client,
        batched(100_000, () => frame(frameType.data, 0, 1)),
      );
    },
  },
  {
    title: 'windows that never open (CVE-2019-9517, CVE-2026-21714)',
    connections: 4,
    settings: [[setting.initialWindowSize, 0]],
    ended: false,
    run: (client) =>
      pour(
        client,
        batched(256, (i) => headersFrame(streamId(i), requestFields('/large'))),
      ),
  },
  {
    title: 'window updates beyond the maximum',
    connections: 4,
    ended: true,
    run: (client) =>
      pour(
        client,
        batched(10_000, () => frame(frameType.windowUpdate, 0, 0, Buffer.from([0x7f, 0xff, 0xff, 0xff]))),
      ),
  },
  {
    title: 'bodies that the app does not read',
    connections: 4,
    ended: false,
    run: (client) =>
      pour(
        client,
        batched(256, (i) =>
          Buffer.concat([
            headersFrame(streamId(i), requestFields('/unread', [], 'POST'), false),
            ...Array.from({ length: 4 }, () => frame(frameType.data, 0, streamId(i), Buffer.alloc(16_000))),
          ]),
        ),
      ),
  },
  {
    title: 'frames of unknown types',
    connections: 4,
    ended: false,
    run: (client) =>
      pour(
        client,
        batched(50_000, (i) => frame(0x20 + (i % 200), 0xff, 0, Buffer.alloc(64))),
      ),
  },
  {
    title: 'GOAWAY without end',
    connections: 4,
    ended: false,
    run: (client) =>
      pour(
        client,
        batched(10_000, () => frame(frameType.goaway, 0, 0, Buffer.alloc(1_000))),
      ),
  },
  {
    title: 'a stream that depends on itself, and other violations',
    connections: 4,
    ended: true,
    run: async (client) => {
      client.send(frame(2, 0, 1, Buffer.from([0, 0, 0, 1, 255])), frame(frameType.data, 0, 0, Buffer.alloc(10)));
      await client.raw.ends(5_000);
    },
  },
];

async function serves(t: Test, port: number, when: string): Promise<void> {
  const started = performance.now();
  t.equal(await http1Outcome(port, http1Request('/other')), '200', `HTTP/1 is served ${when}`);
  t.equal(await http2Outcome(port, requestFields('/other')), '200', `HTTP/2 is served ${when}`);
  t.ok(
    performance.now() - started < 2_000 * patience(),
    `within seconds (${Math.round(performance.now() - started)} ms)`,
  );
}

const noProc = process.platform === 'linux' ? false : 'the resident set is read from /proc';
t.setTimeout(1_800_000);

await t.test('floods', { skip: noProc }, async (t) => {
  const chunk = Buffer.alloc(65_536);
  function* large(): Iterable<Buffer> {
    for (let i = 0; i < 64; i++) yield chunk;
  }
  const app = await startWitness(t, (request, response) => {
    response.statusCode = 200;
    if (request.url === '/unread') request.pause();
    else if (request.url === '/large') Readable.from(large()).pipe(response as ServerResponse);
    else (response as ServerResponse).end();
  });
  for (const { title, run, settings = [], ended, connections } of attacks) {
    await t.test(title, { timeout: 600_000 }, async (t) => {
      const port = await freePort();
      const inspector = await inspectorEnvironment();
      const sallyport: Sallyport = await startSallyport(t, {
        env: {
          ...policyEnvironment(t.testdir(), openServer('web', port)),
          SALLYPORT_INBOUND_PORTS: `${port}=127.0.0.1:${app.port}`,
          ...inspector.env,
        },
      });
      await serves(t, port, 'before');
      const heap = await probeHeap(t, sallyport, inspector.port);
      const heapBefore = await heap.usedAfterCollection();
      const before = sallyport.residentBytes();
      let most = before;
      const sampling = setInterval(() => {
        most = Math.max(most, sallyport.residentBytes());
      }, 20);
      t.teardown(() => clearInterval(sampling));
      const once = async (): Promise<void> => {
        const clients = await Promise.all(
          Array.from({ length: connections }, () => FrameClient.open({ port }, settings)),
        );
        const running = Promise.all(clients.map((client) => run(client)));
        await serves(t, port, 'meanwhile');
        await running;
        if (ended) {
          for (const client of clients) client.raw.socket.resume();
          const over = await Promise.all(clients.map((client) => client.raw.ends(10_000)));
          t.notOk(over.includes(false), 'every such connection was ended');
        }
        await serves(t, port, 'while they are open');
        for (const client of clients) client.destroy();
        await serves(t, port, 'afterwards');
      };
      await once();
      await once();
      clearInterval(sampling);
      t.ok(most - before < maxGrowth, `the proxy grew by ${Math.round((most - before) / mebibyte)} MiB at most`);
      const kept = (await heap.usedAfterCollection()) - heapBefore;
      t.ok(kept < maxKept, `and kept ${Math.round(kept / mebibyte)} MiB`);
      heap.detach();
      t.match(await sallyport.stop(), { code: 0 }, 'and it stops with nothing left');
      app.requests.length = 0;
    });
  }
});
