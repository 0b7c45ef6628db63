import t from 'tap';
import { changingWorld, type World } from '../../support/changing-policy.ts';
import { headersFrame, requestFields, setting, settingsFrame } from '../../support/http2-frames.ts';
import { okFields, openClient, startFrameApp } from '../../support/http2-peers.ts';
import { engines } from '../../support/lanes.ts';
import { http1Waits, lastStatus, lateHead } from '../../support/late-requests.ts';
import { http2Waits } from '../../support/late-requests-http2.ts';
import { open, policy, route, server } from '../../support/policy-fixtures.ts';
import { startRawApp } from '../../support/raw-app.ts';
import { latin1, RawClient } from '../../support/raw-http.ts';
import { until } from '../../support/until.ts';

/*
 * A request is decided, and then waits: for a connect, a place, room, content, another try. The policy changes meanwhile.
 * Whatever is sent from then on is sent by the policy in force: every kind of wait, on every engine, with every kind of change.
 */

const others = `${route('rest', '{path: {value: /}}')}${open('rest')}`;

/** The Server's protocol stands where `PROTOCOL` does; what is asked late has a route of its own. */
function documents(late: string, more = ''): string {
  return `${server('proxyProtocol: PROTOCOL')}${route('late', '{path: {value: /late}}', late)}${others}${more}`;
}

const before = documents('', open('late'));
const set = '{set: [{name: x-by, value: the second policy}]}';

interface Change {
  readonly name: string;
  readonly documents: string;
  /** What the client gets: a status, or the end of its connection. */
  readonly outcome: string;
  /** Whether the app gets the request. */
  readonly sent: 'never' | 'once';
}

const changes: readonly Change[] = [
  { name: 'refuses it', documents: documents(''), outcome: '403', sent: 'never' },
  {
    name: 'has no route for it',
    documents: `${server('proxyProtocol: PROTOCOL')}${route('other', '{path: {value: /other}}')}${open('other')}`,
    outcome: '404',
    sent: 'never',
  },
  {
    name: 'takes no requests there',
    documents: before.replace('PROTOCOL', 'opaque'),
    outcome: '404',
    sent: 'never',
  },
  {
    name: 'leads it elsewhere',
    documents: documents(
      ', filters: [{type: RequestRedirect, requestRedirect: {hostname: elsewhere.example}}]',
      open('late'),
    ),
    outcome: '302',
    sent: 'never',
  },
  { name: 'no longer lets its connection in', documents: before, outcome: 'closed', sent: 'never' },
  {
    name: 'gives it another field',
    documents: documents(`, filters: [{type: RequestHeaderModifier, requestHeaderModifier: ${set}}]`, open('late')),
    outcome: '200',
    sent: 'once',
  },
  { name: 'says the same', documents: before, outcome: '200', sent: 'once' },
];

const waits = [...http1Waits, ...http2Waits];

for (const wait of waits) {
  t.test(`${wait.protocol}, ${wait.engine}: ${wait.name}`, async (t) => {
    for (const change of changes) {
      await t.test(`a policy that ${change.name}`, async (t) => {
        let world: World | null = null;
        const result = await wait.run(t, async (app, options = {}) => {
          const closes = change.outcome === 'closed';
          world = await changingWorld(t, { ...wait, first: before, second: change.documents, closes }, app, options);
          return world;
        });
        const isOther = change.name === 'gives it another field';
        const expected = (isOther ? wait.otherFields : undefined) ?? change;
        // An app that was asked for a tunnel declines: it says 200.
        t.equal(result.outcome, expected.outcome);
        const value = isOther ? 'the second policy' : '';
        t.same(result.sent, expected.sent === 'once' ? [value] : [], 'what the app has got');
        if (result.another !== undefined) {
          t.equal(result.another.status, '200');
          // The library lane gives a connect up with what it was for, where policy refuses that.
          const most = change.outcome !== '200' && wait.engine === 'library' ? 2 : 1;
          t.ok(result.another.connections <= most, 'the connection serves another');
        }
        const { counts } = (world as unknown as World).lane;
        await until('the end of all', () => counts.started === counts.ended, {
          lastSeen: () => JSON.stringify(counts),
        });
      });
    }
  });
}

/** For what has one answer: another policy refuses it, or says the same. */
const outcomes = [
  ['refuses it', documents('')],
  ['says the same', before],
] as const;

for (const [protocol, engine] of [...engines.map((each) => ['HTTP/1', each] as const), ['HTTP/2', 'fast'] as const]) {
  t.test(`${protocol}, ${engine}: an application in this process waits for content`, async (t) => {
    for (const [name, second] of outcomes) {
      let acted = 0;
      const application = {
        async handle(request: { body(maxBytes: number): Promise<Buffer> }) {
          await request.body(100);
          acted++;
          return { status: 204, headers: [], body: '' };
        },
      };
      const { lane, change, isDecided } = await changingWorld(
        t,
        { protocol, engine, first: before, second, closes: false },
        1,
        { application },
      );
      let outcome: string;
      if (protocol === 'HTTP/1') {
        const client = await RawClient.open({ port: lane.port });
        t.teardown(() => client.destroy());
        client.send(lateHead('PUT', 'Content-Length: 5\r\n'));
        await until('the decision', isDecided);
        change();
        client.send(latin1('debug'));
        outcome = await lastStatus(client, 1);
      } else {
        const client = await openClient(t, lane.port);
        client.send(headersFrame(1, requestFields('/late', [], 'PUT'), false));
        await until('the decision', isDecided);
        change();
        client.data(1, Buffer.from('debug'), true);
        outcome = await client.over(1);
      }
      t.equal(outcome, name === 'refuses it' ? '403' : '204', `a policy that ${name}`);
      t.equal(acted, name === 'refuses it' ? 0 : 1, `a policy that ${name}: what is done`);
      await until('its end', () => lane.counts.started === lane.counts.ended);
    }
  });
}

t.test('bytes without requests wait for a connect', async (t) => {
  const everybody = `${server('proxyProtocol: PROTOCOL')}${policy('all', 'kind: Server, name: web')}`;
  for (const [name, second, closes, passes] of [
    ['refuses them', server('proxyProtocol: PROTOCOL'), false, false],
    ['takes requests alone', everybody.replace('PROTOCOL', 'HTTP/1'), false, false],
    ['no longer lets the connection in', everybody, true, false],
    ['says the same', everybody, false, true],
  ] as const) {
    let received = 0;
    const raw = (_connection: unknown, { length }: Buffer): void => {
      received += length;
    };
    const app = await startRawApp(t, { raw });
    const change = { protocol: 'opaque', engine: 'fast', first: everybody, second, closes } as const;
    const { lane, changeOnceDecided } = await changingWorld(t, change, app.port, { protocol: 'opaque' });
    changeOnceDecided();
    const client = await RawClient.open({ port: lane.port });
    t.teardown(() => client.destroy());
    client.send(latin1('hello'));
    if (passes) await until('the bytes', () => received === 5);
    else t.ok(await client.ends(5000), `a policy that ${name} ends it`);
    t.equal(received, passes ? 5 : 0, `a policy that ${name}`);
  }
});

t.test('OPTIONS * waits for a connect', async (t) => {
  const nothing = server('proxyProtocol: PROTOCOL');
  const everything = `${nothing}${policy('all', 'kind: Server, name: web')}`;
  for (const engine of engines) {
    for (const [second, outcome] of [
      [nothing, '403'],
      [everything, '200'],
    ] as const) {
      const app = await startRawApp(t);
      let change = (): void => {};
      const once = (): void => {
        process.nextTick(change);
        change = () => {};
      };
      const given = { protocol: 'HTTP/1', engine, first: everything, second, closes: false } as const;
      const world = await changingWorld(t, given, app.port, { onDecided: once });
      change = world.change;
      const client = await RawClient.open({ port: world.lane.port });
      t.teardown(() => client.destroy());
      client.send(latin1('OPTIONS * HTTP/1.1\r\nHost: web\r\n\r\n'));
      t.equal(await lastStatus(client, 1), outcome, engine);
      t.equal(app.requests.length, outcome === '200' ? 1 : 0, `${engine}: what the app has got`);
    }
  }
});

/** Streams that wait for a session that takes one at a time; the first is answered when the policy has changed. */
async function crowd(count: number, protocol: 'HTTP/2' | 'gRPC', fields: readonly (readonly [string, string])[]) {
  let answer = (): void => {};
  const app = await startFrameApp(t, {
    settings: null,
    onConnection: (connection) => {
      if (connection.number === 0) connection.send(settingsFrame([[setting.maxConcurrentStreams, 1]]));
      else connection.socket.pause();
    },
    onEnd: ({ connection, id }) => {
      answer = () => connection.send(headersFrame(id, okFields, true));
    },
  });
  const change = { protocol, engine: 'fast', first: before, second: documents(''), closes: false } as const;
  const world = await changingWorld(t, change, app.port);
  const client = await openClient(t, world.lane.port);
  client.send(headersFrame(1, requestFields('/first', fields, 'POST')));
  await until('the first', () => app.requests.length === 1);
  for (let n = 1; n <= count; n++) client.send(headersFrame(1 + 2 * n, requestFields('/late', fields, 'POST')));
  await until('the decisions', () => world.lane.counts.decided === 1 + count);
  world.change();
  answer();
  return { app, client, world };
}

t.test('a call of gRPC that is refused late', async (t) => {
  const { app, client } = await crowd(1, 'HTTP/2', [['content-type', 'application/grpc']]);
  t.equal(await client.over(3), '200');
  t.match(client.message(3).blocks[0], [
    [':status', '200'],
    ['content-type', 'application/grpc'],
    ['grpc-status', '7'],
  ]);
  t.equal(app.requests.length, 1);
});

t.test('many that are refused at once', async (t) => {
  const count = 90;
  const { app, client, world } = await crowd(count, 'HTTP/2', []);
  for (let n = 1; n <= count; n++) t.equal(await client.over(1 + 2 * n), '403');
  t.equal(app.requests.length, 1, 'the app gets none');
  t.equal(world.lane.counts.refusals.length, count, 'each is recorded');
  await until('the end of all', () => world.lane.counts.ended === 1 + count);
});
