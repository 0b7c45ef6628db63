import t from 'tap';
import {
  dataFrame,
  type Fields,
  headersFrame,
  requestFields,
  setting,
  windowFrame,
} from '../../../support/http2-frames.ts';
import { okFields, openClient, startFrameApp } from '../../../support/http2-peers.ts';
import { engines, startLane } from '../../../support/lanes.ts';
import { startRawApp } from '../../../support/raw-app.ts';
import { latin1, oddLines, RawClient } from '../../../support/raw-http.ts';
import { until } from '../../../support/until.ts';

/* SALLYPORT_REQUEST_TIMEOUT, whichever versions client and app speak: 504 before a response, cut in one. Counted once. */

const requestTimeoutMs = 1000;
const marker: Fields = [['l5d-orig-proto', 'HTTP/1.1']];
const grpc: Fields = [['content-type', 'application/grpc']];

interface Row {
  readonly title: string;
  readonly path: string;
  readonly more?: Fields;
  /** The request goes on: some of its content, and never its end. */
  readonly uploads?: number;
  /** Room for the response; all of it unless it is named. */
  readonly window?: number;
  readonly expect: string;
  readonly trailers?: Fields;
}

const rows: readonly Row[] = [
  { title: 'no response', path: '/hang', expect: '504' },
  { title: 'no response, content on its way', path: '/hang', uploads: 3, expect: '504' },
  { title: 'no response, content that the app leaves unread', path: '/unread', uploads: 60_000, expect: '504' },
  { title: 'no response to a gRPC call', path: '/hang', more: grpc, uploads: 3, expect: '200' },
  { title: 'half a response', path: '/half', expect: '200 INTERNAL_ERROR' },
  { title: 'half a response, content on its way', path: '/half', uploads: 3, expect: '200 INTERNAL_ERROR' },
  { title: 'a response that its client does not read', path: '/large', window: 0, expect: '200 INTERNAL_ERROR' },
];

/** Of gRPC over HTTP/2 to the app: an HTTP/1 app has no trailers. */
const grpcRows: readonly Row[] = [
  {
    title: 'half a response to a gRPC call',
    path: '/half',
    more: grpc,
    uploads: 3,
    expect: '200',
    trailers: [['grpc-status', '14']],
  },
  {
    title: 'half a response to a gRPC call that its client does not read',
    path: '/half',
    more: grpc,
    uploads: 3,
    window: 0,
    expect: '200 INTERNAL_ERROR',
  },
];

const large = Buffer.alloc(60_000);

async function http2App(t: Parameters<typeof startFrameApp>[0]): Promise<{ port: number; released: () => boolean }> {
  const app = await startFrameApp(t, {
    consumes: false,
    onRequest: ({ connection, id, path, fields }) => {
      const head: Fields = [...okFields, ...fields.filter(([name]) => name === 'content-type')];
      if (path === '/half') connection.send(headersFrame(id, head, false), dataFrame(id, 'half'));
      if (path === '/large')
        connection.send(
          headersFrame(id, head, false),
          ...[0, 1, 2].map((n) => dataFrame(id, large.subarray(0, 16_000), n === 2)),
        );
    },
    onEnd: () => {},
  });
  const released = (): boolean =>
    app.requests.every(({ message, path }) => message.reset !== null || path === '/large');
  return { port: app.port, released };
}

async function http1App(t: Parameters<typeof startRawApp>[0]): Promise<{ port: number; released: () => boolean }> {
  const sockets: import('node:net').Socket[] = [];
  const app = await startRawApp(t, {
    raw: ({ socket }, chunk) => {
      const text = chunk.toString('latin1');
      if (!sockets.includes(socket)) sockets.push(socket);
      if (text.includes('/agree ') || text.includes('agree:'))
        socket.write(
          text.startsWith('CONNECT')
            ? 'HTTP/1.1 200 OK\r\n\r\n'
            : `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${/^upgrade: (.*)\r$/im.exec(text)?.[1]}\r\n\r\n`,
        );
      if (text.includes('/half ')) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf');
      if (text.includes('/large '))
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${large.length}\r\n\r\n${large.toString('latin1')}`);
      if (text.includes('/unread ')) socket.pause();
    },
  });
  return {
    port: app.port,
    released: () => sockets.every((socket) => socket.destroyed || socket.isPaused() || socket.readableEnded),
  };
}

for (const [kind, start] of [
  ['HTTP/2', http2App],
  ['HTTP/1', http1App],
] as const) {
  for (const row of kind === 'HTTP/2' ? [...rows, ...grpcRows] : rows) {
    t.test(`an ${kind} app: ${row.title}`, async (t) => {
      const app = await start(t);
      const lane = await startLane(t, {
        engine: 'fast',
        protocol: 'http2',
        app: app.port,
        limits: { requestTimeoutMs },
      });
      const client = await openClient(t, lane.port, {
        consumes: false,
        settings: row.window === undefined ? [] : [[setting.initialWindowSize, row.window]],
      });
      const { more = [], uploads = 0 } = row;
      const fields = [...(kind === 'HTTP/1' ? marker : []), ...more];
      const from = performance.now();
      client.send(headersFrame(1, requestFields(row.path, fields, uploads > 0 ? 'POST' : 'GET'), uploads === 0));
      for (let left = uploads; left > 0; left -= 15_000) client.data(1, Buffer.alloc(Math.min(left, 15_000)));
      t.equal(await client.over(1).then(() => client.outcome(1)), row.expect);
      t.ok(performance.now() - from >= requestTimeoutMs, 'not before its time');
      if (row.trailers !== undefined) t.same(client.message(1).blocks.at(-1), row.trailers);
      if (more === grpc && row.path === '/hang') {
        t.match(client.message(1).blocks[0], [
          [':status', '200'],
          ['content-type', 'application/grpc'],
          ['grpc-status', '4'],
        ]);
      }
      await until('it to be counted out', () => lane.counts.started === lane.counts.ended);
      await until('the app to be told', () => app.released());
      await until('nothing to wait for it', () => lane.heldBytes() === 0);
      // Longer than a look at deadlines, and than the time in which what is left of the content is read away.
      await new Promise((resolve) => setTimeout(resolve, 1500));
      t.same(lane.counts.limits, ['request_timeout'], 'counted once');
      const isRefused = row.expect === '504' || (more === grpc && row.path === '/hang');
      t.same(lane.counts.httpErrors, isRefused ? ['i/o'] : []);
      const isBroken = !isRefused && row.path !== '/large';
      t.same(lane.counts.broken, isBroken ? ['ERR_SALLYPORT_REQUEST_TIMEOUT'] : []);
      t.same(lane.counts.errors, row.path === '/large' ? [] : ['unclassified'], 'where the app had not done its part');
      client.send(windowFrame(0, 1000));
      t.ok(client.ended || row.expect !== '504' || client.goaway !== null, 'after 504 the connection ends');
    });
  }
}

const toWebSocket = 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n';
const switches = [
  ['Upgrade', 'Connection: Upgrade\r\nUpgrade: chat/1\r\n'],
  ['WebSocket', toWebSocket],
  ['WebSocket in the library lane', `${oddLines}${toWebSocket}`],
] as const;

for (const engine of engines) {
  for (const [title, request, expect] of [
    ['no response', 'GET /hang HTTP/1.1\r\nHost: a\r\n\r\n', /^HTTP\/1\.1 504 /],
    ['content on its way', 'POST /hang HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc', /^HTTP\/1\.1 504 /],
    [
      'chunks on their way',
      'POST /hang HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n',
      /^HTTP\/1\.1 504 /,
    ],
    ['half a response', 'GET /half HTTP/1.1\r\nHost: a\r\n\r\n', /^HTTP\/1\.1 200 .*half$/s],
    ['no response to CONNECT', 'CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n', /^HTTP\/1\.1 504 /],
    ...switches.flatMap(
      ([asked, fields]) =>
        [
          [`no response to ${asked}`, `GET /hang HTTP/1.1\r\nHost: a\r\n${fields}\r\n`, /^HTTP\/1\.1 504 /],
          [`half a response to ${asked}`, `GET /half HTTP/1.1\r\nHost: a\r\n${fields}\r\n`, /^HTTP\/1\.1 200 .*half$/s],
        ] as const,
    ),
  ] as const) {
    t.test(`an HTTP/1 client, ${engine}: ${title}`, async (t) => {
      const app = await http1App(t);
      // Nothing of these is a tunnel.
      const limits = { requestTimeoutMs, tunnelIdleTimeoutMs: requestTimeoutMs / 2 };
      const lane = await startLane(t, { engine, app: app.port, limits });
      const client = await RawClient.open({ port: lane.port });
      t.teardown(() => client.destroy());
      client.send(latin1(request));
      t.ok(await until('the end of the connection', () => client.ended), 'its connection ends');
      t.match(client.received.toString('latin1'), expect);
      await until('it to be counted out', () => lane.counts.started === lane.counts.ended);
      await until('the app to be told', () => app.released());
      t.same(lane.counts.limits, ['request_timeout'], 'counted once');
      const isBroken = title.startsWith('half a response');
      t.same(lane.counts.httpErrors, isBroken ? [] : ['i/o']);
      t.same(lane.counts.broken, isBroken ? ['ERR_SALLYPORT_REQUEST_TIMEOUT'] : []);
    });
  }
}

for (const engine of engines) {
  for (const [asked, request] of [
    ['CONNECT', 'CONNECT agree:80 HTTP/1.1\r\nHost: agree:80\r\n\r\n'],
    ...switches.map(([asked, fields]) => [asked, `GET /agree HTTP/1.1\r\nHost: a\r\n${fields}\r\n`] as const),
  ] as const) {
    t.test(`${asked}, ${engine}: what the app has agreed to has the time of a tunnel`, async (t) => {
      const app = await http1App(t);
      const limits = { requestTimeoutMs, tunnelIdleTimeoutMs: 3 * requestTimeoutMs };
      const lane = await startLane(t, { engine, app: app.port, limits });
      const client = await RawClient.open({ port: lane.port });
      t.teardown(() => client.destroy());
      client.send(latin1(request));
      await until('the tunnel', () => client.received.includes('\r\n\r\n'));
      t.match(client.received.toString('latin1'), /^HTTP\/1\.1 (101|200) /);
      await until('the end of the connection', () => client.ended);
      t.same(lane.counts.limits, ['tunnel_idle_timeout']);
    });
  }
}
