import t, { type Test } from 'tap';
import { workloadName } from '../../../../support/certificates.ts';
import {
  dataFrame,
  type Fields,
  headersFrame,
  requestFields,
  resetFrame,
  setting,
  windowFrame,
} from '../../../../support/http2-frames.ts';
import { type Http2Stage, http2Stage, still } from '../../../../support/lane-stage.ts';
import { type Engine, engines, type LaneOptions } from '../../../../support/lanes.ts';
import { meshed } from '../../../../support/mesh.ts';
import { type AppSocket, type RawApp, type RawAppOptions, startRawApp } from '../../../../support/raw-app.ts';
import { latin1 } from '../../../../support/raw-http.ts';
import { until } from '../../../../support/until.ts';

/*
 * Meshed clients carry HTTP/1 over HTTP/2 (Linkerd's orig-proto): the app gets HTTP/1.1, in bytes that no parser can take
 * apart differently, and its responses come back as HTTP/2.
 */

type Stage = Http2Stage<RawApp>;

const stage = (t: Test, engine: Engine, app: RawAppOptions, lane: Partial<LaneOptions> = {}): Promise<Stage> =>
  http2Stage(t, engine, () => startRawApp(t, app), lane);

const marker: Fields = [['l5d-orig-proto', 'HTTP/1.1']];
const request = (id: number, method: string, path = '/', more: Fields = [], endStream = true): Buffer =>
  headersFrame(id, requestFields(path, [...marker, ...more], method), endStream);
const get = (id: number, path = '/', more: Fields = []): Buffer => request(id, 'GET', path, more);
const post = (id: number, path = '/', more: Fields = []): Buffer => request(id, 'POST', path, more, false);

interface Answer {
  readonly title: string;
  readonly method?: string;
  /** What the app sends. */
  readonly send: string;
  /** How it ends its connection thereafter, if it does. */
  readonly end?: 'end' | 'reset';
  /** The final status, and the code of a reset. */
  readonly expect: string;
  /** The header blocks that the client gets, without `l5d-orig-proto`. */
  readonly blocks?: readonly Fields[];
  readonly content?: string;
  /** Whether the app's connection is used again; true where nothing is said. */
  readonly reused?: boolean;
}

const ok = 'HTTP/1.1 200 OK\r\n';
const broken = { expect: '200 INTERNAL_ERROR', reused: false } as const;
const bad = { expect: '502', reused: false } as const;

const answers: readonly Answer[] = [
  {
    title: 'content of a known length',
    send: `${ok}Content-Length: 5\r\n\r\nhello`,
    expect: '200',
    content: 'hello',
    blocks: [
      [
        [':status', '200'],
        ['content-length', '5'],
      ],
    ],
  },
  { title: 'none', send: `${ok}Content-Length: 0\r\n\r\n`, expect: '200', content: '' },
  {
    title: 'chunks',
    send: `${ok}Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n`,
    expect: '200',
    content: 'hello',
    blocks: [[[':status', '200']]],
  },
  {
    title: 'chunks and trailers',
    send: `${ok}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T:  y \r\n\r\n`,
    expect: '200',
    content: 'hello',
    blocks: [[[':status', '200']], [['x-t', 'y']]],
  },
  {
    title: 'no chunk but the last, and trailers',
    send: `${ok}Transfer-Encoding: chunked\r\n\r\n0\r\nX-T: y\r\n\r\n`,
    expect: '200',
    content: '',
    blocks: [[[':status', '200']], [['x-t', 'y']]],
  },
  {
    title: 'until the connection ends',
    send: `${ok}\r\nhello`,
    end: 'end',
    expect: '200',
    content: 'hello',
    reused: false,
  },
  {
    title: 'until the connection ends, at once',
    send: `${ok}\r\n`,
    end: 'end',
    expect: '200',
    content: '',
    reused: false,
  },
  { title: 'until the connection is cut', send: `${ok}\r\nhello`, end: 'reset', ...broken },
  {
    title: 'less than announced',
    send: `${ok}Content-Length: 9\r\n\r\nhello`,
    end: 'end',
    ...broken,
    content: 'hello',
  },
  {
    title: 'chunks without the last',
    send: `${ok}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n`,
    end: 'end',
    ...broken,
    content: 'hello',
  },
  { title: 'a chunk that is none', send: `${ok}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nxyz\r\n`, ...broken },
  {
    title: 'HEAD and a length',
    method: 'HEAD',
    reused: false,
    send: `${ok}Content-Length: 5\r\n\r\n`,
    expect: '200',
    content: '',
    blocks: [
      [
        [':status', '200'],
        ['content-length', '5'],
      ],
    ],
  },
  {
    title: 'HEAD and chunks',
    method: 'HEAD',
    reused: false,
    send: `${ok}Transfer-Encoding: chunked\r\n\r\n`,
    expect: '200',
    content: '',
    blocks: [[[':status', '200']]],
  },
  { title: '204', send: 'HTTP/1.1 204 No Content\r\n\r\n', expect: '204', blocks: [[[':status', '204']]] },
  {
    title: '304 and a length',
    send: 'HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nETag: "x"\r\n\r\n',
    expect: '304',
    content: '',
    blocks: [
      [
        [':status', '304'],
        ['content-length', '5'],
        ['etag', '"x"'],
      ],
    ],
    reused: false,
  },
  {
    title: 'interim responses without end',
    send: 'HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n'.repeat(200),
    ...bad,
  },
  {
    title: 'interim responses of 70 KiB',
    send: `HTTP/1.1 103 Early Hints\r\nLink: </${'x'.repeat(10_000)}>\r\n\r\n`.repeat(7),
    ...bad,
  },
  {
    title: '103, then 200',
    send: `HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n${ok}Content-Length: 0\r\n\r\n`,
    expect: '200',
    blocks: [
      [
        [':status', '103'],
        ['link', '</x>'],
      ],
      [
        [':status', '200'],
        ['content-length', '0'],
      ],
    ],
  },
  {
    title: '100, then 200',
    send: `HTTP/1.1 100 Continue\r\n\r\n${ok}Content-Length: 0\r\n\r\n`,
    expect: '200',
  },
  {
    title: '101, which nobody asked for',
    send: 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n',
    ...bad,
  },
  {
    title: 'names in capitals, blanks around values, bytes beyond ASCII',
    send: `${ok}X-Name:\t \xffa\tb\xe9 \t\r\nEMPTY:\r\nContent-Length: 0\r\n\r\n`,
    expect: '200',
    blocks: [
      [
        [':status', '200'],
        ['x-name', '\xffa\tb\xe9'],
        ['empty', ''],
        ['content-length', '0'],
      ],
    ],
  },
  {
    title: 'fields of the connection stay behind',
    send: `${ok}Connection: keep-alive, X-Hop\r\nKeep-Alive: timeout=9\r\nProxy-Connection: keep-alive\r\nUpgrade: h2c\r\nX-Hop: 1\r\nX-End: 2\r\nContent-Length: 0\r\n\r\n`,
    expect: '200',
    blocks: [
      [
        [':status', '200'],
        ['x-end', '2'],
        ['content-length', '0'],
      ],
    ],
  },
  {
    title: 'repeated fields',
    send: `${ok}Set-Cookie: a=b\r\nSet-Cookie: c=d\r\nContent-Length: 0\r\n\r\n`,
    expect: '200',
    blocks: [
      [
        [':status', '200'],
        ['set-cookie', 'a=b'],
        ['set-cookie', 'c=d'],
        ['content-length', '0'],
      ],
    ],
  },
  {
    title: 'Connection: close',
    send: `${ok}Connection: close\r\nContent-Length: 2\r\n\r\nok`,
    end: 'end',
    expect: '200',
    content: 'ok',
    reused: false,
  },
  {
    title: 'HTTP/1.0',
    send: 'HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok',
    expect: '200',
    content: 'ok',
    reused: false,
  },
  {
    title: 'more than the response',
    send: `${ok}Content-Length: 2\r\n\r\nok${ok}Content-Length: 4\r\n\r\nevil`,
    expect: '200',
    content: 'ok',
    reused: false,
  },
  { title: 'no HTTP', send: 'SSH-2.0-OpenSSH_9.2\r\n\r\n', ...bad },
  { title: 'two lengths', send: `${ok}Content-Length: 2\r\nContent-Length: 3\r\n\r\nok`, ...bad },
  {
    title: 'a length and chunks',
    send: `${ok}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    ...bad,
  },
  { title: 'a name with a blank', send: `${ok}X : y\r\nContent-Length: 0\r\n\r\n`, ...bad },
  { title: 'a folded line', send: `${ok}X: y\r\n z\r\nContent-Length: 0\r\n\r\n`, ...bad },
  { title: 'CR in a value', send: `${ok}X: y\rz\r\nContent-Length: 0\r\n\r\n`, ...bad },
  { title: 'a head without an end', send: `${ok}X: ${'y'.repeat(300_000)}`, ...bad },
  { title: 'nothing', send: '', end: 'end', ...bad },
  { title: 'half a head', send: ok, end: 'end', ...bad },
];

async function play(t: Test, engine: Engine, row: Answer): Promise<void> {
  let reset = (): void => {};
  const s = await stage(t, engine, {
    answer: ({ target }, { socket }) => {
      if (target === '/next') {
        socket.write(`${ok}Content-Length: 4\r\n\r\nnext`);
        return;
      }
      reset = () => void socket.resetAndDestroy();
      socket.write(latin1(row.send), () => {
        if (row.end === 'end') socket.end();
      });
    },
  });
  const client = await s.open();
  client.send(request(1, row.method ?? 'GET'));
  if (row.end === 'reset') {
    // Not before what was written has come.
    await client.until('what comes before the reset', () => client.message(1).bytes > 0);
    reset();
  }
  t.equal(await client.over(1), row.expect);
  t.equal(client.fault, null);
  if (row.content !== undefined) t.equal(client.content(1), row.content);
  if (row.blocks !== undefined) {
    const blocks = client.message(1).blocks.map((fields) => fields.filter(([name]) => name !== 'l5d-orig-proto'));
    t.same(blocks, row.blocks);
  }
  // 502 ends the client's connection.
  const next = client.status(1) === 502 ? await s.open() : client;
  next.send(get(3, '/next'));
  t.equal(await next.over(3), '200');
  t.equal(next.content(3), 'next');
  t.equal(s.app.sockets.length === 1, row.reused ?? true, `${s.app.sockets.length} connections to the app`);
}

interface Asked {
  readonly title: string;
  readonly send: readonly Buffer[];
  readonly headerChanges?: LaneOptions['headerChanges'];
  readonly method?: string;
  readonly target?: string;
  /** Fields that the app must get, beside `host`; framing is looked at by what it carries. */
  readonly fields?: Fields;
  readonly framing: 'none' | 'zero' | 'length' | 'chunked';
  readonly body?: string;
  /** HTTP/1.1 where nothing is said. */
  readonly version?: string;
  /** False where the library's engine for HTTP/2 has other ways. */
  readonly library?: false;
}

/** What the app is asked. */
const requests: readonly Asked[] = [
  { title: 'GET', send: [get(1, '/a?b=c')], target: '/a?b=c', framing: 'none' },
  {
    title: 'HTTP/1.0 and absolute-form',
    send: [headersFrame(1, requestFields('/', [['l5d-orig-proto', 'HTTP/1.0; absolute-form']]))],
    version: 'HTTP/1.0',
    library: false,
    framing: 'none',
  },
  {
    title: 'POST of a known length',
    send: [post(1, '/', [['content-length', '5']]), dataFrame(1, 'hel'), dataFrame(1, 'lo', true)],
    method: 'POST',
    framing: 'length',
    body: 'hello',
  },
  {
    title: 'POST of an unknown one',
    send: [post(1), dataFrame(1, 'hel'), dataFrame(1, 'lo', true)],
    method: 'POST',
    framing: 'chunked',
    body: 'hello',
  },
  { title: 'POST of nothing', library: false, send: [request(1, 'POST')], method: 'POST', framing: 'zero' },
  {
    title: 'POST of nothing after all',
    send: [post(1), dataFrame(1, '', true)],
    method: 'POST',
    framing: 'chunked',
    body: '',
  },
  { title: 'DELETE of nothing', send: [request(1, 'DELETE')], method: 'DELETE', framing: 'none' },
  {
    title: 'GET with content',
    send: [request(1, 'GET', '/', [], false), dataFrame(1, 'x', true)],
    framing: 'chunked',
    body: 'x',
  },
  {
    title: 'Content-Length 0',
    send: [request(1, 'POST', '/', [['content-length', '0']])],
    method: 'POST',
    framing: 'zero',
  },
  {
    title: 'Content-Length 0, and END_STREAM later',
    send: [post(1, '/', [['content-length', '0']]), dataFrame(1, '', true)],
    method: 'POST',
    framing: 'zero',
  },
  {
    title: 'trailers go no further',
    library: false,
    send: [
      post(1, '/', [['trailer', 'x']]),
      dataFrame(1, 'ab'),
      headersFrame(1, [
        ['x', 'y'],
        ['l5d-client-id', 'admin'],
      ]),
    ],
    method: 'POST',
    framing: 'chunked',
    body: 'ab',
  },
  {
    title: 'cookies become one',
    send: [
      get(1, '/', [
        ['cookie', 'a=b'],
        ['x', '1'],
        ['cookie', 'c=d'],
      ]),
    ],
    fields: [
      ['x', '1'],
      ['cookie', 'a=b; c=d'],
    ],
    framing: 'none',
  },
  {
    title: 'bytes beyond ASCII',
    send: [get(1, '/\xc3\xa9', [['x', '\xff\xfe a']])],
    target: '/\xc3\xa9',
    fields: [['x', '\xff\xfe a']],
    framing: 'none',
  },
  {
    title: 'no spelling of the identity header',
    send: [
      get(1, '/', [
        ['l5d-client-id', 'a'],
        ['l5d_client_id', 'b'],
        ['l5d.client.id', 'c'],
      ]),
    ],
    framing: 'none',
  },
  {
    title: 'OPTIONS *',
    send: [request(1, 'OPTIONS', '*')],
    method: 'OPTIONS',
    target: '*',
    framing: 'none',
  },
  {
    title: "a route's header changes",
    headerChanges: {
      add: [['x', '2']],
      set: [
        ['y', '3'],
        ['l5d-client-id', 'z'],
      ],
      remove: ['z', 'host'],
    },
    send: [
      get(1, '/', [
        ['x', '1'],
        ['y', '1'],
        ['y', '2'],
        ['z', '1'],
      ]),
    ],
    fields: [
      ['x', '1'],
      ['x', '2'],
      ['y', '3'],
    ],
    framing: 'none',
  },
];

const ofFraming = new Set(['host', 'content-length', 'transfer-encoding', 'connection']);

async function ask(t: Test, engine: Engine, row: Asked): Promise<void> {
  const changes = row.headerChanges === undefined ? {} : { headerChanges: row.headerChanges };
  const s = await stage(t, engine, {}, changes);
  const client = await s.open();
  client.send(...row.send);
  t.equal(await client.over(1), '200');
  t.same(s.app.malformed, []);
  t.equal(s.app.requests.length, 1);
  const seen = s.app.requests[0] as RawApp['requests'][number];
  t.equal(seen.method, row.method ?? 'GET');
  t.equal(seen.target, row.target ?? '/');
  t.equal(seen.version, row.version ?? 'HTTP/1.1');
  const headers = seen.headers.map(([name, value]) => [name.toLowerCase(), value] as const);
  t.same(
    headers.filter(([name]) => !ofFraming.has(name)),
    row.fields ?? [],
  );
  t.same(
    headers.filter(([name]) => name === 'host'),
    [['host', 'web']],
  );
  const lengths = headers.filter(([name]) => name === 'content-length').map(([, value]) => value);
  const codings = headers.filter(([name]) => name === 'transfer-encoding').map(([, value]) => value);
  const framing =
    codings.length > 0 ? 'chunked' : lengths.length === 0 ? 'none' : lengths[0] === '0' ? 'zero' : 'length';
  t.equal(framing, row.framing);
  t.ok(lengths.length + codings.length <= 1, 'framed once');
  t.equal(seen.body.toString('latin1'), row.body ?? '');
  t.same(seen.trailers, []);
}

interface Scenario {
  readonly title: string;
  /** As in `Asked`. */
  readonly library?: false;
  run(t: Test, engine: Engine): Promise<void>;
}

const answer = (content = 'ok'): string => `${ok}Content-Length: ${content.length}\r\n\r\n${content}`;

/** Answers the first request of a connection, and closes when the second one comes: the race of every keep-alive. */
const closesOnSecond: RawAppOptions = {
  raw: (connection) => {
    connection.requests++;
    if (connection.requests === 1) connection.socket.write(answer(String(connection.number)));
    else connection.socket.destroy();
  },
};

const races: readonly (readonly [title: string, second: readonly Buffer[], expect: string])[] = [
  ['GET is asked again', [get(3)], '200'],
  ['DELETE is asked again', [request(3, 'DELETE')], '200'],
  ['POST is not', [request(3, 'POST')], '502'],
  [
    'nor is PUT with content',
    [request(3, 'PUT', '/', [['content-length', '1']], false), dataFrame(3, 'x', true)],
    '502',
  ],
];

const scenarios: readonly Scenario[] = [
  {
    title: 'the response says that it was HTTP/1',
    run: async (t, engine) => {
      const s = await stage(t, engine, {});
      const client = await s.open();
      client.send(get(1));
      await client.over(1);
      t.same(client.message(1).blocks[0]?.at(-1), ['l5d-orig-proto', 'HTTP/1.1']);
    },
  },
  {
    title: 'one connection for many requests, one after the other; and as many as there are at a time',
    run: async (t, engine) => {
      const held: AppSocket[] = [];
      const s = await stage(t, engine, {
        answer: ({ target }, connection) => {
          if (target === '/hold') held.push(connection);
          else connection.socket.write(answer(target));
        },
      });
      const client = await s.open();
      for (let id = 1; id < 20; id += 2) {
        client.send(get(id, `/${id}`));
        t.equal(await client.over(id), '200');
        t.equal(client.content(id), `/${id}`);
      }
      t.equal(s.app.sockets.length, 1);
      for (let id = 21; id < 41; id += 2) client.send(get(id, '/hold'));
      await until('ten at a time', () => held.length === 10);
      t.equal(s.app.sockets.length, 10);
      for (const { socket } of held) socket.write(answer('held'));
      for (let id = 21; id < 41; id += 2) t.equal(await client.over(id), '200');
    },
  },
  ...races.map(
    ([title, second, expect]): Scenario => ({
      title: `an idle connection closes just as it is taken: ${title}`,
      run: async (t, engine) => {
        const s = await stage(t, engine, closesOnSecond);
        const client = await s.open();
        client.send(get(1));
        t.equal(await client.over(1), '200');
        client.send(...second);
        t.equal((await client.over(3)).slice(0, 3), expect);
        t.equal(s.app.sockets.length, expect === '200' ? 2 : 1);
      },
    }),
  ),
  {
    title: 'a fresh connection that closes is no race',
    run: async (t, engine) => {
      const s = await stage(t, engine, { raw: ({ socket }) => socket.destroy() });
      const client = await s.open();
      client.send(get(1));
      t.equal(await client.over(1), '502');
      t.equal(s.app.sockets.length, 1);
    },
  },
  {
    title: 'Expect: 100-continue',
    library: false,
    run: async (t, engine) => {
      const s = await stage(t, engine, {});
      const client = await s.open();
      client.send(
        post(1, '/', [
          ['expect', '100-continue'],
          ['content-length', '2'],
        ]),
      );
      await client.until('100', () => client.message(1).blocks.length === 1);
      t.equal(client.message(1).blocks[0]?.[0]?.[1], '100');
      client.send(dataFrame(1, 'ab', true));
      t.equal(await client.over(1), '200');
      t.equal(s.app.requests[0]?.body.toString(), 'ab');
      t.notOk(s.app.requests[0]?.headers.some(([name]) => name.toLowerCase() === 'expect'));
    },
  },
  {
    title: 'a client that gives up frees the connection to the app',
    run: async (t, engine) => {
      const s = await stage(t, engine, { answer: () => {} });
      const client = await s.open();
      client.send(get(1), post(3), dataFrame(3, 'abc'));
      await until(
        'both',
        () => s.app.sockets.length === 2 && s.app.sockets.some(({ pending }) => pending.includes('abc')),
      );
      client.send(resetFrame(1, 8), resetFrame(3, 8));
      await until('both to be closed', () => s.app.sockets.every(({ closed, ended }) => closed || ended));
      t.equal(s.lane.counts.ended, 2);
      t.equal(s.app.requests.length, 1, 'half a request is none');
      t.ok(await client.lives());
    },
  },
  {
    title: 'a client that is gone frees it, too',
    run: async (t, engine) => {
      const s = await stage(t, engine, { answer: () => {} });
      const client = await s.open();
      client.send(get(1));
      await until('the request', () => s.app.requests.length === 1);
      client.destroy();
      await until('it to be closed', () => s.app.sockets.every(({ closed, ended }) => closed || ended));
    },
  },
  {
    title: 'less content than announced is no request',
    run: async (t, engine) => {
      const s = await stage(t, engine, {});
      const client = await s.open();
      client.send(post(1, '/', [['content-length', '9']]), dataFrame(1, 'abc', true));
      t.equal(await client.over(1), 'PROTOCOL_ERROR');
      await until('the app to be left', () => s.app.sockets.every(({ closed, ended }) => closed || ended));
      t.equal(s.app.requests.length, 0);
    },
  },
  {
    title: 'a response while the request is still coming',
    run: async (t, engine) => {
      const s = await stage(t, engine, {
        partial: ({ socket, pending }) => {
          if (pending.includes('abc')) socket.write(answer('early'));
        },
      });
      const client = await s.open();
      client.send(post(1), dataFrame(1, 'abc'));
      await client.until('the response', () => client.message(1).ended);
      t.equal(client.content(1), 'early');
      await until('the app to be left', () => s.app.sockets.every(({ closed, ended }) => closed || ended));
      client.send(dataFrame(1, 'more', true), get(3));
      t.match(await client.over(3), '200', 'on another connection');
      t.equal(s.app.sockets.length, 2);
    },
  },
  {
    title: 'an app that takes nothing holds the client back',
    run: async (t, engine) => {
      const s = await stage(t, engine, {
        partial: ({ socket }) => {
          socket.pause();
        },
      });
      const client = await s.open();
      const size = 24 * 2 ** 20;
      client.send(post(1, '/', [['content-length', String(size)]]));
      let sent = 0;
      const sending = (async () => {
        const piece = Buffer.alloc(16_384, 'x');
        while (sent < size && !client.ended) {
          await client.until('room', () => client.room(1) > 0 || client.ended, 60_000);
          const step = Math.min(piece.length, client.room(1), size - sent);
          client.data(1, piece.subarray(0, step), sent + step === size);
          sent += step;
        }
      })();
      const most = await still('the client to be held back', () => sent);
      t.ok(most < 20 * 2 ** 20, `after ${most} bytes`);
      // From now on it reads.
      const [connection] = s.app.sockets as [AppSocket];
      connection.socket.on('pause', () => setImmediate(() => connection.socket.resume()));
      connection.socket.resume();
      await sending;
      t.equal(await client.over(1), '200');
      t.equal(s.app.requests[0]?.body.length, size);
    },
  },
  {
    title: 'a client that takes nothing holds the app back, and nobody else',
    run: async (t, engine) => {
      const size = 40 * 2 ** 20;
      const s = await stage(t, engine, {
        answer: ({ target }, { socket }) => {
          if (target !== '/large') {
            socket.write(answer());
            return;
          }
          socket.write(`${ok}Content-Length: ${size}\r\n\r\n`);
          socket.write(Buffer.alloc(size, 'y'));
        },
      });
      const client = await s.open({ consumes: false, settings: [[setting.initialWindowSize, 2 ** 24]] });
      client.send(get(1, '/large'));
      await until('the app to begin', () => s.app.sockets.length === 1);
      const [{ socket }] = s.app.sockets as [AppSocket];
      const left = await still('the app to be held back', () => size - socket.writableLength);
      t.ok(left < size, `${left} bytes have left the app`);
      t.ok(await client.lives());
      client.send(get(3));
      await client.until('a head', () => client.status(3) === 200);
      client.send(windowFrame(0, 2 ** 30), windowFrame(1, 2 ** 30), windowFrame(3, 1));
      await client.until('all of it', () => client.message(1).bytes === size, 20_000);
      t.equal(await client.over(1), '200');
    },
  },
  {
    title: 'the identity, and nothing that a client says about it',
    run: async (t, engine) => {
      const { termination: tls, client: mesh } = meshed('h2');
      const s = await stage(
        t,
        engine,
        {},
        { tls, headerChanges: { add: [['l5d-client-id', 'x']], set: [], remove: ['l5d-client-id'] } },
      );
      const client = await s.open({ tls: mesh });
      client.send(
        get(1, '/', [['l5d-client-id', 'admin']]),
        post(3, '/', [['l5d_client_id', 'admin']]),
        dataFrame(3, 'x', true),
      );
      for (const id of [1, 3]) t.equal(await client.over(id), '200');
      for (const { headers } of s.app.requests) {
        t.same(
          headers.filter(([field]) => /client.id/i.test(field)),
          [['l5d-client-id', workloadName('caller', 'shop')]],
        );
      }
      t.equal(s.app.requests.length, 2);
    },
  },
  {
    title: 'a refused request reaches nobody',
    run: async (t, engine) => {
      const s = await stage(t, engine, {});
      const client = await s.open();
      client.send(post(1, '/DENIED'), dataFrame(1, 'abc', true), get(3));
      t.match(await client.over(1), '403');
      t.equal(await client.over(3), '200');
      t.equal(s.app.requests.length, 1);
    },
  },
];

t.setTimeout(840_000);

for (const engine of engines) {
  await t.test(engine, { timeout: 540_000 }, async (t) => {
    for (const row of answers) await t.test(`responses: ${row.title}`, (t) => play(t, engine, row));
    const isAsked = ({ library }: { readonly library?: false }): boolean => engine === 'fast' || library !== false;
    for (const row of requests.filter(isAsked)) await t.test(`requests: ${row.title}`, (t) => ask(t, engine, row));
    for (const { title, run } of scenarios.filter(isAsked)) {
      await t.test(title, { timeout: 270_000 }, (t) => run(t, engine));
    }
  });
}
