import t, { type Test } from 'tap';
import { BufferBudget } from '../../../../../lib/proxy/fairness/buffer-budget.ts';
import type { AppExchange } from '../../../../../lib/proxy/http2/app/app-exchange.ts';
import { AppSession } from '../../../../../lib/proxy/http2/app/app-session.ts';
import { AppSessionPool } from '../../../../../lib/proxy/http2/app/app-session-pool.ts';
import type { Waiting } from '../../../../../lib/proxy/http2/app/waiting-requests.ts';
import { Upstreams } from '../../../../../lib/proxy/upstream/upstreams.ts';
import {
  dataFrame,
  type Fields,
  goawayFrame,
  headersFrame,
  requestFields,
  setting,
  settingsFrame,
  windowFrame,
} from '../../../../support/http2-frames.ts';
import { type FrameApp, type FramePeer, okFields, openClient, startFrameApp } from '../../../../support/http2-peers.ts';
import { connectedPair } from '../../../../support/lane-stage.ts';
import { startLane } from '../../../../support/lanes.ts';
import { defaultLimits } from '../../../../support/limits.ts';
import { until } from '../../../../support/until.ts';
import { admittedForNow, waitingRequest } from '../../../../support/waiting.ts';

/*
 * Sessions to an HTTP/2 app are shared. What one client leaves in them, hanging or unread, is never another's wait, and
 * nobody waits for an app that takes nothing.
 */

const get = (id: number, path = '/'): Buffer => headersFrame(id, requestFields(path));
const post = (id: number, path = '/', more: Fields = []): Buffer =>
  headersFrame(id, requestFields(path, more, 'POST'), false);
const id = (n: number): number => 2 * n + 1;

/** Reads no content but that of `/read`. */
function startLazyApp(t: Test): Promise<FrameApp> {
  return startFrameApp(t, {
    consumes: false,
    onRequest: ({ connection, id, path }) => {
      if (path === '/read') connection.send(windowFrame(id, 1 << 20), windowFrame(0, 1 << 20));
    },
    onEnd: ({ connection, id, path }) => {
      if (path === '/read') connection.send(headersFrame(id, okFields, true));
    },
  });
}

const unread = [
  { title: 'some of every window, each less than would be noticed', clients: 40, uploads: 70, bytes: 15_000 },
  { title: 'all of every window', clients: 100, uploads: 2, bytes: 60_000 },
  { title: 'bytes here and there', clients: 20, uploads: 200, bytes: 900 },
] as const;

for (const { title, clients, uploads, bytes } of unread) {
  t.test(`content that the app leaves unread of ${clients} clients: ${title}`, { timeout: 180_000 }, async (t) => {
    const app = await startLazyApp(t);
    const lane = await startLane(t, { engine: 'fast', protocol: 'http2', app: app.port, maxInFlight: 10_000 });
    const hostile: FramePeer[] = [];
    for (let i = 0; i < clients; i++) {
      const client = await openClient(t, lane.port);
      hostile.push(client);
      for (let n = 0; n < uploads; n++) {
        client.send(post(id(n), '/unread', [['content-length', String(bytes)]]));
        for (let left = bytes; left > 0; left -= 15_000) {
          client.send(dataFrame(id(n), Buffer.alloc(Math.min(left, 15_000)), left <= 15_000));
        }
      }
    }
    for (const client of hostile) await client.lives();
    t.same(
      hostile.filter(({ ended }) => ended).map(({ goaway }) => goaway),
      [],
    );
    t.same(lane.counts.limits, []);
    const late = await openClient(t, lane.port);
    for (let n = 0; n < 10; n++) {
      late.send(post(id(n), '/read'));
      await late.body(id(n), Buffer.alloc(30_000));
      t.equal(await late.over(id(n)), '200', `upload ${n} of another client`);
    }
    t.ok(app.connections.length <= clients + 4, `${app.connections.length} sessions`);
    for (const client of hostile) client.destroy();
    await until('every request to be counted out', () => lane.counts.started === lane.counts.ended);
  });
}

t.test('an app of one stream at a time, and clients with many requests that hang', async (t) => {
  const app = await startFrameApp(t, {
    settings: [[setting.maxConcurrentStreams, 1]],
    onEnd: ({ connection, id, path }) => {
      if (path !== '/hang') connection.send(headersFrame(id, okFields, true));
    },
  });
  const maxConnections = 20;
  const lane = await startLane(t, { engine: 'fast', protocol: 'http2', app: app.port, limits: { maxConnections } });
  const hostile = await Promise.all([openClient(t, lane.port), openClient(t, lane.port)]);
  const ids = Array.from({ length: 50 }, (_, n) => id(n));
  for (const client of hostile) client.send(...ids.map((each) => get(each, '/hang')));
  const refused = (): number =>
    hostile.reduce((sum, client) => sum + ids.filter((each) => client.status(each) === 503).length, 0);
  await until('those above the bound to be refused', () => refused() >= 100 - maxConnections - 2);
  t.ok(app.connections.length <= maxConnections + 2, `${app.connections.length} connections to the app`);
  t.ok(lane.counts.limits.includes('max_connections'));
  for (let i = 0; i < 5; i++) {
    const client = await openClient(t, lane.port);
    for (let n = 0; n < 5; n++) {
      client.send(get(id(n)));
      t.equal(await client.over(id(n)), '200', 'another client has one all the same');
    }
  }
});

t.test('an app that takes no streams', async (t) => {
  // Far more than a connect takes, even where this thread has to wait for a processor.
  const connectTimeoutMs = 1500;
  const app = await startFrameApp(t, { settings: [[setting.maxConcurrentStreams, 0]] });
  const lane = await startLane(t, { engine: 'fast', protocol: 'http2', app: app.port, connectTimeoutMs });
  const client = await openClient(t, lane.port);
  client.send(get(1), post(3), headersFrame(5, requestFields('/', [['content-type', 'application/grpc']], 'POST')));
  t.equal(await client.over(1), '504');
  t.match(await client.over(3), /^504/);
  t.equal(await client.over(5), '200');
  t.match(client.message(5).blocks.at(-1), [
    [':status', '200'],
    ['content-type', 'application/grpc'],
    ['grpc-status', '4'],
  ]);
  t.same(lane.counts.httpErrors, ['i/o', 'i/o', 'i/o']);
  t.equal(app.connections.length, 1, 'no other session is tried');
  t.equal(app.requests.length, 0);
  const session = app.connections[0] as FramePeer;
  const other = await openClient(t, lane.port);
  session.send(settingsFrame([[setting.maxConcurrentStreams, 1]]));
  other.send(get(1));
  t.equal(await other.over(1), '200', 'and a request that comes when it does is served');
  session.send(settingsFrame([[setting.maxConcurrentStreams, 0]]));
  await session.lives();
  other.send(get(3));
  t.equal(await other.over(3), '504', 'later as well');
});

t.test('the end of a session that takes no streams is that of its own requests alone', async (t) => {
  for (const end of ['destroy', 'goaway'] as const) {
    const app = await startFrameApp(t, {
      settings: [[setting.maxConcurrentStreams, 1]],
      onEnd: ({ connection, id, path }) => {
        if (path !== '/hang') connection.send(headersFrame(id, okFields, true));
      },
    });
    const lane = await startLane(t, { engine: 'fast', protocol: 'http2', app: app.port, connectTimeoutMs: 60_000 });
    const clients = [await openClient(t, lane.port), await openClient(t, lane.port)];
    for (const [at, client] of clients.entries()) {
      client.send(get(1, '/hang'));
      await until('a session for it', () => app.requests.length === at + 1);
    }
    const shut = app.connections[0] as FramePeer;
    shut.send(settingsFrame([[setting.maxConcurrentStreams, 0]]));
    await shut.lives();
    const late = await openClient(t, lane.port);
    late.send(get(1), post(3), dataFrame(3, 'content', true));
    await late.lives();
    t.equal(app.connections.length, 2, 'it would take none on another session either, as far as anybody knows');
    if (end === 'goaway') shut.send(goawayFrame(0, 0));
    else shut.destroy();
    t.equal(await late.over(1), '200', 'a request that waits for any session');
    t.equal(await late.over(3), '200', 'and one that wants room for content');
    t.equal(clients[1]?.outcome(1), 'nothing', 'what another session carries goes on');
  }
});

t.test('an app that breaks the rules is told of by the one that it has broken', async (t) => {
  const rows: readonly (readonly [title: string, act: (session: AppSession) => void, rule: RegExp])[] = [
    [
      'bytes of something else',
      ({ intake }) => intake.receive(Buffer.from('HTTP/1.1 400 Bad Request\r\n')),
      /FRAME_SIZE/,
    ],
    ['no SETTINGS first', ({ intake }) => intake.receive(goawayFrame(0, 0)), /PROTOCOL_ERROR/],
    ['more answers than it reads', ({ session }) => session.readsNothing(), /ENHANCE_YOUR_CALM/],
  ];
  const budget = new BufferBudget(defaultLimits, { limitReached: () => {} });
  t.teardown(() => budget.close());
  for (const [title, act, rule] of rows) {
    const { socket } = await connectedPair(t);
    const session = new AppSession(socket, { ready: () => {}, retired: () => {} }, budget);
    act(session);
    t.ok(session.isOver, title);
    t.match(session.fault, { code: 'ERR_SALLYPORT_BAD_RESPONSE', message: rule }, title);
  }
});

t.test('sessions that nobody uses', async (t) => {
  const app = await startFrameApp(t, { settings: [[setting.maxConcurrentStreams, 1]] });
  const recorder = { openDestination: () => ({ closed: () => {} }), limitReached: () => {} };
  const budget = new BufferBudget(defaultLimits, recorder);
  const upstreams = new Upstreams({ connectTimeoutMs: 1000, limits: defaultLimits, recorder, isOwn: () => false });
  const sessions = new AppSessionPool({ host: '127.0.0.1', port: app.port }, upstreams, budget);
  t.teardown(() => {
    sessions.close();
    budget.close();
  });
  const served: AppExchange[] = [];
  const waiting = (room: number): Waiting =>
    waitingRequest({
      room,
      isComplete: false,
      // Those that are open at the end are reset.
      lost: ({ kind }) => kind === 'reset' || t.fail(kind),
      destroy: () => t.fail('nothing is at fault'),
      begun: (stream) => served.push(stream),
    });
  for (let n = 0; n < 5; n++) t.equal(sessions.open(waiting(n === 4 ? 100 : 0), admittedForNow), null);
  await until('a session for each', () => served.length === 5);
  const now = performance.now();
  sessions.sweep(now);
  sessions.sweep(now + 60_000);
  t.equal(app.connections.filter(({ ended }) => ended).length, 0, 'those in use stay');
  for (const stream of served) stream.abandon();
  sessions.sweep(now + 61_000);
  sessions.sweep(now + 70_000);
  t.notOk(
    app.connections.some(({ ended }) => ended),
    'for a while all stay',
  );
  sessions.sweep(now + 120_000);
  await until('all but one to be ended', () => app.connections.filter(({ ended }) => ended).length === 4);
  t.not(sessions.open(waiting(0), admittedForNow), null, 'the last one is kept');
});
