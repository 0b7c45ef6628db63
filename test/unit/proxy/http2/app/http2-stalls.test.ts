import t from 'tap';
import { errorCode } from '../../../../../lib/proxy/http2/session/protocol.ts';
import {
  dataFrame,
  type Fields,
  frame,
  goawayFrame,
  headersFrame,
  requestFields,
  setting,
  settingsFrame,
  type,
  windowFrame,
} from '../../../../support/http2-frames.ts';
import { type AppPeer, type FramePeer, okFields, openClient, startFrameApp } from '../../../../support/http2-peers.ts';
import { still } from '../../../../support/lane-stage.ts';
import { type Lane, startLane } from '../../../../support/lanes.ts';
import { until } from '../../../../support/until.ts';

/*
 * What waits for somebody slow: it is bounded over all connections, and so is the time. The client that has stood still longest
 * goes first; others get their responses all the while.
 */

const get = (id: number, path: string, more: Fields = []): Buffer => headersFrame(id, requestFields(path, more));
const post = (id: number, path: string, more: Fields = []): Buffer =>
  headersFrame(id, requestFields(path, more, 'POST'), false);
const id = (i: number): number => 2 * i + 1;
const answerBytes = 60_000;

/** Answers `/large` with 60 kB, `/hang` never, and other paths at once; reads no content of `/unread`. */
async function stage(
  t: Parameters<typeof startFrameApp>[0],
  limits: NonNullable<Parameters<typeof startLane>[1]['limits']>,
) {
  const app = await startFrameApp(t, {
    consumes: false,
    settings: [[setting.maxConcurrentStreams, 10_000]],
    onConnection: (connection) => connection.send(windowFrame(0, 2 ** 30)),
    onEnd: ({ connection, id, path }) => {
      if (path === '/hang') return;
      connection.send(headersFrame(id, okFields, path !== '/large'));
      if (path === '/large') void connection.body(id, Buffer.alloc(answerBytes)).catch(() => {});
    },
  });
  const lane = await startLane(t, { engine: 'fast', protocol: 'http2', app: app.port, limits });
  return { app, lane };
}

async function isServed(
  t: { equal(a: unknown, b: unknown, message: string): void },
  lane: Lane,
  client: FramePeer,
  at: number,
) {
  client.send(get(id(at), '/'));
  t.equal(await client.over(id(at)), '200', 'another client is served');
  t.equal(lane.counts.limits.includes('max_connections'), false, 'without a limit of another kind');
}

t.test('unread responses: no more than the budget, the longest unread go first', async (t) => {
  const maxBufferedBytes = 1 << 20;
  const { lane, app } = await stage(t, { maxBufferedBytes });
  const other = await openClient(t, lane.port);
  const clients: FramePeer[] = [];
  let asked = 0;
  for (let i = 0; i < 8; i++) {
    const client = await openClient(t, lane.port, { consumes: false, settings: [[setting.initialWindowSize, 0]] });
    clients.push(client);
    // 100 times 60 kB: each is more than the budget by itself.
    for (let n = 0; n < 100; n++) client.send(get(id(n), '/large'));
    asked += 100;
    await until('the app to be asked', () => app.requests.filter(({ path }) => path === '/large').length === asked);
    await isServed(t, lane, other, i);
    t.ok(lane.heldBytes() <= maxBufferedBytes, `${lane.heldBytes()} bytes are held`);
  }
  const isReset = (client: FramePeer, stream: number): boolean => client.message(stream).reset !== null;
  await until('the first to be reset', () => isReset(clients[0] as FramePeer, 1));
  t.equal((clients[0] as FramePeer).outcome(1), '200 ENHANCE_YOUR_CALM');
  t.ok(lane.counts.limits.includes('max_buffered_bytes'));
  for (const client of clients) client.destroy();
  await until('nothing to be held', () => lane.heldBytes() === 0);
  await until('every request to be counted out', () => lane.counts.started === lane.counts.ended);
});

t.test('content that the app does not read', async (t) => {
  const maxBufferedBytes = 1 << 20;
  const app = await startFrameApp(t, {
    consumes: false,
    settings: [
      [setting.maxConcurrentStreams, 10_000],
      [setting.initialWindowSize, 0],
    ],
    onEnd: ({ connection, id }) => connection.send(headersFrame(id, okFields)),
  });
  const lane = await startLane(t, { engine: 'fast', protocol: 'http2', app: app.port, limits: { maxBufferedBytes } });
  const other = await openClient(t, lane.port);
  for (let i = 0; i < 4; i++) {
    const client = await openClient(t, lane.port);
    for (let n = 0; n < 40; n++) client.send(post(id(n), '/unread'), dataFrame(id(n), Buffer.alloc(16_000)));
    for (let n = 0; n < 40; n++)
      client.send(dataFrame(id(n), Buffer.alloc(16_000)), dataFrame(id(n), Buffer.alloc(16_000)));
    await client.lives();
    await isServed(t, lane, other, i);
    t.ok(lane.heldBytes() <= maxBufferedBytes, `${lane.heldBytes()} bytes are held`);
  }
  t.ok(lane.counts.limits.includes('max_buffered_bytes'));
});

const asking = [
  { title: 'PING', asked: frame(type.ping, 0, 0, Buffer.alloc(8)) },
  { title: 'SETTINGS', asked: settingsFrame([]) },
];

for (const { title, asked } of asking) {
  t.test(`an app that sends ${title} and reads no answer`, async (t) => {
    const app = await startFrameApp(t, {
      consumes: false,
      settings: [[setting.initialWindowSize, 2 ** 30]],
      onConnection: (connection) => connection.send(windowFrame(0, 2 ** 30)),
    });
    const lane = await startLane(t, { engine: 'fast', protocol: 'http2', app: app.port });
    const client = await openClient(t, lane.port);
    client.send(post(1, '/unread'));
    await until('the request to be there', () => app.requests.length === 1);
    const [session] = app.connections as [AppPeer];
    session.socket.pause();
    void client.body(1, Buffer.alloc(256 << 20)).catch(() => {});
    while (lane.heldBytes() === 0) await still('what the kernel takes', () => lane.heldBytes());
    // As many as are no flood.
    for (let n = 0; n < 9; n++) session.send(Buffer.concat(Array(1000).fill(asked)));
    t.equal(await client.over(1), '502');
    await isServed(t, lane, await openClient(t, lane.port), 0);
    t.equal(app.connections.length, 2, 'on another session');
    session.socket.resume();
    await until('why it was ended', () => session.goaway !== null);
    t.equal(session.goaway?.code, errorCode.enhanceYourCalm);
  });
}

const beginnings = [
  { title: 'header blocks', held: frame(type.continuation, 0, 1, Buffer.alloc(16_000)), times: 6 },
  { title: 'frames', held: frame(type.headers, 0, 3, Buffer.alloc(16_000)).subarray(0, 8000), times: 1 },
];

for (const { title, held, times } of beginnings) {
  t.test(`${title} that do not come to their end`, async (t) => {
    const maxBufferedBytes = 1 << 19;
    const { lane } = await stage(t, { maxBufferedBytes });
    const other = await openClient(t, lane.port);
    const clients: FramePeer[] = [];
    for (let i = 0; i < 60; i++) {
      const client = await openClient(t, lane.port);
      clients.push(client);
      // Its ACK of the proxy's SETTINGS may not stand within a block.
      await client.lives();
      if (times > 1) client.send(frame(type.headers, 0, 1));
      for (let n = 0; n < times; n++) client.send(held);
    }
    await until('the first of them to be cut off', () => clients.some(({ ended }) => ended));
    await until('the rest to be within the bound', () => lane.heldBytes() <= maxBufferedBytes);
    t.same([...new Set(lane.counts.limits)], ['max_buffered_bytes']);
    await isServed(t, lane, other, 0);
  });
}

t.test('a response that nobody reads for long is given up, one that moves is not', async (t) => {
  const { lane } = await stage(t, { stallTimeoutMs: 1500 });
  const still = await openClient(t, lane.port, { consumes: false, settings: [[setting.initialWindowSize, 0]] });
  const slow = await openClient(t, lane.port, { consumes: false, settings: [[setting.initialWindowSize, 0]] });
  still.send(get(1, '/large'));
  slow.send(get(1, '/large'));
  const given = setInterval(() => slow.send(windowFrame(1, 100)), 100);
  t.teardown(() => clearInterval(given));
  await until('the one to be reset', () => still.message(1).reset !== null);
  t.equal(still.outcome(1), '200 CANCEL');
  t.ok(await still.lives(), 'its connection lives');
  t.equal(slow.outcome(1), '200 open');
  t.same(lane.counts.limits, ['stall_timeout']);
});

t.test('content that does not come is not waited for', async (t) => {
  const { lane } = await stage(t, { stallTimeoutMs: 1500 });
  const client = await openClient(t, lane.port);
  client.send(post(1, '/'), get(3, '/hang'), post(5, '/', [['content-type', 'application/grpc']]));
  await until('it to be given up', () => client.message(1).reset !== null);
  t.equal(client.outcome(1), 'CANCEL');
  t.equal(client.outcome(3), 'nothing', 'an app may take its time');
  t.equal(client.outcome(5), 'nothing', 'a gRPC call may be silent');
  t.ok(await client.lives());
});

t.test('a request that takes too long', async (t) => {
  const { lane } = await stage(t, { requestTimeoutMs: 1000 });
  const client = await openClient(t, lane.port);
  client.send(get(1, '/hang'));
  t.equal(await client.over(1), '504');
  t.same(lane.counts.limits, ['request_timeout']);
  await until('it to be counted out', () => lane.counts.started === lane.counts.ended);
});

t.test('uploads that wait for the room of a session that clients share', async (t) => {
  const window = 65_535;
  const app = await startFrameApp(t, {
    consumes: false,
    settings: [[setting.initialWindowSize, 1 << 20]],
    onEnd: ({ connection, id, path }) => {
      if (path === '/answered') connection.send(headersFrame(id, okFields, true));
    },
  });
  const rows = [
    { title: 'one who has more to come', bytes: 2 * window, outcome: '504', isRetired: false },
    { title: 'the same on a session that takes no more', bytes: 2 * window, outcome: '504', isRetired: true },
    { title: 'a request that is complete', bytes: window - 100, outcome: 'nothing', isRetired: false },
  ] as const;
  const limits = { stallTimeoutMs: 1500 };
  const alone = await startLane(t, { engine: 'fast', protocol: 'http2', app: app.port, limits });
  const own = await openClient(t, alone.port);
  own.send(post(1, '/unread'));
  void own.body(1, Buffer.alloc(2 * window)).catch(() => {});
  const session = (): FramePeer => app.connections.at(-1) as FramePeer;
  const hasCome = (stream: number, bytes: number) =>
    until('content to reach the app', () => session().message(stream).bytes === bytes);
  await until('it to fill its session', () => app.connections.length === 1 && session().message(1).bytes === window);

  for (const { title, bytes, outcome, isRetired } of rows) {
    await t.test(title, { timeout: 90_000 }, async (t) => {
      const lane = await startLane(t, { engine: 'fast', protocol: 'http2', app: app.port, limits });
      const [holder, victim] = [await openClient(t, lane.port), await openClient(t, lane.port)];
      const known = app.connections.length;
      victim.send(post(1, '/answered'), dataFrame(1, Buffer.alloc(100)));
      await until('a session', () => app.connections.length === known + 1 && session().message(1).bytes === 100);
      holder.send(post(1, '/unread'));
      void holder.body(1, Buffer.alloc(bytes)).catch(() => {});
      await hasCome(3, window - 100);
      if (isRetired) session().send(goawayFrame(2 ** 31 - 1));
      await session().lives();
      victim.send(dataFrame(1, Buffer.alloc(1000), true));
      if (outcome === '504') {
        t.equal(await holder.over(1), '504', 'who fills the room and has more to come goes');
        await until('the app to be told', () => session().message(3).reset === 8);
        session().send(windowFrame(0, window));
        t.equal(await victim.over(1), '200', 'and what it held is the others again');
      } else {
        t.equal(await victim.over(1), '504', 'nobody waits for ever');
        t.equal(holder.outcome(1), 'nothing', 'who waits for its response goes on to do so');
        const late = await openClient(t, lane.port);
        late.send(post(1, '/answered'), dataFrame(1, Buffer.alloc(1000), true));
        t.equal(await late.over(1), '200', 'what begins now has another session');
      }
      t.same(lane.counts.limits, ['stall_timeout']);
    });
  }
  t.equal(own.outcome(1), 'nothing', 'where nobody else waits, the app may take its time');
  t.same(alone.counts.limits, []);
});
