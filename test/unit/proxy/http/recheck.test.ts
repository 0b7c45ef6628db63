import t, { type Test } from 'tap';
import type { RequestFacts } from '../../../../lib/policy/decision.ts';
import { dataFrame, headersFrame, requestFields } from '../../../support/http2-frames.ts';
import { okFields, openClient, startFrameApp } from '../../../support/http2-peers.ts';
import { type Engine, engines, type Lane, type LaneOptions, startLane } from '../../../support/lanes.ts';
import { type AppSocket, type RawApp, startRawApp } from '../../../support/raw-app.ts';
import { latin1, RawClient } from '../../../support/raw-http.ts';
import { turns, until } from '../../../support/until.ts';

/*
 * Policy changes at one moment, and at the same moment something else happens to what is under way: each ends once, is counted
 * out, and leaves the connection in a state that is no worse.
 */

const gone = (path: string): boolean => path.startsWith('/gone');
const get = (path: string): Buffer => latin1(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
const asks = 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n';
const agreement = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';
const socket = (path: string, more = ''): Buffer => latin1(`GET ${path} HTTP/1.1\r\nHost: a\r\n${asks}${more}\r\n`);

interface World {
  readonly lane: Lane;
  readonly app: RawApp;
  readonly client: RawClient;
  text(): string;
  /** Waits until the app has so much; yields its connection. */
  arrives(what: string): Promise<AppSocket>;
  /** What is to be true at the end, whatever was first. */
  settles(terminated: number): Promise<void>;
}

async function world(t: Test, engine: Engine, options: Partial<LaneOptions> = {}): Promise<World> {
  const bytes = new Map<AppSocket, string>();
  const app = await startRawApp(t, {
    raw: (connection, chunk) => void bytes.set(connection, (bytes.get(connection) ?? '') + chunk.toString('latin1')),
  });
  const lane = await startLane(t, { engine, app: app.port, ...options });
  const client = await RawClient.open({ port: lane.port });
  t.teardown(() => client.destroy());
  return {
    lane,
    app,
    client,
    text: () => client.received.toString('latin1'),
    arrives: (what) =>
      until(`the app to have ${what}`, () => app.sockets.find((each) => bytes.get(each)?.includes(what))),
    async settles(terminated) {
      await until('all to be counted out', () => lane.counts.started === lane.counts.ended);
      await turns(10);
      t.equal(lane.counts.terminated.length, terminated);
      t.equal(lane.headBytes(), 0);
    },
  };
}

type Row = readonly [title: string, run: (t: Test, engine: Engine) => Promise<void>];

const rows: readonly Row[] = [
  [
    'two changes one after the other end it once',
    async (t, engine) => {
      const { lane, client, text, arrives, settles } = await world(t, engine);
      client.send(get('/gone'));
      await arrives('/gone');
      lane.change(gone);
      lane.change(gone);
      await until('the refusal', () => text().startsWith('HTTP/1.1 403 '));
      await settles(1);
      t.equal(text().match(/HTTP\/1\.1 /g)?.length, 1, 'one response');
      t.same(lane.counts.refusals, [403]);
    },
  ],
  [
    'two changes end a tunnel once',
    async (t, engine) => {
      const { lane, client, text, arrives, settles } = await world(t, engine);
      client.send(socket('/gone'));
      const { socket: app } = await arrives('/gone');
      app.write(agreement);
      await until('the agreement', () => text().includes('\r\n\r\n'));
      lane.change(gone);
      lane.change(gone);
      t.ok(await client.ends(5_000));
      await until('the end of the app’s side', () => app.destroyed || app.readableEnded);
      await settles(1);
    },
  ],
  [
    'the agreement and the change at one moment',
    async (t, engine) => {
      const { lane, client, text, arrives, settles } = await world(t, engine);
      client.send(socket('/gone'));
      const { socket: app } = await arrives('/gone');
      app.write(agreement);
      lane.change(gone);
      t.ok(await client.ends(5_000), 'no tunnel is left');
      t.match(text(), /^(HTTP\/1\.1 403 |HTTP\/1\.1 101 |$)/);
      await until('the end of the app’s side', () => app.destroyed || app.readableEnded);
      await settles(1);
    },
  ],
  [
    'the whole response and the change at one moment',
    async (t, engine) => {
      const { lane, client, text, arrives, settles } = await world(t, engine);
      client.send(get('/gone'));
      const { socket: app } = await arrives('/gone');
      app.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
      lane.change(gone);
      await until('a response', () => text().includes('\r\n\r\n'));
      await settles(lane.counts.terminated.length);
      t.match(text(), /^HTTP\/1\.1 (403 [\s\S]*\r\n\r\n|200 [\s\S]*\r\n\r\nok)$/, 'one of them, and whole');
      client.send(get('/kept'));
      const next = await arrives('/kept');
      t.not(next.socket, lane.counts.terminated.length === 1 ? app : null, 'on a connection of its own');
    },
  ],
  [
    'the client goes at that moment',
    async (t, engine) => {
      const { lane, client, arrives, settles } = await world(t, engine);
      client.send(get('/gone'));
      const { socket: app } = await arrives('/gone');
      client.reset();
      lane.change(gone);
      await until('the end of the app’s side', () => app.destroyed || app.readableEnded);
      await settles(lane.counts.terminated.length);
      t.ok(lane.counts.terminated.length <= 1);
    },
  ],
  [
    'a drain at that moment',
    async (t, engine) => {
      const { lane, client, text, arrives, settles } = await world(t, engine);
      client.send(get('/gone'));
      await arrives('/gone');
      const drained = lane.live.drain(60_000);
      lane.http1.drain();
      lane.change(gone);
      lane.http1.closeIdle();
      t.ok(await client.ends(5_000));
      t.match(text(), /^HTTP\/1\.1 403 [\s\S]*connection: close\r\n/i);
      t.match(await drained, { kind: 'by themselves' });
      await settles(1);
    },
  ],
  [
    'what was pipelined behind it is served',
    async (t, engine) => {
      const { lane, client, arrives, settles, text } = await world(t, engine);
      client.send(Buffer.concat([get('/gone'), get('/kept')]));
      await arrives('/gone');
      lane.change(gone);
      const { socket: app } = await arrives('/kept');
      app.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
      await until('both', () => text().endsWith('ok'));
      t.match(text(), /^HTTP\/1\.1 403 [\s\S]*HTTP\/1\.1 200 /);
      await settles(1);
    },
  ],
  [
    'what is left of an upload is no request',
    async (t, engine) => {
      const { lane, client, text, arrives, settles } = await world(t, engine);
      client.send(latin1('POST /gone HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\n0123456789'));
      await arrives('0123456789');
      lane.change(gone);
      await until('the refusal', () => text().startsWith('HTTP/1.1 403 '));
      client.send(latin1('GET /smuggled HTTP/1.1\r\na: '.padEnd(30, 'x')));
      client.send(get('/kept'));
      await until('what follows, or the end', () => lane.counts.decided === 2 || client.ended);
      t.notMatch(text().slice(1), /HTTP\/1\.1 400/);
      client.reset();
      await settles(1);
    },
  ],
  [
    'the rest of an upload that has been answered goes nowhere',
    async (t, engine) => {
      const { lane, client, text, arrives, settles } = await world(t, engine);
      client.send(latin1('POST /gone HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\n0123456789'));
      const { socket: first } = await arrives('0123456789');
      first.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
      await until('the response', () => text().endsWith('ok'));
      const before = first.bytesRead;
      lane.change(gone);
      client.send(latin1('x'.repeat(29)));
      await until('the end of the app’s side', () => first.destroyed || first.readableEnded);
      t.equal(first.bytesRead, before, 'the app gets nothing more');
      client.send(Buffer.concat([latin1('x'), get('/kept')]));
      await until('what follows, or the end', () => lane.counts.decided === 2 || client.ended);
      client.reset();
      await settles(0);
    },
  ],
  [
    'it is on its way to an app that is not there yet',
    async (t, engine) => {
      const changed: { lane: Lane | null } = { lane: null };
      const onDecided = (request: string): void => {
        if (request.includes('/gone')) setImmediate(() => changed.lane?.change(gone));
      };
      const { lane, client, text, settles } = await world(t, engine, { onDecided });
      changed.lane = lane;
      client.send(get('/gone'));
      await until('the refusal', () => text().startsWith('HTTP/1.1 403 '));
      await settles(1);
    },
  ],
  [
    'a large head is counted for as long as its tunnel lasts',
    async (t, engine) => {
      const { lane, client, text, arrives, settles } = await world(t, engine);
      client.send(socket('/gone', `x: ${'y'.repeat(20_000)}\r\n`));
      const { socket: app } = await arrives('yyy\r\n');
      app.write(agreement);
      await until('the agreement', () => text().includes('\r\n\r\n'));
      await until('the request to be over', () => lane.counts.started === lane.counts.ended);
      t.ok(lane.headBytes() > 20_000 && lane.headBytes() < 30_000, `${lane.headBytes()}`);
      lane.change(gone);
      t.ok(await client.ends(5_000));
      await until('nothing to be counted', () => lane.headBytes() === 0);
      await settles(1);
    },
  ],
];

for (const engine of engines) {
  for (const [title, run] of rows) t.test(`${engine}: ${title}`, (t) => run(t, engine));
}

/** All that decisions look at. */
function snapshot(facts: RequestFacts): unknown {
  const { method, path, query, host, grpc, carries } = facts;
  const fields = ['x', 'cookie', 'host', 'connection', 'upgrade', 'expect'].map((name) => [name, facts.header(name)]);
  return { method, path, query, host, grpc, carries, fields, oddNames: facts.oddNames };
}

const more = 'X: 1\r\nx:  2 \r\nCookie: a=b; c=\xe9\r\nodd_name: 3\r\n';
const heads: readonly (readonly [string, string])[] = [
  ['GET', `GET /gone?a=b HTTP/1.1\r\nHost: a\r\n${more}\r\n`],
  ['an absolute target', `GET http://b/gone?a=b HTTP/1.1\r\nHost: a\r\n${more}\r\n`],
  ['HTTP/1.0', `GET /gone HTTP/1.0\r\n${more}\r\n`],
  ['an upload', `POST /gone HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n${more}\r\nx`],
  ['a whole upload', `POST /gone HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n${more}\r\nx`],
  ['WebSocket', `GET /gone?a=b HTTP/1.1\r\nHost: a\r\n${asks}${more}\r\n`],
  ['another upgrade', `GET /gone?a=b HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: chat/1\r\n${more}\r\n`],
  ['CONNECT', `CONNECT gone.example:443 HTTP/1.1\r\nHost: gone.example:443\r\n${more}\r\n`],
];

for (const engine of engines) {
  for (const [title, head] of heads) {
    t.test(`${engine}: ${title} is decided again by the same facts`, async (t) => {
      const seen: { readonly when: string; readonly facts: unknown }[] = [];
      const onFacts = (facts: RequestFacts, when: string): void => void seen.push({ when, facts: snapshot(facts) });
      const { lane, client, text, arrives } = await world(t, engine, { onFacts });
      client.send(latin1(head));
      const { socket: app } = await arrives('odd_name: 3');
      lane.change(() => false);
      await until('the second decision', () => seen.length === 2);
      if (head.includes('Upgrade: ') || head.startsWith('CONNECT')) {
        app.write(
          head.includes('chat/1')
            ? agreement.replace('websocket', 'chat/1')
            : head.startsWith('CONNECT')
              ? 'HTTP/1.1 200 OK\r\n\r\n'
              : agreement,
        );
        await until('the agreement', () => text().includes('\r\n\r\n'));
        lane.change(() => false);
        await until('the third decision', () => seen.length === 3);
      }
      t.same(
        seen.map(({ when }) => when),
        ['at first', ...seen.slice(1).map(() => 'again')],
      );
      for (const { facts } of seen) t.same(facts, seen[0]?.facts);
      t.notOk(client.ended);
      t.same(lane.counts.terminated, []);
    });
  }
}

t.test('HTTP/2: an upload that has come whole since is still one', async (t) => {
  const app = await startFrameApp(t, { onEnd: () => {} });
  const seen: unknown[] = [];
  const lane = await startLane(t, {
    engine: 'fast',
    protocol: 'http2',
    app: app.port,
    onFacts: (facts) => void seen.push(snapshot(facts)),
  });
  const client = await openClient(t, lane.port);
  client.send(headersFrame(1, requestFields('/gone', [['x', '1']], 'POST'), false));
  await until('the app to have it', () => app.requests.length === 1);
  client.data(1, latin1('hello'), true);
  await until('all of it', () => app.requests[0]?.message.ended === true);
  lane.change(() => false);
  await until('the second decision', () => seen.length === 2);
  t.match(seen[0], { carries: 'body' });
  t.same(seen[1], seen[0]);
});

t.test('HTTP/2: what is refused leaves the rest of its connection as it was', async (t) => {
  const app = await startFrameApp(t, { onEnd: () => {}, consumes: false });
  const lane = await startLane(t, { engine: 'fast', protocol: 'http2', app: app.port });
  const client = await openClient(t, lane.port);
  client.send(
    headersFrame(1, requestFields('/gone', [], 'POST'), false),
    headersFrame(3, requestFields('/kept', [], 'POST'), false),
  );
  await until('the app to have both', () => app.requests.length === 2);
  // The app leaves it unread.
  for (let left = 4; left > 0; left--) client.data(1, Buffer.alloc(15_000));
  lane.change(gone);
  lane.change(gone);
  t.equal(await client.over(1), '403');
  await until('the app to be told', () =>
    app.requests.some(({ path, message }) => path === '/gone' && message.reset !== null),
  );
  t.same(lane.counts.terminated, ['/gone']);
  client.send(dataFrame(3, 'hello', true));
  const kept = await until('the other to go on', () =>
    app.requests.find(({ path, message }) => path === '/kept' && message.ended),
  );
  kept.connection.send(headersFrame(kept.id, okFields, true));
  t.equal(await client.over(3), '200');
  await until('all to be counted out', () => lane.counts.started === lane.counts.ended);
  await until('nothing to wait', () => lane.heldBytes() === 0);
  t.notOk(client.ended);
});

t.test('HTTP/2: a client that does not take its response is not waited for', async (t) => {
  const app = await startFrameApp(t, {
    onRequest: ({ connection, id }) => {
      connection.send(headersFrame(id, [...okFields, ['content-type', 'application/grpc']], false));
      connection.send(...Array.from({ length: 4 }, () => dataFrame(id, Buffer.alloc(15_000))));
    },
    onEnd: () => {},
  });
  const lane = await startLane(t, { engine: 'fast', protocol: 'http2', app: app.port });
  const client = await openClient(t, lane.port, { consumes: false, settings: [[4, 100]] });
  client.send(headersFrame(1, requestFields('/gone', [['content-type', 'application/grpc']], 'POST'), false));
  await until('what fits', () => client.message(1).bytes === 100);
  lane.change(gone);
  t.equal(await client.over(1), '200 INTERNAL_ERROR');
  await until('all to be counted out', () => lane.counts.started === lane.counts.ended);
  await until('nothing to wait', () => lane.heldBytes() === 0);
  t.same(lane.counts.terminated, ['/gone']);
});
