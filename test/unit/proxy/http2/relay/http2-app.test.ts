import { randomBytes } from 'node:crypto';
import t, { type Test } from 'tap';
import { BufferBudget } from '../../../../../lib/proxy/fairness/buffer-budget.ts';
import { onInternalFault } from '../../../../../lib/proxy/guard.ts';
import { AppSessionPool } from '../../../../../lib/proxy/http2/app/app-session-pool.ts';
import { reasonName } from '../../../../../lib/proxy/http2/session/protocol.ts';
import type { Upstreams } from '../../../../../lib/proxy/upstream/upstreams.ts';
import {
  dataFrame,
  type Fields,
  flag,
  frame,
  type as frameType,
  goawayFrame,
  headerBlock,
  headersFrame,
  numbers,
  requestFields,
  resetFrame,
  setting,
  settingsFrame,
  windowFrame,
} from '../../../../support/http2-frames.ts';
import {
  type AppRequest,
  type FrameApp,
  type FrameAppOptions,
  type FramePeer,
  okFields,
  openClient,
  startFrameApp,
} from '../../../../support/http2-peers.ts';
import { type Http2Stage, http2Stage } from '../../../../support/lane-stage.ts';
import { type Engine, engines, type LaneOptions, startLane } from '../../../../support/lanes.ts';
import { defaultLimits } from '../../../../support/limits.ts';
import { meshed } from '../../../../support/mesh.ts';
import { freePort } from '../../../../support/ports.ts';
import { startSocketApp } from '../../../../support/socket-app.ts';
import { until } from '../../../../support/until.ts';
import { admittedForNow, waitingRequest } from '../../../../support/waiting.ts';

/*
 * The engine as a client of an app that does what it likes. Whatever that is, a client never takes half a response for a
 * whole one, one client's trouble is not another's, and nobody's memory or room is used up.
 */

type Stage = Http2Stage<FrameApp>;

const stage = (t: Test, engine: Engine, app: FrameAppOptions, lane: Partial<LaneOptions> = {}): Promise<Stage> =>
  http2Stage(t, engine, () => startFrameApp(t, app), lane);

const get = (id: number, path = '/', more: Fields = [], method = 'GET'): Buffer =>
  headersFrame(id, requestFields(path, more, method));
const post = (id: number, path = '/', more: Fields = []): Buffer =>
  headersFrame(id, requestFields(path, more, 'POST'), false);
const grpc: Fields = [['content-type', 'application/grpc']];
const head = (id: number, more: Fields = [], endStream = false): Buffer =>
  headersFrame(id, [...okFields, ...more], endStream);

interface Answer {
  readonly title: string;
  readonly request?: Buffer;
  /** What the app sends for it. */
  readonly send: readonly Buffer[];
  /** The final status, and the code of a reset or `open`. */
  readonly expect: string;
  /** Where node:http2 differs: what it does, or null for a fault of its own. */
  readonly library?: string | null;
  /** The header blocks that the client gets, in order. */
  readonly blocks?: readonly Fields[];
  readonly content?: string;
  /** Whether the client takes what it gets. */
  readonly consumes?: boolean;
  /** The error label of the metrics. */
  readonly error?: string;
}

const protocolError = { expect: '200 INTERNAL_ERROR', error: 'h2(PROTOCOL_ERROR)' } as const;
const bad = { expect: '502', error: 'h2(PROTOCOL_ERROR)' } as const;

/** The app's response to stream 1 of a connection of its own. */
const answers: readonly Answer[] = [
  {
    title: 'a head alone',
    send: [head(1, [['x', 'y']], true)],
    expect: '200',
    blocks: [
      [
        [':status', '200'],
        ['x', 'y'],
      ],
    ],
  },
  {
    title: 'interim responses',
    send: [
      headersFrame(1, [[':status', '100']], false),
      headersFrame(
        1,
        [
          [':status', '103'],
          ['link', '</x>'],
        ],
        false,
      ),
      head(1, [], true),
    ],
    expect: '200',
    blocks: [
      [[':status', '100']],
      [
        [':status', '103'],
        ['link', '</x>'],
      ],
      [[':status', '200']],
    ],
    library: '200',
  },
  { title: 'an interim response that ends the stream', send: [headersFrame(1, [[':status', '103']], true)], ...bad },
  {
    title: '101, which HTTP/2 has not',
    send: [headersFrame(1, [[':status', '101']], false), head(1, [], true)],
    ...bad,
  },
  {
    title: 'trailers',
    send: [head(1), dataFrame(1, 'abc'), headersFrame(1, [['x', 'y']])],
    expect: '200',
    content: 'abc',
    blocks: [[[':status', '200']], [['x', 'y']]],
  },
  {
    title: 'trailers behind no content',
    send: [head(1), headersFrame(1, [['x', 'y']])],
    expect: '200',
    blocks: [[[':status', '200']], [['x', 'y']]],
  },
  { title: 'trailers without END_STREAM', send: [head(1), headersFrame(1, [['x', 'y']], false)], ...protocolError },
  { title: 'trailers with a pseudo-header', send: [head(1), headersFrame(1, [[':status', '200']])], ...protocolError },
  {
    title: 'trailers-only gRPC',
    request: post(1, '/', grpc),
    send: [head(1, [...grpc, ['grpc-status', '5']], true)],
    expect: '200',
    blocks: [[[':status', '200'], ...grpc, ['grpc-status', '5']]],
  },
  {
    title: 'gRPC that breaks off gets its status all the same',
    request: post(1, '/', grpc),
    send: [head(1, grpc), dataFrame(1, 'abc'), resetFrame(1, 2)],
    expect: '200',
    content: 'abc',
    blocks: [[[':status', '200'], ...grpc], [['grpc-status', '14']]],
    error: 'h2(INTERNAL_ERROR)',
  },
  // grpc-go ends a call so when its deadline is over; UNAVAILABLE would have it repeated.
  {
    title: 'gRPC that the app cancels, before it answers',
    request: post(1, '/', grpc),
    send: [resetFrame(1, 8)],
    expect: 'CANCEL',
    error: 'h2(CANCEL)',
  },
  {
    title: 'gRPC that the app cancels, behind interim responses',
    request: post(1, '/', grpc),
    send: [headersFrame(1, [[':status', '103']], false), resetFrame(1, 8)],
    expect: 'CANCEL',
    error: 'h2(CANCEL)',
  },
  {
    title: 'gRPC that the app cancels within its response',
    request: post(1, '/', grpc),
    send: [head(1, grpc), dataFrame(1, 'abc'), resetFrame(1, 8)],
    expect: '200 CANCEL',
    content: 'abc',
    error: 'h2(CANCEL)',
  },
  ...['application/grpc-web', 'application/grpc-web-text+proto', 'application/grpcx', 'text/plain'].map(
    (type): Answer => ({
      title: `${type} that breaks off is seen to be cut`,
      request: post(1, '/', [['content-type', type]]),
      send: [head(1, [['content-type', type]]), dataFrame(1, 'abc'), resetFrame(1, 2)],
      expect: '200 INTERNAL_ERROR',
      content: 'abc',
      error: 'h2(INTERNAL_ERROR)',
    }),
  ),
  ...['application/grpc+proto', 'application/grpc;x=y', 'Application/gRPC'].map(
    (type): Answer => ({
      title: `${type} that breaks off is gRPC`,
      request: post(1, '/', grpc),
      send: [head(1, [['content-type', type]]), dataFrame(1, 'abc'), resetFrame(1, 2)],
      expect: '200',
      blocks: [
        [
          [':status', '200'],
          ['content-type', type],
        ],
        [['grpc-status', '14']],
      ],
      error: 'h2(INTERNAL_ERROR)',
    }),
  ),
  {
    title: 'a gRPC call that is answered with something else, cut',
    request: post(1, '/', grpc),
    send: [head(1, [['content-type', 'text/html']]), dataFrame(1, 'abc'), resetFrame(1, 2)],
    expect: '200 INTERNAL_ERROR',
    error: 'h2(INTERNAL_ERROR)',
  },
  {
    title: 'gRPC of an announced length, cut',
    request: post(1, '/', grpc),
    send: [head(1, [...grpc, ['content-length', '10']]), dataFrame(1, 'abc'), resetFrame(1, 2)],
    expect: '200 INTERNAL_ERROR',
    error: 'h2(INTERNAL_ERROR)',
  },
  {
    title: '100 interim responses',
    send: [...Array.from({ length: 100 }, () => headersFrame(1, [[':status', '103']], false)), head(1, [], true)],
    expect: '200',
  },
  {
    title: 'interim responses without end',
    send: Array.from({ length: 200 }, () => headersFrame(1, [[':status', '103']], false)),
    expect: '502',
    library: null,
    error: 'h2(PROTOCOL_ERROR)',
  },
  {
    title: 'interim responses of 70 KiB',
    send: Array.from({ length: 7 }, () =>
      headersFrame(
        1,
        [
          [':status', '103'],
          ['link', '#'.repeat(10_000)],
        ],
        false,
      ),
    ),
    expect: '502',
    library: null,
    error: 'h2(PROTOCOL_ERROR)',
  },
  {
    title: 'HEAD with Content-Length',
    request: get(1, '/', [], 'HEAD'),
    send: [head(1, [['content-length', '5']], true)],
    expect: '200',
    blocks: [
      [
        [':status', '200'],
        ['content-length', '5'],
      ],
    ],
  },
  {
    title: 'HEAD that ends with an empty DATA',
    request: get(1, '/', [], 'HEAD'),
    send: [head(1, [['content-length', '5']]), dataFrame(1, '', true)],
    expect: '200',
    content: '',
  },
  {
    title: 'HEAD with content',
    request: get(1, '/', [], 'HEAD'),
    send: [head(1, [['content-length', '5']]), dataFrame(1, 'hello', true)],
    ...protocolError,
    library: '200',
    content: '',
  },
  { title: '204', send: [headersFrame(1, [[':status', '204']])], expect: '204' },
  {
    title: '204 with Content-Length',
    send: [
      headersFrame(1, [
        [':status', '204'],
        ['content-length', '0'],
      ]),
    ],
    expect: '204',
    blocks: [[[':status', '204']]],
  },
  {
    title: '204 with content',
    send: [headersFrame(1, [[':status', '204']], false), dataFrame(1, 'x', true)],
    expect: '204 INTERNAL_ERROR',
    library: '204',
    error: 'h2(PROTOCOL_ERROR)',
  },
  {
    title: '304 with Content-Length',
    send: [
      headersFrame(1, [
        [':status', '304'],
        ['content-length', '5'],
      ]),
    ],
    expect: '304',
    blocks: [
      [
        [':status', '304'],
        ['content-length', '5'],
      ],
    ],
  },
  {
    title: 'less content than announced',
    send: [head(1, [['content-length', '5']]), dataFrame(1, 'abc', true)],
    ...protocolError,
  },
  {
    title: 'less content than announced, then trailers',
    send: [head(1, [['content-length', '5']]), dataFrame(1, 'abc'), headersFrame(1, [['x', 'y']])],
    ...protocolError,
  },
  {
    title: 'more content than announced',
    send: [head(1, [['content-length', '2']]), dataFrame(1, 'abc', true)],
    ...protocolError,
    library: '200 INTERNAL_ERROR',
  },
  { title: 'no content where some was announced', send: [head(1, [['content-length', '5']], true)], ...bad },
  {
    title: 'two Content-Lengths',
    send: [
      head(
        1,
        [
          ['content-length', '5'],
          ['content-length', '5'],
        ],
        true,
      ),
    ],
    ...bad,
  },
  {
    title: 'padding',
    send: [head(1), frame(frameType.data, flag.padded | flag.endStream, 1, Buffer.from('\x02abc\0\0', 'latin1'))],
    expect: '200',
    content: 'abc',
  },
  { title: 'frames of unknown types', send: [frame(0xee, 0, 1, Buffer.alloc(5)), head(1, [], true)], expect: '200' },
  {
    title: 'a head in pieces',
    send: [
      frame(frameType.headers, flag.endStream, 1, headerBlock(okFields)),
      frame(frameType.continuation, flag.endHeaders, 1, headerBlock([['x', 'y']])),
    ],
    expect: '200',
    blocks: [
      [
        [':status', '200'],
        ['x', 'y'],
      ],
    ],
  },
  { title: 'DATA before HEADERS', send: [dataFrame(1, 'abc', true)], ...bad },
  { title: 'END_STREAM before HEADERS', send: [dataFrame(1, '', true)], ...bad },
  { title: 'END_STREAM twice', send: [head(1, [], true), dataFrame(1, '', true)], expect: '200', content: '' },
  { title: 'a second response', send: [head(1, [], true), head(1, [], true)], expect: '200' },
  { title: 'capitals in a name', send: [head(1, [['X', 'y']], true)], ...bad },
  { title: 'a field of a connection', send: [head(1, [['connection', 'close']], true)], ...bad },
  { title: 'a line end in a value', send: [head(1, [['x', 'a\r\nb: c']], true)], ...bad, library: '200' },
  { title: 'no :status', send: [headersFrame(1, [['x', 'y']])], ...bad },
  {
    title: 'two :status',
    send: [
      headersFrame(1, [
        [':status', '200'],
        [':status', '200'],
      ]),
    ],
    ...bad,
  },
  { title: 'a :status that is none', send: [headersFrame(1, [[':status', '2000']])], ...bad },
  {
    title: 'a pseudo-header of requests',
    send: [
      headersFrame(1, [
        [':status', '200'],
        [':path', '/'],
      ]),
    ],
    ...bad,
  },
  {
    title: 'PUSH_PROMISE',
    send: [
      frame(frameType.pushPromise, flag.endHeaders, 1, Buffer.concat([numbers(2), headerBlock(requestFields('/'))])),
      head(1, [], true),
    ],
    ...bad,
  },
  {
    title: 'a response to a request that nobody has sent',
    send: [headersFrame(3, okFields), head(1, [], true)],
    ...bad,
  },
  {
    title: 'a block that cannot be decompressed',
    send: [frame(frameType.headers, flag.endHeaders, 1, Buffer.of(0x80))],
    expect: '502',
    error: 'h2(COMPRESSION_ERROR)',
  },
  {
    title: 'a frame that is too long',
    send: [head(1), dataFrame(1, Buffer.alloc(16_385))],
    expect: '200 INTERNAL_ERROR',
    library: '200 INTERNAL_ERROR',
    error: 'h2(FRAME_SIZE_ERROR)',
  },
  {
    title: 'more DATA than there is room for',
    consumes: false,
    send: [head(1), ...Array.from({ length: 20 }, () => dataFrame(1, Buffer.alloc(16_384)))],
    expect: '200 INTERNAL_ERROR',
    library: '200 INTERNAL_ERROR',
    error: 'h2(FLOW_CONTROL_ERROR)',
  },
  {
    title: 'WINDOW_UPDATE of 0',
    request: post(1),
    send: [head(1), windowFrame(1, 0)],
    ...protocolError,
    library: '200 INTERNAL_ERROR',
  },
  {
    title: 'SETTINGS that are wrong',
    send: [head(1), settingsFrame([[setting.maxFrameSize, 1]])],
    ...protocolError,
    library: '200 INTERNAL_ERROR',
  },
];

/** Every code of RST_STREAM, before and after the head. */
const resets: readonly Answer[] = [...Array(14).keys(), 0xfe].flatMap((code): Answer[] => {
  // NO_ERROR would tell the client that nothing is missing, REFUSED_STREAM that nothing has been done, and what the app
  // says of its session is none of the client's.
  const error = `h2(${reasonName(code)})`;
  const after = code === 8 ? '200 CANCEL' : '200 INTERNAL_ERROR';
  return [
    {
      title: `RST_STREAM ${reasonName(code)} before the head`,
      request: post(1),
      send: [resetFrame(1, code)],
      expect: code === 7 ? 'REFUSED_STREAM' : '502',
      error,
    },
    {
      title: `RST_STREAM ${reasonName(code)} after the head`,
      send: [head(1), dataFrame(1, 'abc'), resetFrame(1, code)],
      expect: after,
      // It takes what there is for a whole response.
      ...(code === 0 ? { library: null } : {}),
      content: 'abc',
      error,
    },
  ];
});

async function play(t: Test, engine: Engine, row: Answer): Promise<void> {
  const answer = ({ connection }: AppRequest): void => connection.send(...row.send);
  const s = await stage(t, engine, { onRequest: answer, onEnd: () => {} });
  const client = await s.open({ consumes: row.consumes ?? true });
  client.send(row.request ?? get(1));
  const asExpected = engine === 'fast' || row.library === undefined;
  t.equal(await client.over(1), asExpected ? row.expect : row.library);
  t.equal(client.fault, null);
  if (row.blocks !== undefined && asExpected) t.same(client.message(1).blocks, row.blocks);
  if (row.content !== undefined && asExpected) t.equal(client.content(1), row.content);
  await until('the request to be counted', () => s.lane.counts.ended === 1);
  const errors = row.error === undefined ? [] : [row.error];
  // node:http2 has other words for what is wrong, and for some of it none.
  if (engine === 'fast') {
    t.same(s.lane.counts.errors, errors);
    const isBroken = row.error !== undefined && /^[23]/.test(row.expect);
    t.equal(s.lane.counts.broken.length, isBroken ? 1 : 0, 'a response that breaks off is said, once');
  }
}

interface Scenario {
  readonly title: string;
  /** False where node:http2 is at fault, or where its figures are other ones. */
  readonly library?: false;
  run(t: Test, engine: Engine): Promise<void>;
}

const refuse = ({ connection, id }: AppRequest): void => connection.send(resetFrame(id, 7));
const ok = ({ connection, id }: AppRequest): void => connection.send(head(id, [], true));
const hold = (): void => {};

/** Whether the count stays what it is while PINGs go to and fro. */
async function settles(client: FramePeer, count: () => number): Promise<number> {
  for (let before = -1; before !== count(); ) {
    before = count();
    for (let i = 0; i < 10; i++) await client.lives();
  }
  return count();
}

const scenarios: readonly Scenario[] = [
  {
    title: 'REFUSED_STREAM: once more, without a body',
    run: async (t, engine) => {
      let left = 1;
      const s = await stage(t, engine, { onEnd: (request) => (left-- > 0 ? refuse(request) : ok(request)) });
      const client = await s.open();
      client.send(get(1));
      t.equal(await client.over(1), '200');
      t.equal(s.app.requests.length, 2);
      t.equal(s.app.connections.length, 1);
      t.same(s.lane.counts.errors, []);
    },
  },
  {
    title: 'REFUSED_STREAM: not a third time',
    run: async (t, engine) => {
      const s = await stage(t, engine, { onEnd: refuse });
      const client = await s.open();
      client.send(get(1));
      t.equal(await client.over(1), 'REFUSED_STREAM');
      t.equal(s.app.requests.length, 2);
      t.same(s.lane.counts.errors, ['h2(REFUSED_STREAM)']);
      t.same(s.lane.counts.httpErrors, ['i/o']);
    },
  },
  {
    title: 'REFUSED_STREAM: never with a body',
    run: async (t, engine) => {
      const s = await stage(t, engine, { onRequest: refuse, onEnd: hold });
      const client = await s.open();
      client.send(post(1), dataFrame(1, 'abc', true));
      t.equal(await client.over(1), 'REFUSED_STREAM', 'the client may');
      t.equal(s.app.requests.length, 1);
    },
  },
  {
    title: 'GOAWAY: streams above the last one are asked for again elsewhere, the others finish',
    run: async (t, engine) => {
      const s = await stage(t, engine, {
        onEnd: (request) => (request.connection.number === 0 ? hold() : ok(request)),
      });
      const client = await s.open();
      client.send(get(1), get(3), post(5));
      await until('three requests', () => s.app.requests.length === 3);
      const [first] = s.app.connections;
      first?.send(goawayFrame(1));
      t.equal(await client.over(3), '200', 'another connection');
      t.equal(await client.over(5), 'REFUSED_STREAM', 'half of a body is gone, but the client may send it again');
      first?.send(head(1, [], true));
      t.equal(await client.over(1), '200', 'below the last one');
      await until('the first connection to be closed', () => first?.ended === true);
      t.equal(s.app.connections.length, 2);
    },
  },
  {
    title: 'GOAWAY twice, then the end',
    run: async (t, engine) => {
      const s = await stage(t, engine, {
        onEnd: (request) => (request.connection.number === 0 ? hold() : ok(request)),
      });
      const client = await s.open();
      client.send(get(1));
      await until('the request', () => s.app.requests.length === 1);
      const [first] = s.app.connections;
      first?.send(goawayFrame(2 ** 31 - 1));
      await first?.lives();
      client.send(get(3));
      t.equal(await client.over(3), '200', 'a new one goes elsewhere');
      first?.send(goawayFrame(1), head(1, [], true));
      first?.socket.end();
      t.equal(await client.over(1), '200');
      t.equal(s.app.connections.length, 2);
    },
  },
  ...[false, true].map(
    (abruptly): Scenario => ({
      title: `the app is gone in the middle of a response${abruptly ? ', abruptly' : ''}`,
      run: async (t, engine) => {
        const s = await stage(t, engine, {
          onEnd: ({ connection, id, path }) => {
            if (path === '/whole') connection.send(head(id, [], true));
            else connection.send(head(id), dataFrame(id, 'half'));
          },
        });
        const client = await s.open();
        client.send(get(1));
        await client.until('half of it', () => client.message(1).bytes === 4);
        const [first] = s.app.connections;
        if (abruptly) first?.socket.resetAndDestroy();
        else first?.socket.end();
        t.equal(await client.over(1), '200 INTERNAL_ERROR');
        client.send(get(3, '/whole'));
        t.equal(await client.over(3), '200', 'the next one has a connection of its own');
      },
    }),
  ),
  {
    title: 'the app is gone before it answers',
    run: async (t, engine) => {
      const s = await stage(t, engine, { onEnd: ({ connection }) => connection.socket.end() });
      const client = await s.open();
      client.send(get(1));
      t.equal(await client.over(1), '502');
    },
  },
  {
    title: 'a session that has failed is not used again',
    run: async (t, engine) => {
      // The app breaks the rules, and does not close.
      const s = await stage(t, engine, {
        onEnd: (request) => {
          if (request.connection.number === 0)
            request.connection.send(frame(frameType.pushPromise, flag.endHeaders, 1, numbers(2)));
          else ok(request);
        },
      });
      const [one, two] = [await s.open(), await s.open()];
      one.send(get(1));
      t.equal(await one.over(1), '502');
      two.send(get(1));
      t.equal(await two.over(1), '200');
    },
  },
  {
    title: 'MAX_CONCURRENT_STREAMS 1: no session has two at a time',
    run: async (t, engine) => {
      const open = new Map<FramePeer, number>();
      let most = 0;
      const s = await stage(t, engine, {
        settings: [[setting.maxConcurrentStreams, 1]],
        onRequest: ({ connection }) => {
          open.set(connection, (open.get(connection) ?? 0) + 1);
          most = Math.max(most, open.get(connection) as number);
        },
        onEnd: (request) =>
          setImmediate(() => {
            open.set(request.connection, (open.get(request.connection) as number) - 1);
            ok(request);
          }),
      });
      const client = await s.open();
      for (let id = 1; id < 40; id += 2) client.send(get(id));
      for (let id = 1; id < 40; id += 2) t.equal(await client.over(id), '200');
      t.equal(most, 1);
      t.ok(s.app.connections.length <= 20);
    },
  },
  {
    title: 'MAX_CONCURRENT_STREAMS 0 until there is room',
    library: false,
    run: async (t, engine) => {
      const s = await stage(t, engine, { settings: [[setting.maxConcurrentStreams, 0]] });
      const client = await s.open();
      client.send(get(1), get(3), get(5));
      await until('a session', () => s.app.connections.length === 1);
      const app = s.app.connections[0] as FramePeer;
      await app.lives();
      client.send(resetFrame(3, 8), get(7));
      await client.lives();
      await app.lives();
      t.equal(s.app.requests.length, 0, 'nobody is asked meanwhile');
      t.equal(s.app.connections.length, 1, 'nor is another session tried');
      app.send(settingsFrame([[setting.maxConcurrentStreams, 1]]));
      for (const id of [1, 5, 7]) t.equal(await client.over(id), '200');
      t.equal(s.app.requests.length, 3, 'a request that was given up is not asked for');
    },
  },
  {
    title: 'MAX_CONCURRENT_STREAMS 0, and then the end',
    library: false,
    run: async (t, engine) => {
      const s = await stage(t, engine, { settings: [[setting.maxConcurrentStreams, 0]] });
      const client = await s.open();
      client.send(get(1));
      await until('a session', () => s.app.connections.length === 1);
      await s.app.connections[0]?.lives();
      s.app.connections[0]?.socket.end();
      t.equal(await client.over(1), '502');
    },
  },
  {
    title: 'INITIAL_WINDOW_SIZE 0, then room bit by bit',
    run: async (t, engine) => {
      const s = await stage(t, engine, { settings: [[setting.initialWindowSize, 0]], consumes: false });
      const client = await s.open();
      client.send(post(1), dataFrame(1, 'abcdef'), dataFrame(1, 'gh', true));
      await until('the request', () => s.app.requests.length === 1);
      const { connection, message } = s.app.requests[0] as AppRequest;
      await connection.lives();
      t.equal(message.bytes, 0);
      for (const [room, bytes] of [
        [1, 1],
        [4, 5],
        [100, 8],
      ] as const) {
        connection.send(windowFrame(1, room));
        await connection.until(`${bytes} bytes`, () => message.bytes === bytes);
      }
      t.equal(connection.content(1), 'abcdefgh');
      t.equal(await client.over(1), '200');
    },
  },
  {
    title: 'an app that gives no word and closes',
    run: async (t, engine) => {
      const s = await stage(t, engine, { settings: null, onConnection: ({ socket }) => socket.end() });
      const client = await s.open();
      client.send(get(1));
      t.equal(await client.over(1), '502');
      t.same(s.lane.counts.httpErrors, ['i/o']);
    },
  },
  {
    title: 'an app that gives no word at all',
    library: false,
    run: async (t, engine) => {
      let speaks = false;
      const s = await stage(
        t,
        engine,
        {
          settings: null,
          onConnection: (connection) => {
            if (speaks) connection.send(settingsFrame([]));
            else connection.socket.removeAllListeners('data').resume();
          },
        },
        { connectTimeoutMs: 200 },
      );
      const client = await s.open();
      client.send(get(1), post(3));
      t.equal(await client.over(1), '504');
      t.match(await client.over(3), /^504/);
      t.same(s.lane.counts.httpErrors, ['i/o', 'i/o']);
      await until('its connection to be given up', () => s.app.connections[0]?.ended === true);
      speaks = true;
      const other = await s.open();
      other.send(get(1));
      t.equal(await other.over(1), '200', 'the next one has a connection of its own');
      t.equal(s.app.connections.length, 2);
    },
  },
  {
    title: 'an app that speaks HTTP/1',
    run: async (t, engine) => {
      // It keeps the connection, too.
      const { port } = await startSocketApp(t, (socket) => {
        socket.once('data', () => socket.write('HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n'));
      });
      const lane = await startLane(t, { engine: 'fast', http2Engine: engine, protocol: 'http2', app: port });
      const client = await openClient(t, lane.port);
      client.send(get(1));
      t.equal(await client.over(1), '502');
    },
  },
  {
    title: 'an app that refuses connections',
    run: async (t, engine) => {
      const lane = await startLane(t, {
        engine: 'fast',
        http2Engine: engine,
        protocol: 'http2',
        app: await freePort(),
      });
      const client = await openClient(t, lane.port);
      client.send(post(1), dataFrame(1, 'abc'));
      t.equal((await client.over(1)).slice(0, 3), '502');
      t.same(lane.counts.errors, ['unclassified']);
    },
  },
  {
    title: 'a response while the request is still coming',
    run: async (t, engine) => {
      const s = await stage(t, engine, {
        onRequest: ({ connection, id }) => connection.send(head(id), dataFrame(id, 'early', true)),
      });
      const client = await s.open();
      client.send(post(1), dataFrame(1, 'abc'));
      await client.until('the response', () => client.message(1).ended);
      t.equal(client.content(1), 'early');
      client.send(dataFrame(1, 'more', true), get(3));
      t.match(await client.over(3), '200', 'the rest of the request did no harm');
      const { connection, message } = s.app.requests[0] as AppRequest;
      await connection.until('the app to be told', () => message.reset !== null || message.ended);
    },
  },
  {
    title: 'an early response for a client that is slow to take it',
    library: false,
    run: async (t, engine) => {
      const s = await stage(t, engine, {
        onRequest: ({ connection, id }) => connection.send(head(id), dataFrame(id, Buffer.alloc(16_000), true)),
        onEnd: hold,
      });
      const client = await s.open({ consumes: false, settings: [[setting.initialWindowSize, 1_000]] });
      client.send(post(1), dataFrame(1, Buffer.alloc(1_000)));
      await client.until('some of the response', () => client.message(1).bytes === 1_000);
      // Longer than is waited for the rest of the request when the response has left.
      await new Promise((resolve) => setTimeout(resolve, 1300));
      t.equal(client.outcome(1), '200 open');
      client.send(windowFrame(1, 100_000));
      await client.until('the rest', () => client.message(1).ended || client.message(1).reset !== null);
      t.equal(client.message(1).bytes, 16_000);
      t.ok(client.message(1).ended);
      await client.until('its own rest to be refused', () => client.message(1).reset !== null);
      t.equal(await client.over(1), '200 NO_ERROR');
    },
  },
  ...[false, true].map(
    (encrypted): Scenario => ({
      title: `content is what it was, there and back, on many streams at a time${encrypted ? ', in TLS' : ''}`,
      run: async (t, engine) => {
        const { termination, client: tls } = meshed('h2');
        const s = await stage(
          t,
          engine,
          {
            onRequest: ({ connection, id }) => connection.send(head(id)),
            onEnd: ({ connection, id, message }) => void connection.body(id, Buffer.concat(message.parts)),
          },
          encrypted ? { tls: termination } : {},
        );
        const client = await s.open(encrypted ? { tls } : {});
        const ids = [1, 3, 5, 7, 9, 11];
        const contents = ids.map(() => randomBytes(1_500_000));
        for (const id of ids) client.send(post(id));
        // A client that stops to read now and then.
        const pauses = setInterval(() => {
          client.socket.pause();
          setTimeout(() => client.socket.resume(), 5);
        }, 15);
        t.teardown(() => clearInterval(pauses));
        await Promise.all(ids.map((id, i) => client.body(id, contents[i] as Buffer)));
        for (const [i, id] of ids.entries()) {
          t.equal(await client.over(id), '200');
          t.ok(Buffer.concat(client.message(id).parts).equals(contents[i] as Buffer), `stream ${id}`);
        }
        // Nobody's habit of giving room makes frames smaller and smaller.
        for (const peer of [client, s.app.connections[0] as FramePeer]) {
          const { length } = peer.frames.filter(({ type }) => type === frameType.data);
          t.ok(length < 6_000, `${length} frames of DATA for 9 MB`);
        }
      },
    }),
  ),
  {
    title: 'both directions at once',
    run: async (t, engine) => {
      const s = await stage(t, engine, {
        onRequest: ({ connection, id, message }) => {
          connection.send(head(id));
          let echoed = 0;
          const { onFrame } = connection;
          connection.onFrame = (received) => {
            onFrame?.(received);
            for (; echoed < message.parts.length; echoed++) connection.data(id, message.parts[echoed] as Buffer);
          };
        },
        onEnd: ({ connection, id }) => connection.data(id, Buffer.alloc(0), true),
      });
      const client = await s.open();
      client.send(post(1));
      for (let i = 0; i < 20; i++) {
        client.data(1, Buffer.from(`${i},`));
        await client.until('the echo', () => client.content(1).endsWith(`${i},`));
      }
      client.data(1, Buffer.alloc(0), true);
      t.equal(await client.over(1), '200');
    },
  },
  {
    title: 'a client that takes nothing: the app may send no more than one window',
    library: false,
    run: async (t, engine) => {
      let sent = 0;
      const s = await stage(t, engine, {
        onEnd: ({ connection, id }) => {
          connection.send(head(id));
          void sendAll(connection, id);
        },
      });
      const sendAll = async (app: FramePeer, id: number): Promise<void> => {
        while (!app.ended) {
          await app.until('room', () => app.room(id) > 0 || app.ended);
          const step = Math.min(16_384, app.room(id));
          app.data(id, Buffer.alloc(step));
          sent += step;
        }
      };
      const client = await s.open({ consumes: false, settings: [[setting.initialWindowSize, 0]] });
      client.send(get(1));
      await client.until('the head', () => client.status(1) === 200);
      t.equal(await settles(client, () => sent), 65_535);
      client.send(windowFrame(1, 65_535));
      await client.until('a window full', () => client.message(1).bytes === 65_535);
      await until('the app to send more', () => sent > 65_535);
      t.equal(await settles(client, () => sent), 2 * 65_535);
    },
  },
  {
    title: 'an app that takes nothing: the client gets no more room than the app gave',
    run: async (t, engine) => {
      const s = await stage(t, engine, { consumes: false });
      const client = await s.open();
      client.send(post(1));
      await client.lives();
      const initial = client.room(1);
      const content = Buffer.alloc(600_000, 'x');
      const sending = client.body(1, content);
      await until('the request', () => s.app.requests.length === 1);
      const { connection, message } = s.app.requests[0] as AppRequest;
      await connection.until('a window full', () => message.bytes === 65_535);
      const sent = (): number => 262_144 - client.room(1);
      await settles(client, sent);
      t.ok(initial > 0 && client.room(1) <= 65_535, `${client.room(1)} bytes of room`);
      t.equal(message.bytes, 65_535);
      for (let taken = 0; taken < content.length; ) {
        const { bytes } = message;
        connection.send(windowFrame(0, bytes - taken), windowFrame(1, bytes - taken));
        taken = bytes;
        await connection.until('more', () => message.bytes > taken || message.ended);
        if (message.ended) break;
      }
      await sending;
      t.equal(message.bytes, content.length);
      t.equal(await client.over(1), '200');
    },
  },
  {
    title: 'uploads that are given up leave room for others on their connection',
    run: async (t, engine) => {
      const s = await stage(t, engine, {
        // Nothing is taken but what the last one sends.
        consumes: false,
        onRequest: ({ connection, id, path }) => {
          if (path === '/last') connection.send(windowFrame(0, 10_000_000), windowFrame(id, 10_000_000));
        },
      });
      const client = await s.open();
      let id = 1;
      // More than its window holds.
      for (; id < 60; id += 2) {
        client.send(post(id, '/given-up'));
        await client.until('room', () => client.room(id) >= 50_000 || client.ended);
        for (let i = 0; i < 3; i++) client.data(id, Buffer.alloc(16_384));
        await client.lives();
        client.send(resetFrame(id, 8));
      }
      client.send(post(id, '/last'));
      await client.body(id, Buffer.alloc(3_000_000));
      t.equal(await client.over(id), '200');
    },
  },
  {
    title: 'responses that are given up leave room for those of other clients',
    library: false,
    run: async (t, engine) => {
      const s = await stage(t, engine, {
        onEnd: ({ connection, id, path }) => {
          connection.send(head(id));
          const bytes = path === '/given-up' ? 65_535 : 3_000_000;
          void connection.body(id, Buffer.alloc(bytes)).catch(() => {});
        },
      });
      const hostile = await s.open({ settings: [[setting.initialWindowSize, 0]] });
      let id = 1;
      // Fewer than would retire the session; more than its window holds.
      for (let round = 0; round < 4; round++) {
        const ids = Array.from({ length: 90 }, () => (id += 2));
        hostile.send(...ids.map((one) => get(one, '/given-up')));
        for (const one of ids) await hostile.until('the head', () => hostile.status(one) === 200);
        await until('all to have been sent', () =>
          s.app.requests.every(({ connection, id }) => connection.room(id) === 0),
        );
        hostile.send(...ids.map((one) => resetFrame(one, 8)));
        await hostile.lives();
      }
      const client = await s.open();
      client.send(get(1, '/large'));
      t.equal(await client.over(1), '200');
      t.equal(client.message(1).bytes, 3_000_000);
      t.equal(s.app.connections.length, 1, 'all on one session');
    },
  },
  ...[129, 255].map(
    (count): Scenario => ({
      title: `${count} answers that a client leaves unread do not stop those of others (RFC 9113 5.2.2)`,
      library: false,
      run: async (t, engine) => {
        const s = await stage(t, engine, {
          settings: [[setting.maxConcurrentStreams, 1000]],
          onEnd: ({ connection, id, path }) => {
            connection.send(head(id));
            void connection.body(id, Buffer.alloc(path === '/unread' ? 100_000 : 300_000)).catch(() => {});
          },
        });
        const hostile = await s.open({ settings: [[setting.initialWindowSize, 0]] });
        const ids = Array.from({ length: count }, (_, i) => 2 * i + 1);
        hostile.send(...ids.map((id) => get(id, '/unread')));
        await until('the app to have filled them', () =>
          ids.every((id) => s.app.connections[0]?.room(id) === 0 || s.app.requests.length > count),
        );
        const client = await s.open();
        for (let id = 1; id < 20; id += 2) {
          client.send(get(id));
          t.equal(await client.over(id), '200');
          t.equal(client.message(id).bytes, 300_000);
        }
        t.equal(s.app.connections.length, 1, 'all on one session');
        // And they can still be read.
        for (const id of ids) hostile.send(windowFrame(id, 100_000));
        hostile.send(windowFrame(0, count * 100_000));
        for (const id of ids) t.equal(await hostile.over(id), '200');
      },
    }),
  ),
  {
    title: 'uploads that the app leaves unread do not stop others, of the same client or of another one',
    library: false,
    run: async (t, engine) => {
      const s = await stage(t, engine, {
        consumes: false,
        // The app's connection has room for one of them; what is read of the others is given back.
        onEnd: (request) => ok(request),
        onRequest: ({ connection, id, path }) => {
          if (path !== '/unread') connection.send(windowFrame(id, 300_000), windowFrame(0, 300_000));
        },
      });
      const [hostile, client] = [await s.open(), await s.open()];
      client.send(post(1, '/large'));
      for (let id = 1; id < 120; id += 4) {
        hostile.send(post(id, '/unread'));
        await hostile.until('room', () => hostile.room(id) > 50_000);
        for (let i = 0; i < 3; i++) hostile.data(id, Buffer.alloc(16_384));
        await hostile.lives();
        client.send(post(id + 2), dataFrame(id + 2, Buffer.alloc(10_000), true));
        t.equal(await client.over(id + 2), '200', `after ${(id + 3) / 4} uploads`);
        hostile.send(get(id + 2));
        t.equal(await hostile.over(id + 2), '200');
      }
      await client.body(1, Buffer.alloc(200_000));
      t.equal(await client.over(1), '200', 'one that has been under way all the time');
      t.ok(s.app.connections.length <= 4, `${s.app.connections.length} sessions`);
    },
  },
  {
    title: 'uploads that the app leaves unread hold up nobody on the connection of their client',
    library: false,
    run: async (t, engine) => {
      const s = await stage(t, engine, {
        // A window for all of it, but not for each: nothing is held but by the streams.
        settings: [[setting.initialWindowSize, 0]],
        onConnection: (connection) => connection.send(windowFrame(0, 2 ** 30)),
        onRequest: ({ connection, id, path }) => {
          if (path === '/read') connection.send(windowFrame(id, 1_000_000));
        },
        consumes: false,
      });
      const client = await s.open();
      let id = 1;
      for (; id < 2 * 50; id += 2) {
        client.send(post(id, '/unread'));
        await client.body(id, Buffer.alloc(65_535)).catch(() => t.fail(`no room for upload ${id}`));
      }
      client.send(post(id, '/read'));
      await client.body(id, Buffer.alloc(500_000));
      t.equal(await client.over(id), '200');
    },
  },
  {
    title: 'streams of one client share its window',
    library: false,
    run: async (t, engine) => {
      const s = await stage(t, engine, {
        onEnd: ({ connection, id }) => {
          connection.send(head(id));
          void connection.body(id, Buffer.alloc(500_000));
        },
      });
      const client = await s.open();
      const ids = [1, 3, 5, 7, 9, 11, 13, 15];
      client.send(...ids.map((id) => get(id)));
      await client.until('the first to end', () => ids.some((id) => client.message(id).ended));
      for (const id of ids) t.ok(client.message(id).bytes > 250_000, `${id} has ${client.message(id).bytes}`);
      for (const id of ids) t.equal(await client.over(id), '200');
    },
  },
  {
    title: 'clients share the connection to the app',
    library: false,
    run: async (t, engine) => {
      const s = await stage(t, engine, {});
      const [greedy, modest] = [await s.open(), await s.open()];
      const ids = Array.from({ length: 40 }, (_, i) => 2 * i + 1);
      for (const id of ids) greedy.send(post(id, '/greedy'));
      const all = Promise.all(ids.map((id) => greedy.body(id, Buffer.alloc(400_000))));
      await until('it to be under way', () => s.app.requests.some(({ message }) => message.bytes > 10_000));
      modest.send(post(1, '/modest'));
      await modest.body(1, Buffer.alloc(200_000));
      t.equal(await modest.over(1), '200');
      const sent = s.app.requests
        .filter(({ path }) => path === '/greedy')
        .reduce((sum, { message }) => sum + message.bytes, 0);
      t.ok(sent < 12_000_000, `meanwhile the other one has sent ${sent} of 16,000,000 bytes`);
      await all;
      for (const id of ids) t.equal(await greedy.over(id), '200');
      // One more for a request that finds no room on the first.
      t.ok(s.app.connections.length <= 2, `${s.app.connections.length} sessions`);
    },
  },
  {
    title: 'a fault of ours in one exchange ends the connection of its client, not the session that others use',
    library: false,
    run: async (t, engine) => {
      const faults: unknown[] = [];
      t.teardown(onInternalFault(({ error }) => faults.push(error)));
      const s = await stage(
        t,
        engine,
        { onEnd: (request) => (request.path === '/hold' ? hold() : ok(request)) },
        {
          access: (_facts, { uri }) => {
            if (uri === '/fault') throw new Error('a fault of ours');
          },
        },
      );
      const [faulty, sound] = [await s.open(), await s.open()];
      sound.send(get(1, '/hold'));
      await until('its request', () => s.app.requests.length === 1);
      faulty.send(get(1, '/fault'));
      await faulty.until('its end', () => faulty.ended);
      t.equal(faults.length, 1);
      sound.send(get(3));
      t.equal(await sound.over(3), '200');
      const [held] = s.app.requests as [AppRequest];
      ok(held);
      t.equal(await sound.over(1), '200');
      t.equal(s.app.connections.length, 1);
    },
  },
  {
    title: 'one request too many',
    run: async (t, engine) => {
      const s = await stage(
        t,
        engine,
        { onEnd: (request) => (request.path === '/hold' ? hold() : ok(request)) },
        { maxInFlight: 1 },
      );
      const [one, two] = [await s.open(), await s.open()];
      one.send(get(1, '/hold'));
      await until('the first', () => s.app.requests.length === 1);
      two.send(get(1));
      t.equal(await two.over(1), '503');
      await two.until('the end of its connection', () => two.ended);
      t.equal(two.goaway?.code, 0);
      const { connection, id } = s.app.requests[0] as AppRequest;
      ok({ connection, id } as AppRequest);
      t.equal(await one.over(1), '200');
      one.send(get(3));
      t.equal(await one.over(3), '200');
    },
  },
  {
    title: 'a session with many resets takes no more, and harms nobody',
    run: async (t, engine) => {
      const s = await stage(t, engine, { onEnd: (request) => (request.path === '/hold' ? hold() : ok(request)) });
      const patient = await s.open();
      patient.send(get(1, '/hold'));
      await until('its request', () => s.app.requests.length === 1);
      const hostile = await s.open();
      let asked = 1;
      for (let id = 1; id < 1_100; id += 2) {
        hostile.send(get(id, '/hold'));
        asked++;
        await until('its request', () => s.app.requests.length === asked, { everyMs: 1 });
        hostile.send(resetFrame(id, 8));
      }
      await hostile.lives();
      t.equal(s.app.connections.length, 2, 'a session of its own for the later ones');
      t.notOk(s.app.connections[0]?.ended);
      const { connection, id } = s.app.requests[0] as AppRequest;
      connection.send(head(id, [], true));
      t.equal(await patient.over(1), '200');
      await until('the first session to be closed', () => connection.ended);
      patient.send(get(3));
      t.equal(await patient.over(3), '200');
    },
  },
  {
    title: 'small pieces that cross the resets of many streams harm nobody else on the session',
    library: false,
    run: async (t, engine) => {
      const s = await stage(t, engine, { onEnd: (request) => (request.path === '/hold' ? hold() : ok(request)) });
      const [patient, hasty] = [await s.open(), await s.open()];
      patient.send(get(1, '/hold'));
      await until('its request', () => s.app.requests.length === 1);
      const ids = Array.from({ length: 20 }, (_, n) => 2 * n + 1);
      hasty.send(...ids.map((id) => get(id, '/hold')));
      await until('theirs', () => s.app.requests.length === 1 + ids.length);
      hasty.send(...ids.map((id) => resetFrame(id, 8)));
      const [held, ...late] = s.app.requests as [AppRequest, ...AppRequest[]];
      await until('the resets', () => late.every(({ message }) => message.reset !== null));
      const { connection } = held;
      for (const { id } of late) connection.send(head(id), ...Array.from({ length: 1000 }, () => dataFrame(id, 'x')));
      t.ok(await connection.lives());
      t.equal(connection.goaway, null);
      connection.send(head(held.id, [], true));
      t.equal(await patient.over(1), '200');
    },
  },
  {
    title: '1,000 requests of one client',
    run: async (t, engine) => {
      const s = await stage(t, engine, {
        onEnd: ({ connection, id, path, message }) =>
          setImmediate(() => connection.send(head(id), dataFrame(id, `${path} ${message.bytes}`, true))),
      });
      const client = await s.open();
      const one = async (id: number): Promise<void> => {
        const content = Buffer.alloc(id % 50);
        if (content.length === 0) client.send(get(id, `/${id}`));
        else client.send(post(id, `/${id}`), dataFrame(id, content, true));
        const outcome = await client.over(id);
        if (outcome !== '200' || client.content(id) !== `/${id} ${content.length}`)
          t.fail(`${id}: ${outcome} ${client.content(id)}`);
      };
      let next = 1;
      const lane = async (): Promise<void> => {
        for (let id = next; id < 2_000; id = next) {
          next += 2;
          await one(id);
        }
      };
      await Promise.all(Array.from({ length: 200 }, lane));
      t.equal(s.app.requests.length, 1_000);
      t.ok(s.app.connections.length <= 3, `${s.app.connections.length} sessions`);
      t.equal(s.lane.counts.ended, 1_000);
      t.same(s.lane.counts.errors, []);
    },
  },
];

t.test('a head that the app would end the session for is not sent to it', async (t) => {
  const limit = 8192;
  const hanging: AppRequest[] = [];
  const started = await startFrameApp(t, {
    settings: [[setting.maxHeaderListSize, limit]],
    onEnd: (request) => {
      const { connection, id, path } = request;
      const fields = connection.message(id).blocks[0] ?? [];
      const bytes = fields.reduce((sum, [name, value]) => sum + name.length + value.length + 32, 0);
      if (bytes > limit) connection.socket.destroy();
      else if (path === '/hang') hanging.push(request);
      else connection.send(headersFrame(id, okFields, true));
    },
  });
  const lane = await startLane(t, { engine: 'fast', protocol: 'http2', app: started.port });
  const [attacker, other] = [await openClient(t, lane.port), await openClient(t, lane.port)];
  other.send(get(1, '/hang'));
  await until('it to reach the app', () => hanging.length === 1);
  attacker.send(get(1, '/', [['x-large', 'a'.repeat(limit)]]));
  t.equal(await attacker.over(1), '431');
  attacker.send(get(3, '/', [['x-large', 'a'.repeat(limit / 2)]]));
  t.equal(await attacker.over(3), '200', 'its connection goes on');
  const named: Fields = [...requestFields('/').filter(([name]) => name !== ':authority'), ['host', 'web']];
  const bytesOf = (fields: Fields): number =>
    fields.reduce((sum, [name, value]) => sum + (name + value).length + 32, 0);
  const fill = 'a'.repeat(limit - bytesOf([...named, ['x-large', '']]));
  attacker.send(headersFrame(5, [...named, ['x-large', fill]]));
  t.equal(await attacker.over(5), '431', 'one that is as large as it takes, until the app gets it with :authority');
  for (const { connection, id } of hanging) connection.send(headersFrame(id, okFields, true));
  t.equal(await other.over(1), '200', 'nobody else notices');
});

t.test('a connect that is under way ends with the proxy', async (t) => {
  let cancelled = 0;
  const budget = new BufferBudget(defaultLimits, { limitReached: () => {} });
  t.teardown(() => budget.close());
  const upstreams = { connect: () => ({ cancel: () => cancelled++ }) } as unknown as Upstreams;
  const sessions = new AppSessionPool({ host: '127.0.0.1', port: 1 }, upstreams, budget);
  const nobody = waitingRequest({
    begun: () => t.fail('there is no session'),
    lost: () => t.fail('nobody listens any more'),
    destroy: () => t.fail('nothing is at fault'),
  });
  t.equal(sessions.open(nobody, admittedForNow), null);
  sessions.close();
  t.equal(cancelled, 1);
});

t.setTimeout(600_000);

for (const engine of engines) {
  await t.test(engine, { timeout: 300_000 }, async (t) => {
    for (const row of [...answers, ...resets].filter(({ library }) => engine === 'fast' || library !== null)) {
      await t.test(row.title, (t) => play(t, engine, row));
    }
    for (const { title, run } of scenarios.filter(({ library }) => engine === 'fast' || library !== false)) {
      await t.test(title, { timeout: 90_000 }, (t) => run(t, engine));
    }
  });
}
