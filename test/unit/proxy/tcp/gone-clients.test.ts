import { type AddressInfo, createServer, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import t, { type Test } from 'tap';
import type { ConnectionPermit } from '../../../../lib/policy/decision.ts';
import { noKeeper } from '../../../../lib/proxy/kept.ts';
import { resetOrDestroy } from '../../../../lib/proxy/resets.ts';
import { forwardTcp } from '../../../../lib/proxy/tcp/forward.ts';
import { tie } from '../../../../lib/proxy/tcp/tunnel-ends.ts';
import { Upstreams } from '../../../../lib/proxy/upstream/upstreams.ts';
import { connectedPair } from '../../../support/lane-stage.ts';
import { until } from '../../../support/until.ts';

/*
 * The client of a tunnel ends its side, and is then gone before it had all that the app says. The app would wait for it
 * for ever: a connection of which nobody hears any more, with its buffers.
 */

/** Says more than any buffer holds, reads all, and ends only with its connection. */
async function startTalker(t: Test): Promise<{ readonly port: number; readonly sockets: readonly Socket[] }> {
  const sockets: Socket[] = [];
  const chunk = Buffer.alloc(64 * 1024, 'y');
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.push(socket);
    const pour = (): void => {
      while (!socket.destroyed && socket.write(chunk));
    };
    socket.on('error', () => {});
    socket.on('drain', pour);
    socket.resume();
    pour();
  });
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { port: (server.address() as AddressInfo).port, sockets };
}

const upstreams = new Upstreams({
  connectTimeoutMs: 5_000,
  limits: { maxConnections: 100, maxPendingConnects: 10, headerTimeoutMs: 60_000 },
  recorder: { openDestination: () => ({ closed: () => {} }), limitReached: () => {} } as never,
  isOwn: () => false,
});

type Tunnel = (client: Socket, port: number) => Promise<void>;

const rows: readonly (readonly [title: string, tunnel: Tunnel])[] = [
  [
    'a TCP connection',
    async (client, port) => {
      const beginning = { asker: '', keeper: noKeeper, bytes: Buffer.alloc(0), guard: null, refused: () => {} };
      const endpoint = { host: '127.0.0.1', port };
      forwardTcp(
        {} as ConnectionPermit,
        client,
        endpoint,
        upstreams,
        beginning,
        () => {},
        () => {},
      );
    },
  ],
  [
    'an upgraded one',
    (client, port) =>
      new Promise((resolve, reject) => {
        upstreams.connect({} as ConnectionPermit, { host: '127.0.0.1', port }, '', (error, app: Duplex) => {
          if (error !== null) {
            reject(error);
            return;
          }
          tie(client, app, noKeeper);
          resolve();
        });
      }),
  ],
];

/** How the proxy comes to know, behind the end of the client's side. */
const ways: readonly (readonly [title: string, leave: (client: Socket, peer: Socket) => void])[] = [
  ['is reset', (_client, peer) => peer.resetAndDestroy()],
  ['is closed by the proxy itself, for a limit', (client) => client.destroy()],
];

t.setTimeout(180_000);

for (const [title, tunnel] of rows) {
  for (const [way, leave] of ways) {
    t.test(`${title} whose client has ended its side, and then ${way}`, async (t) => {
      const app = await startTalker(t);
      const { client, socket } = await connectedPair(t);
      client.socket.pause();
      socket.on('error', () => {});
      await tunnel(socket, app.port);
      await until('more than the client takes', () => socket.writableNeedDrain);
      client.halfClose();
      await until('the end of its side', () => socket.readableEnded);
      t.notOk(app.sockets[0]?.destroyed, 'its other side goes on');
      leave(socket, client.socket);
      await until('the app to be let go', () => app.sockets[0]?.destroyed === true);
      t.ok(socket.destroyed);
    });
  }
}

t.test('a reset is sent at once, and leaves no descriptor, whatever has been said before', async (t) => {
  const says: readonly (readonly [title: string, say: (socket: Socket) => void])[] = [
    ['nothing', () => {}],
    ['its end, which is on its way', (socket) => socket.end()],
    ['more than is taken', (socket) => socket.write(Buffer.alloc(1 << 24))],
    ['more than is taken, and its end', (socket) => socket.end(Buffer.alloc(1 << 24))],
  ];
  for (const [title, say] of says) {
    const { client, socket } = await connectedPair(t);
    client.socket.pause();
    let closed = false;
    socket.on('error', () => {});
    socket.once('close', () => {
      closed = true;
    });
    say(socket);
    resetOrDestroy(socket);
    // What else may happen to it.
    socket.destroy(new Error('read ECONNRESET'));
    await until(`the end of one that has said ${title}`, () => closed);
    client.socket.resume();
    t.ok(await until('the end of the connection', () => client.ended), title);
  }
});
