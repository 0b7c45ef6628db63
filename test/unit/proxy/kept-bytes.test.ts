/**
 * What is kept in memory for a peer is charged when it is kept: here nobody looks at connections now and then, so that only
 * what is told at once is charged. A flood of such bytes takes as much memory as it may, not as much as comes.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t, { type Test } from 'tap';
import {
  flag,
  frame,
  type as frameType,
  headerBlock,
  preface,
  requestFields,
  settingsFrame,
} from '../../support/http2-frames.ts';
import { engines, type Lane, type LaneOptions, startLane } from '../../support/lanes.ts';
import { latin1, offTheFastLane, webSocketLines } from '../../support/raw-http.ts';
import { startSocketApp } from '../../support/socket-app.ts';
import { until, within } from '../../support/until.ts';

const kib = 1024;

/** What the app does with a connection once a request has come; it reads no more, and pours until nobody takes it. */
type AppKind = 'hangs' | 'agrees' | 'pours' | 'answers for ever' | 'takes WebSockets, and pours';

const agreement = 'HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: ';
const chunk = Buffer.alloc(64 * kib, 'y');

function pour(socket: Socket): void {
  const more = (): void => {
    while (!socket.destroyed && socket.write(chunk));
  };
  socket.on('drain', more);
  more();
}

function serve(kind: AppKind, socket: Socket): void {
  if (kind === 'pours') {
    socket.pause();
    pour(socket);
    return;
  }
  let text = '';
  const read = (bytes: Buffer): void => {
    text += bytes.toString('latin1');
    if (!text.includes('\r\n\r\n')) return;
    socket.off('data', read);
    socket.pause();
    const asked = /^upgrade: (\S+)/im.exec(text)?.[1] ?? null;
    if (kind === 'answers for ever') socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n');
    else if (kind !== 'hangs')
      socket.write(asked === null ? 'HTTP/1.1 200 OK\r\n\r\n' : `${agreement}${asked}\r\n\r\n`);
    if (kind === 'answers for ever' || kind === 'takes WebSockets, and pours') pour(socket);
  };
  socket.on('data', read);
}

interface Row {
  readonly title: string;
  readonly lane?: Partial<LaneOptions>;
  readonly app?: AppKind;
  readonly sends: Buffer;
  /** Sent again and again behind that, once the client has heard something where the app agrees first. */
  readonly repeats?: Buffer;
  readonly awaits?: 'an answer';
  /** Bytes that are charged for each connection at least. */
  readonly least: number;
}

const get = (fields: readonly string[], path = '/'): string =>
  `GET ${path} HTTP/1.1\r\n${['Host: a', ...fields].map((line) => `${line}\r\n`).join('')}`;
const many = (bytes: number): readonly string[] =>
  Array.from({ length: bytes / kib }, (_, i) => `X-${100 + i}: ${'a'.repeat(kib - 9)}`);
const upload = (fields: readonly string[]): Buffer =>
  latin1(`POST / HTTP/1.1\r\n${['Host: a', 'Content-Length: 1000000000', ...fields].join('\r\n')}\r\n\r\n`);
const start = Buffer.concat([preface, settingsFrame([])]);
const otherUpgrade = webSocketLines.replace('websocket', 'other');
const small = `${get([])}\r\n`;
const hello = Buffer.concat([
  Buffer.from([22, 3, 1, 0x1f, 0, 1, 0, 0x1e, 0xfc, 3, 3]),
  Buffer.alloc(33),
  // So many bytes of cipher suites.
  Buffer.from([0x1c, 0]),
  Buffer.alloc(6 * kib),
]);
const zeros = Buffer.alloc(64 * kib);
const binary = { protocol: 'opaque' } as const;
const http2 = { protocol: 'http2' } as const;
/** The app gets such a request by HTTP/1. */
const viaHttp1 = headerBlock(requestFields('/', [['l5d-orig-proto', 'HTTP/1.1']]));

/** A field that goes into the table of its connection: each later one is a byte (RFC 7541 6.2.1). */
function indexed(name: string, bytes: number): Buffer {
  const rest = bytes - 127;
  const length = Buffer.from([127, (rest & 127) | 128, rest >> 7]);
  return Buffer.concat([Buffer.from([0x40, name.length]), latin1(name), length, Buffer.alloc(bytes, 'c')]);
}

const incomplete = headerBlock([
  ...requestFields('/'),
  ...Array.from({ length: 40 }, (_, i) => [`x-${i}`, 'a'.repeat(900)] as const),
]);

const partOfBlock = Buffer.concat([
  start,
  frame(frameType.headers, 0, 1, incomplete.subarray(0, 16 * kib)),
  frame(frameType.continuation, 0, 1, incomplete.subarray(16 * kib, 32 * kib)),
]);

const rows: readonly Row[] = [
  { title: 'part of a ClientHello', lane: { protocol: 'detect' }, sends: hello, least: 6 * kib },
  { title: 'part of a head', sends: latin1(get(many(56 * kib))), least: 56 * kib },
  {
    title: 'part of a head that is not plain',
    sends: latin1(get([...offTheFastLane, ...many(40 * kib)])),
    least: 40 * kib,
  },
  { title: 'requests behind one that is served', sends: latin1(small.repeat(1500)), least: 24 * kib },
  { title: 'the same where none is plain', sends: latin1(`${get(offTheFastLane)}\r\n`.repeat(800)), least: 32 * kib },
  { title: 'a large head in flight', sends: latin1(`${get(many(48 * kib))}\r\n`), least: 90 * kib },
  {
    title: 'a large head in flight that is not plain',
    sends: latin1(`${get([...offTheFastLane, ...many(48 * kib)])}\r\n`),
    least: 90 * kib,
  },
  { title: 'an upload to an app that does not read', sends: upload([]), repeats: zeros, least: 16 * kib },
  { title: 'the same, off the fast lane', sends: upload(offTheFastLane), repeats: zeros, least: 16 * kib },
  { title: 'a response that the client does not read', app: 'answers for ever', sends: latin1(small), least: 16 * kib },
  {
    title: 'a WebSocket that the client does not read',
    app: 'takes WebSockets, and pours',
    sends: latin1(`${get([])}${webSocketLines}\r\n`),
    least: 128 * kib,
  },
  {
    title: 'a WebSocket that the app does not read',
    app: 'agrees',
    awaits: 'an answer',
    sends: latin1(`${get([])}${webSocketLines}\r\n`),
    repeats: zeros,
    least: 128 * kib,
  },
  {
    title: 'another upgrade that the client does not read',
    app: 'takes WebSockets, and pours',
    sends: latin1(`${get([])}${otherUpgrade}\r\n`),
    least: 32 * kib,
  },
  {
    title: 'another upgrade that the app does not read',
    app: 'agrees',
    awaits: 'an answer',
    sends: latin1(`${get([])}${otherUpgrade}\r\n`),
    repeats: zeros,
    least: 32 * kib,
  },
  {
    title: 'what comes behind an upgrade before the app agrees',
    sends: Buffer.concat([latin1(`${get([])}${otherUpgrade}\r\n`), Buffer.alloc(20 * kib)]),
    least: 12 * kib,
  },
  {
    title: 'CONNECT to an app that does not read',
    app: 'agrees',
    awaits: 'an answer',
    sends: latin1('CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n'),
    repeats: Buffer.alloc(64 * kib, 1),
    least: 32 * kib,
  },
  { title: 'bytes that the client does not read', lane: binary, app: 'pours', sends: latin1('x'), least: 128 * kib },
  {
    title: 'bytes that the app does not read',
    lane: binary,
    app: 'pours',
    sends: latin1('x'),
    repeats: zeros,
    least: 128 * kib,
  },
  {
    title: 'part of an HTTP/2 frame',
    lane: http2,
    sends: Buffer.concat([
      start,
      frame(frameType.headers, flag.endHeaders, 1, Buffer.alloc(12 * kib)).subarray(0, 8 * kib),
    ]),
    least: 16 * kib,
  },
  {
    title: 'large heads of HTTP/2 in flight, of thirty bytes each',
    lane: http2,
    sends: Buffer.concat([
      start,
      frame(frameType.headers, flag.endHeaders | flag.endStream, 1, Buffer.concat([viaHttp1, indexed('x-big', 3800)])),
      ...[3, 5, 7].map((id) =>
        frame(
          frameType.headers,
          flag.endHeaders | flag.endStream,
          id,
          Buffer.concat([viaHttp1, Buffer.alloc(16, 0xbe)]),
        ),
      ),
    ]),
    least: 3 * 16 * 3800 * 2,
  },
  {
    title: 'part of an HTTP/2 header block',
    lane: http2,
    sends: partOfBlock,
    least: 32 * kib,
  },
];

/** A client that says what the row says, and reads nothing but what it waits for. */
async function open(t: Test, lane: Lane, { sends, repeats, awaits }: Row): Promise<Socket> {
  const socket = connect({ port: lane.port, host: '127.0.0.1', allowHalfOpen: true });
  t.teardown(() => socket.destroy());
  socket.on('error', () => {});
  await once(socket, 'connect');
  socket.write(sends);
  if (awaits !== undefined) {
    await once(socket, 'data');
    socket.pause();
  }
  const more = (): void => {
    if (repeats !== undefined && !socket.destroyed && socket.write(repeats)) setImmediate(more);
  };
  socket.on('drain', more);
  more();
  return socket;
}

t.setTimeout(120_000);

/** What somebody else is answered, on a connection of his own. */
async function answer(t: Test, lane: Lane): Promise<string> {
  const socket = connect({ port: lane.port, host: '127.0.0.1' });
  t.teardown(() => socket.destroy());
  socket.write(latin1(small));
  const [bytes] = (await within('an answer', 5000, once(socket, 'data'))) as [Buffer];
  socket.destroy();
  return bytes.toString('latin1');
}

const connections = 3;

for (const engine of engines) {
  t.test(`${engine}: what is kept is charged when it is kept, and no longer than that`, async (t) => {
    for (const row of rows.filter(({ title }) => (process.env.ROW ?? title) === title)) {
      await t.test(row.title, async (t) => {
        const app = await startSocketApp(t, (socket) => serve(row.app ?? 'hangs', socket));
        const lane = await startLane(t, { engine, app: app.port, ...row.lane });
        // No look now and then.
        lane.live.close();
        const sockets = await Promise.all(Array.from({ length: connections }, () => open(t, lane, row)));
        const wanted = connections * row.least;
        await until('all of it to be charged', () => lane.heldBytes() >= wanted, {
          timeoutMs: 500,
          lastSeen: () => `${lane.heldBytes()} of ${wanted}`,
        });
        for (const socket of sockets) socket.resetAndDestroy();
        for (const socket of app.sockets) socket.destroy();
        await until('nothing to be charged', () => lane.heldBytes() === 0, {
          lastSeen: () => String(lane.heldBytes()),
        });
      });
    }
  });
}

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

const megabyte = 1 << 20;
const flooding = {
  budget: 4 * megabyte,
  clients: 600,
  /** Of the budget, for what has been cut off and not been let go of by the system, and what the test itself takes. */
  factor: 5,
};

t.test('a flood takes as much memory as it may, and nobody beside it is refused', async (t) => {
  const floods: readonly (readonly [title: string, sends: Buffer])[] = [
    ['parts of heads', latin1(get(many(56 * kib)))],
    ['parts of heads that are not plain', latin1(get([...offTheFastLane, ...many(40 * kib)]))],
    ['parts of header blocks', partOfBlock],
  ];
  for (const [title, sends] of floods) {
    await t.test(title, async (t) => {
      const app = await startSocketApp(t, (socket) => serve('agrees', socket));
      const lane = await startLane(t, {
        engine: 'fast',
        app: app.port,
        protocol: 'detect',
        limits: { maxBufferedBytes: flooding.budget },
      });
      const before = process.memoryUsage().arrayBuffers;
      let [most, mostHeld] = [0, 0];
      // What nobody holds any more is not kept, whenever it would be collected.
      const look = (): void => {
        collect();
        most = Math.max(most, process.memoryUsage().arrayBuffers - before);
        mostHeld = Math.max(mostHeld, lane.heldBytes());
      };
      const row = { title, sends, least: 0 };
      for (let i = 0; i < flooding.clients; i++) {
        await open(t, lane, row);
        if (i % 10 === 9) look();
        if (i % 100 === 99) t.match(await answer(t, lane), /^HTTP\/1.1 200 /, 'somebody else is served');
      }
      const sent = flooding.clients * sends.length;
      t.comment(`${most >> 20} MB more for ${sent >> 20} MB, ${mostHeld >> 20} MB of it charged`);
      t.ok(sent > 4 * flooding.budget);
      t.ok(mostHeld <= flooding.budget + 2 * sends.length, `${mostHeld} bytes charged at most`);
      t.ok(most < flooding.factor * flooding.budget, `${most} bytes more at most`);
      t.ok(lane.counts.limits.includes('max_buffered_bytes'));
    });
  }
});
