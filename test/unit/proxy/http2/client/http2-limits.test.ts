import type { Socket } from 'node:net';
import v8 from 'node:v8';
import vm from 'node:vm';
import t, { type Test } from 'tap';
import { byThemselves } from '../../../../../lib/drained.ts';
import { BufferBudget } from '../../../../../lib/proxy/fairness/buffer-budget.ts';
import { onInternalFault } from '../../../../../lib/proxy/guard.ts';
import { HeldHeads } from '../../../../../lib/proxy/http/held-heads.ts';
import type { HttpConnection } from '../../../../../lib/proxy/http/request-pipeline.ts';
import { type ClientLane, ClientSession } from '../../../../../lib/proxy/http2/client/client-session.ts';
import type { ClientStream } from '../../../../../lib/proxy/http2/client/client-stream.ts';
import { clientSessionLimits } from '../../../../../lib/proxy/http2/client/limits.ts';
import { reasonName } from '../../../../../lib/proxy/http2/session/protocol.ts';
import { noKeeper } from '../../../../../lib/proxy/kept.ts';
import { outletOf } from '../../../../../lib/proxy/node-writes.ts';
import {
  dataFrame,
  type Fields,
  flag,
  frame,
  type as frameType,
  headerBlock,
  headersFrame,
  preface,
  requestFields,
  resetFrame,
  setting,
  settingsFrame,
  windowFrame,
} from '../../../../support/http2-frames.ts';
import { openClient, startFrameApp } from '../../../../support/http2-peers.ts';
import { connectedPair } from '../../../../support/lane-stage.ts';
import { ip, type Lane, startLane } from '../../../../support/lanes.ts';
import { defaultLimits } from '../../../../support/limits.ts';
import { RawClient } from '../../../../support/raw-http.ts';
import { until } from '../../../../support/until.ts';

/*
 * How long, how much and how often: what the engine bears from a client, and how it ends a connection. The figures are
 * its own; what node:http2 bears is in test/e2e/hardening/http2-floods.test.ts.
 */

const get = (id: number, path = '/', more: Fields = []): Buffer => headersFrame(id, requestFields(path, more));
const post = (id: number, path = '/'): Buffer => headersFrame(id, requestFields(path, [], 'POST'), false);
const id = (i: number): number => 2 * i + 1;
const first = Buffer.concat([preface, settingsFrame([])]);
const { headerTimeoutMs, http2IdleTimeoutMs } = defaultLimits;

interface Accepted {
  readonly client: RawClient;
  readonly socket: Socket;
  readonly session: ClientSession;
  readonly bad: string[];
  readonly reached: string[];
}

/** A session whose clock is the test's: `sweep` says how late it is. */
async function accepted(
  t: Test,
  onRequest: (stream: ClientStream) => void = () => {},
  heads = new HeldHeads(defaultLimits.maxBufferedBytes),
): Promise<Accepted> {
  const bad: string[] = [];
  const reached: string[] = [];
  const budget = new BufferBudget(defaultLimits, { limitReached: (limit) => reached.push(limit) });
  t.teardown(() => budget.close());
  const pipeline = {
    logsAccess: false,
    responded: () => {},
    limits: defaultLimits,
    budget,
    limitReached: (limit: string) => reached.push(limit),
    badRequest: (_connection: HttpConnection, reason: string) => bad.push(reason),
  };
  const lane: ClientLane = {
    pipeline: pipeline as unknown as ClientLane['pipeline'],
    limits: clientSessionLimits(defaultLimits),
    heads,
    request: (_connection, stream) => onRequest(stream),
    forget: () => {},
  };
  const { client, socket } = await connectedPair(t);
  const connection = {
    facts: { client: { ip: ip('192.0.2.1') } },
    scope: { brokenProtocol: () => {} },
    keeper: noKeeper,
  };
  const session = new ClientSession(lane, connection as unknown as HttpConnection, socket);
  session.start(Buffer.alloc(0));
  return { client, socket, session, bad, reached };
}

/** Sends, and waits until it has been read. */
async function sent({ client, socket }: Accepted, bytes: Buffer): Promise<void> {
  const before = socket.bytesRead;
  client.send(bytes);
  await until('the bytes to be read', () => socket.bytesRead === before + bytes.length);
}

const beginnings: readonly (readonly [title: string, packets: readonly Buffer[]])[] = [
  ['nothing at all', []],
  ['half a preface', [preface.subarray(0, 10)]],
  ['no SETTINGS', [preface]],
  ['half of HEADERS', [first, get(1).subarray(0, 20)]],
  ['the length of a frame, and then some of it', [first, get(1).subarray(0, 3), get(1).subarray(3, 20)]],
  ['a header block that goes on', [first, frame(frameType.headers, 0, 1, headerBlock(requestFields('/')))]],
  ['half of SETTINGS', [first, settingsFrame([[1, 1]]).subarray(0, 12)]],
];

t.test('what begins must come to its end', async (t) => {
  for (const [title, packets] of beginnings) {
    await t.test(title, async (t) => {
      const from = performance.now();
      const connection = await accepted(t);
      for (const packet of packets) await sent(connection, packet);
      const { session, client } = connection;
      session.sweep(from + headerTimeoutMs - 1000);
      t.notOk(session.over, 'there is time left');
      session.sweep(performance.now() + headerTimeoutMs + 1000);
      t.ok(session.over);
      t.ok(await until('the end of the connection', () => client.ended), 'the connection ends');
      t.same(connection.bad, ['header block not complete in time']);
    });
  }
});

const patient: readonly (readonly [title: string, packets: readonly Buffer[]])[] = [
  ['an idle connection', [first]],
  ['one that waits for a response', [first, get(1)]],
  ['half of DATA', [first, post(1), dataFrame(1, 'hello').subarray(0, 12)]],
];

t.test('what is complete may wait', async (t) => {
  for (const [title, packets] of patient) {
    await t.test(title, async (t) => {
      const connection = await accepted(t);
      for (const packet of packets) await sent(connection, packet);
      connection.session.sweep(performance.now() + 5 * headerTimeoutMs);
      t.notOk(connection.session.over);
    });
  }
});

t.test('a connection that nobody uses is drained', async (t) => {
  const connection = await accepted(t);
  const { session, client, reached } = connection;
  await sent(connection, first);
  const now = performance.now();
  session.sweep(now);
  session.sweep(now + http2IdleTimeoutMs - 1000);
  t.notOk(session.over, 'there is time left');
  await sent(connection, get(1));
  session.sweep(now + 2 * http2IdleTimeoutMs);
  session.sweep(now + 4 * http2IdleTimeoutMs);
  t.notOk(session.over, 'a request may take its time');
  await sent(connection, resetFrame(1, 8));
  session.sweep(now + 4 * http2IdleTimeoutMs);
  t.notOk(session.over, 'time begins anew');
  session.sweep(now + 5 * http2IdleTimeoutMs);
  t.ok(session.over);
  t.ok(await until('the end of the connection', () => client.ended), 'the connection ends');
  t.same(reached, ['http2_idle_timeout']);
});

/** The last streams of all GOAWAY frames among these bytes. */
function lastStreams(bytes: Buffer): number[] {
  const last: number[] = [];
  for (let at = 0; at + 9 <= bytes.length; at += 9 + bytes.readUIntBE(at, 3)) {
    if (bytes[at + 3] === frameType.goaway) last.push(bytes.readUInt32BE(at + 9));
  }
  return last;
}

t.test('a stop behind a drain names no higher stream, for which clients end the connection', async (t) => {
  const rows: readonly (readonly [title: string, steps: readonly ('drain' | 'announce')[], told: readonly number[]])[] =
    [
      ['a stop', ['announce', 'drain'], [2 ** 31 - 1, 1]],
      ['a drain of its own, then a stop', ['drain', 'announce', 'drain'], [1]],
    ];
  for (const [title, steps, told] of rows) {
    const connection = await accepted(t);
    const { session, client } = connection;
    await sent(connection, Buffer.concat([first, get(1)]));
    for (const step of steps) session[step]();
    // A PING is answered behind all of that.
    await sent(connection, frame(frameType.ping, 0, 0, Buffer.alloc(8, 7)));
    await until('the answer', () => client.received.includes(Buffer.alloc(8, 7)));
    t.same(lastStreams(client.received), told, title);
    t.notOk(client.ended, 'what is in flight goes on');
  }
});

t.test('each beginning has its own time', async (t) => {
  const connection = await accepted(t);
  const { session } = connection;
  await sent(connection, Buffer.concat([first, get(1).subarray(0, 20)]));
  const began = session.session.intake.incompleteSince;
  await until('a later moment', () => performance.now() > Number(began) + 5);
  await sent(connection, Buffer.concat([get(1).subarray(20), get(3).subarray(0, 20)]));
  t.ok(Number(session.session.intake.incompleteSince) > Number(began), 'of a frame behind a frame');
  const block = headerBlock(requestFields('/'));
  await sent(connection, Buffer.concat([get(3).subarray(20), frame(frameType.headers, 0, 5, block)]));
  const blockBegan = session.session.intake.incompleteSince;
  await until('a later moment', () => performance.now() > Number(blockBegan) + 5);
  await sent(connection, frame(frameType.continuation, 0, 5, headerBlock([['x', 'y']])));
  t.equal(session.session.intake.incompleteSince, blockBegan, 'more of a block does not put it off');
  await sent(
    connection,
    Buffer.concat([frame(frameType.continuation, flag.endHeaders, 5), frame(frameType.headers, 0, 7, block)]),
  );
  t.ok(Number(session.session.intake.incompleteSince) > Number(blockBegan), 'of a block behind a block');
});

t.test('the last bytes of a drained connection leave, however slow the client is', async (t) => {
  const connection = await accepted(t);
  const { client, socket, session } = connection;
  client.socket.pause();
  await sent(connection, first);
  // Far more than the kernel takes.
  const bytes = 24 * 2 ** 20;
  socket.write(Buffer.alloc(bytes));
  session.drain();
  // The time that a client has for a last GOAWAY, and more.
  await new Promise((resolve) => setTimeout(resolve, 1300));
  client.socket.resume();
  t.ok(await until('the end of the connection', () => client.ended));
  t.ok(client.receivedLength > bytes, `${client.receivedLength} bytes`);
});

t.test('a connection that broke the rules is not waited for', async (t) => {
  const connection = await accepted(t);
  const { client, socket } = connection;
  client.socket.pause();
  await sent(connection, first);
  socket.write(Buffer.alloc(24 * 2 ** 20));
  client.send(dataFrame(0, 'x'));
  await until('its end', () => socket.destroyed);
});

/** A dear head is one of these bytes, all of them new. */
const turns: readonly (readonly [headBytes: number, heads: number, most: number])[] = [
  [100, 256, 60],
  [4_000, 256, 12],
  [15_000, 60, 3],
];

t.test('of heads that come at once, others have their turn in between', async (t) => {
  for (const [headBytes, heads, most] of turns) {
    let inTurn = 0;
    let mostInTurn = 0;
    let requests = 0;
    const connection = await accepted(t, (stream) => {
      if (inTurn === 0) {
        setImmediate(() => {
          mostInTurn = Math.max(mostInTurn, inTurn);
          inTurn = 0;
        });
      }
      inTurn++;
      requests++;
      stream.respond(200, '', [], false);
    });
    const bytes = times(heads, (i) => get(id(i), `/${i}/${'x'.repeat(headBytes)}`));
    connection.session.session.intake.receive(Buffer.concat([first, bytes]));
    t.ok(requests <= most, `${requests} heads of ${headBytes} bytes at once`);
    await until('all of them', () => requests === heads && inTurn === 0);
    t.ok(mostInTurn <= most, `${mostInTurn} heads of ${headBytes} bytes in one turn`);
    t.notOk(connection.session.over);
    connection.client.destroy();
  }
});

/** In one piece, or in the records of TLS of a client that makes small ones: they are read at once all the same. */
const pieceBytes = [Number.POSITIVE_INFINITY, 1000];

t.test('of content that comes byte by byte, others have their turn in between', async (t) => {
  for (const most of pieceBytes) {
    let inTurn = 0;
    let mostInTurn = 0;
    let bytes = 0;
    const connection = await accepted(t, (stream) => {
      const content = (_bytes: Buffer, from: number, to: number): void => {
        if (inTurn++ === 0) {
          setImmediate(() => {
            mostInTurn = Math.max(mostInTurn, inTurn);
            inTurn = 0;
          });
        }
        bytes += to - from;
        stream.consume(to - from);
      };
      stream.relay = { content, contentEnded() {}, clientGone() {} };
    });
    const all = 20_000;
    const sent = Buffer.concat([first, post(1), times(all, () => dataFrame(1, 'x'))]);
    for (let at = 0; at < sent.length; at += most) {
      connection.session.session.intake.receive(sent.subarray(at, at + most));
    }
    t.ok(bytes <= 2000, `${bytes} frames at once, in pieces of ${most}`);
    await until('all of them', () => bytes === all && inTurn === 0);
    t.ok(mostInTurn <= 2000, `${mostInTurn} frames in one turn`);
    t.notOk(connection.session.over);
    connection.client.destroy();
  }
});

t.test('heads in flight take no more memory than there is, and no client all of it', async (t) => {
  const headBytes = 10_000;
  const heads = new HeldHeads(20 * headBytes, 3 * headBytes);
  const open: ClientStream[] = [];
  const connection = (): Promise<Accepted> => accepted(t, (stream) => open.push(stream), heads);
  const [greedy, other] = [await connection(), await connection()];
  const large = (i: number): Buffer => get(id(i), '/', [[`x-${i}`, 'a'.repeat(headBytes - 300)]]);
  await sent(greedy, Buffer.concat([first, times(30, large)]));
  await until('the last of them', () => greedy.reached.length + open.length === 30);
  t.equal(open.length, 20, 'as many as there is room for');
  t.same(new Set(greedy.reached), new Set(['max_buffered_bytes']));
  t.notOk(greedy.session.over, 'the others are refused, and may come again');
  await sent(other, Buffer.concat([first, times(5, large)]));
  await until('the last of them', () => other.reached.length + open.length === 25);
  t.equal(open.length, 23, 'somebody else has room for a few');
  for (const stream of open.splice(0)) stream.respond(200, '', [], false);
  await sent(
    greedy,
    times(20, (i) => large(30 + i)),
  );
  await until('twenty more', () => open.length === 20);
  greedy.session.destroy();
  other.session.destroy();
  open.length = 0;
  const late = await connection();
  await sent(late, Buffer.concat([first, times(20, large)]));
  await until('a later client to have all the room', () => open.length === 20);
});

t.test('a fault while one connection is written to ends that one alone', async (t) => {
  const faults: unknown[] = [];
  t.teardown(onInternalFault(({ error }) => faults.push(error)));
  const answer = (stream: ClientStream): void => stream.respond(204, '', [], false);
  const [faulty, sound] = [await accepted(t, answer), await accepted(t, answer)];
  await sent(faulty, first);
  await sent(sound, first);
  for (let round = 0; round < 3; round++) {
    const before = sound.client.receivedLength;
    const error = new Error('a fault of ours');
    outletOf(faulty.socket).put = () => {
      throw error;
    };
    // In one turn, the faulty one first.
    faulty.session.session.intake.receive(get(id(round)));
    sound.session.session.intake.receive(get(id(round)));
    await until('the response on the sound one', () => sound.client.receivedLength > before);
    t.same(faults, [error], 'it is told once');
    t.ok(faulty.socket.destroyed);
  }
});

t.test('a stream that is reset while it waits for room is let go', async (t) => {
  v8.setFlagsFromString('--expose-gc');
  const collect = vm.runInNewContext('gc') as () => void;
  const streams: WeakRef<ClientStream>[] = [];
  const connection = await accepted(t, (stream) => {
    streams.push(new WeakRef(stream));
    stream.respond(200, '', [], true);
    stream.write(Buffer.alloc(1000));
    stream.end([]);
  });
  await sent(connection, Buffer.concat([preface, settingsFrame([[setting.initialWindowSize, 0]])]));
  for (let i = 0; i < 100; i++) await sent(connection, Buffer.concat([get(id(i)), resetFrame(id(i), 8)]));
  t.equal(streams.length, 100);
  await until('them to be collected', () => {
    collect();
    // The last one may still be on the stack.
    return streams.filter((stream) => stream.deref() !== undefined).length < 5;
  });
});

const none: readonly Buffer[] = [];

function times(count: number, make: (i: number) => Buffer): Buffer {
  return Buffer.concat(Array.from({ length: count }, (_, i) => make(i)));
}

const calm = 'ENHANCE_YOUR_CALM';

interface Flood {
  readonly title: string;
  readonly settings?: readonly (readonly [number, number])[];
  readonly before?: readonly Buffer[];
  readonly send: Buffer;
  /** The code of GOAWAY; null where the connection lives. */
  readonly ends: string | null;
}

const floods: readonly Flood[] = [
  {
    title: '900 resets',
    send: times(900, (i) => Buffer.concat([get(id(i), '/hold'), resetFrame(id(i), 8)])),
    ends: null,
  },
  {
    title: '1,200 resets',
    send: times(1_200, (i) => Buffer.concat([get(id(i), '/hold'), resetFrame(id(i), 8)])),
    ends: calm,
  },
  {
    title: '3,000 resets (CVE-2023-44487)',
    send: times(3_000, (i) => Buffer.concat([get(id(i), '/hold'), resetFrame(id(i), 8)])),
    ends: calm,
  },
  {
    title: '3,000 streams that we must reset (CVE-2025-8671)',
    send: times(3_000, (i) => Buffer.concat([post(id(i), '/hold'), windowFrame(id(i), 0)])),
    ends: calm,
  },
  {
    title: '3,000 windows that overflow',
    send: times(3_000, (i) => Buffer.concat([post(id(i), '/hold'), windowFrame(id(i), 2 ** 31 - 1)])),
    ends: calm,
  },
  {
    title: '3,000 frames on streams that are half closed',
    send: times(3_000, (i) => Buffer.concat([get(id(i), '/hold'), dataFrame(id(i), 'x')])),
    ends: calm,
  },
  { title: '3,000 malformed requests', send: times(3_000, (i) => get(id(i), '/', [['connection', 'x']])), ends: calm },
  { title: '3,000 streams beyond the limit', send: times(3_300, (i) => get(id(i), '/hold')), ends: calm },
  {
    title: 'CONTINUATION without end (CVE-2024-27983)',
    send: Buffer.concat([
      frame(frameType.headers, 0, 1),
      times(40, () => frame(frameType.continuation, 0, 1, Buffer.alloc(8_000))),
    ]),
    ends: calm,
  },
  {
    title: 'empty CONTINUATION without end',
    send: Buffer.concat([frame(frameType.headers, 0, 1), times(200, () => frame(frameType.continuation, 0, 1))]),
    ends: calm,
  },
  {
    title: 'a block in 60 pieces',
    send: Buffer.concat([
      frame(frameType.headers, flag.endStream, 1, headerBlock(requestFields('/'))),
      times(59, (i) => frame(frameType.continuation, i === 58 ? flag.endHeaders : 0, 1)),
    ]),
    ends: null,
  },
  {
    title: '30,000 SETTINGS (CVE-2019-9515)',
    send: times(30_000, (i) => settingsFrame([[setting.initialWindowSize, 65_535 + (i % 2)]])),
    ends: calm,
  },
  {
    title: 'SETTINGS of 2,000 settings, ten times',
    send: times(10, () => settingsFrame(Array.from({ length: 2_000 }, () => [0xff, 1] as const))),
    ends: calm,
  },
  {
    title: '30,000 PINGs (CVE-2019-9512)',
    send: times(30_000, () => frame(frameType.ping, 0, 0, Buffer.alloc(8))),
    ends: calm,
  },
  {
    title: '30,000 empty DATA frames (CVE-2019-9518)',
    before: [post(1, '/hold')],
    send: times(30_000, () => dataFrame(1, '')),
    ends: calm,
  },
  {
    title: '30,000 frames of nothing but padding',
    before: [post(1, '/hold')],
    send: times(30_000, () => frame(frameType.data, flag.padded, 1, Buffer.of(0))),
    ends: calm,
  },
  {
    title: '30,000 PRIORITY (CVE-2019-9513)',
    send: times(30_000, () => frame(frameType.priority, 0, 1, Buffer.from([0, 0, 0, 3, 16]))),
    ends: calm,
  },
  { title: '30,000 WINDOW_UPDATE', send: times(30_000, () => windowFrame(0, 1)), ends: calm },
  { title: '30,000 frames of unknown types', send: times(30_000, () => frame(0xfa, 0, 0)), ends: calm },
  { title: '30,000 GOAWAY', send: times(30_000, () => frame(frameType.goaway, 0, 0, Buffer.alloc(8))), ends: calm },
  { title: '30,000 resets of one stream', before: [get(1)], send: times(30_000, () => resetFrame(1, 8)), ends: calm },
  { title: '5,000 PINGs', send: times(5_000, () => frame(frameType.ping, 0, 0, Buffer.alloc(8))), ends: null },
];

async function startHolding(t: Test): Promise<{ lane: Lane; app: Awaited<ReturnType<typeof startFrameApp>> }> {
  const app = await startFrameApp(t, {
    onEnd: ({ connection, id, path }) => {
      if (path !== '/hold') connection.send(headersFrame(id, [[':status', '200']]));
    },
  });
  return { app, lane: await startLane(t, { engine: 'fast', protocol: 'http2', app: app.port }) };
}

t.test('floods', async (t) => {
  for (const { title, before = none, send, ends } of floods) {
    await t.test(title, async (t) => {
      const { lane } = await startHolding(t);
      const client = await openClient(t, lane.port);
      client.send(...before);
      await client.lives();
      client.send(send);
      const lives = await client.lives();
      t.equal(lives, ends === null);
      t.equal(client.goaway === null ? null : reasonName(client.goaway.code), ends);
      const other = await openClient(t, lane.port);
      other.send(get(1));
      t.equal(await other.over(1), '200', 'another client is served');
    });
  }
});

t.test('what a busy client does is no flood', async (t) => {
  const { lane } = await startHolding(t);
  const client = await openClient(t, lane.port);
  // More requests than any of the limits above, each with room given and a PING.
  for (let round = 0; round < 150; round++) {
    const ids = Array.from({ length: 100 }, (_, i) => id(round * 100 + i));
    client.send(...ids.map((one) => get(one)));
    for (const one of ids) if ((await client.over(one)) !== '200') t.fail(`${one}: ${client.outcome(one)}`);
  }
  t.ok(await client.lives());
});

t.test('a bound of heads above what a setting can say', async (t) => {
  const app = await startFrameApp(t, {
    onEnd: ({ connection, id }) => connection.send(headersFrame(id, [[':status', '200']])),
  });
  const limits = { maxHeaderBytes: 2 ** 40 };
  const lane = await startLane(t, { engine: 'fast', protocol: 'http2', app: app.port, limits });
  const client = await openClient(t, lane.port);
  client.send(get(1));
  t.equal(await client.over(1), '200');
});

t.test('nor is a client that gives room for every few bytes it has read', async (t) => {
  const size = 8 * 2 ** 20;
  const app = await startFrameApp(t, {
    onEnd: ({ connection, id }) => {
      connection.send(headersFrame(id, [[':status', '200']], false));
      void connection.body(id, Buffer.alloc(size));
    },
  });
  const lane = await startLane(t, { engine: 'fast', protocol: 'http2', app: app.port });
  const client = await openClient(t, lane.port, { consumes: false });
  client.send(get(1));
  // As Go's HTTP/2 does it for a reader of small pieces.
  for (let given = 0; given < size && !client.ended; ) {
    await client.until('more', () => client.message(1).bytes > given || client.ended);
    const { bytes } = client.message(1);
    client.send(
      ...Array.from({ length: Math.ceil((bytes - given) / 512) }, () => [
        windowFrame(0, 512),
        windowFrame(1, 512),
      ]).flat(),
    );
    given = bytes;
  }
  t.equal(await client.over(1), '200');
  t.equal(client.message(1).bytes, size);
});

t.test('GOAWAY: announced, then final; what is under way ends, what is new is refused', async (t) => {
  const { lane, app } = await startHolding(t);
  const client = await openClient(t, lane.port);
  client.send(get(1, '/hold'));
  await until('the request', () => app.requests.length === 1);
  lane.live.announceDrain();
  await client.until('the announcement', () => client.goaway !== null);
  t.same(client.goaway, { last: 2 ** 31 - 1, code: 0 });
  client.send(get(3));
  t.equal(await client.over(3), '200', 'it refuses nothing yet');
  const drained = lane.live.drain(10_000);
  await client.until('the last GOAWAY', () => client.goaway?.last === 3);
  client.send(get(5), post(7), dataFrame(7, 'x', true));
  t.equal(await client.over(5), 'REFUSED_STREAM');
  t.equal(await client.over(7), 'REFUSED_STREAM');
  t.equal(app.requests.length, 2);
  t.ok(await client.lives());
  const [held] = app.requests;
  held?.connection.send(headersFrame(held.id, [[':status', '200']]));
  t.equal(await client.over(1), '200');
  t.same(await drained, byThemselves, 'and then it has drained by itself');
  await client.until('the end', () => client.ended);
});

t.test('the last stream of a GOAWAY never goes up again', async (t) => {
  const { lane, app } = await startHolding(t);
  const client = await openClient(t, lane.port);
  client.send(get(1, '/hold'));
  await until('the request', () => app.requests.length === 1);
  void lane.live.drain(10_000);
  await client.until('the last GOAWAY', () => client.goaway?.last === 1);
  client.send(get(5));
  t.equal(await client.over(5), 'REFUSED_STREAM');
  client.send(dataFrame(0, 'x'));
  await client.until('the end', () => client.ended);
  t.same(client.goaway, { last: 1, code: 1 });
});

t.test('an idle connection is drained at once', async (t) => {
  const { lane } = await startHolding(t);
  const client = await openClient(t, lane.port);
  await client.lives();
  t.same(await lane.live.drain(5000), byThemselves);
  t.same(client.goaway, { last: 0, code: 0 });
});

t.test('the preface', async (t) => {
  await t.test('byte by byte, with everything behind it', async (t) => {
    const { lane } = await startHolding(t);
    const client = await RawClient.open({ port: lane.port });
    t.teardown(() => client.destroy());
    await client.sendByteByByte(Buffer.concat([first, get(1), post(3), dataFrame(3, 'abc', true)]));
    await until('both answers', () => client.received.includes(Buffer.from([1, 5, 0, 0, 0, 3, 0x88])));
    t.ok(client.received.includes(Buffer.from([1, 5, 0, 0, 0, 1, 0x88])));
    t.notOk(client.ended);
  });
  await t.test('another one', async (t) => {
    const { lane } = await startHolding(t);
    const client = await RawClient.open({ port: lane.port });
    t.teardown(() => client.destroy());
    client.send(Buffer.from('PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n'));
    t.ok(await until('the end of the connection', () => client.ended));
    t.same(lane.counts.badRequests, ['no HTTP/2 preface']);
  });
});
