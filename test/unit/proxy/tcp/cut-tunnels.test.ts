import { once } from 'node:events';
import net, { type AddressInfo, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import type { ConnectionPermit } from '../../../../lib/policy/decision.ts';
import { Tunnel } from '../../../../lib/proxy/http1/fast/tunnel.ts';
import { noKeeper } from '../../../../lib/proxy/kept.ts';
import { forwardTcp } from '../../../../lib/proxy/tcp/forward.ts';
import { tie } from '../../../../lib/proxy/tcp/tunnel-ends.ts';
import { Upstreams } from '../../../../lib/proxy/upstream/upstreams.ts';
import { startLane } from '../../../support/lanes.ts';
import { until } from '../../../support/until.ts';

/*
 * Bytes without requests say nothing of their own about being whole: what ends in order looks complete. A tunnel that
 * is cut, by a limit or by policy, must not.
 */

/** Both ends of a connection; `near` is the proxy's. */
async function pair(t: Test): Promise<{ readonly near: Socket; readonly far: Socket; readonly end: () => string }> {
  const server = net.createServer({ allowHalfOpen: true });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const far = net.connect({ host: '127.0.0.1', port, allowHalfOpen: true });
  const [near] = (await once(server, 'connection')) as [Socket];
  server.close();
  t.teardown(() => {
    near.destroy();
    far.destroy();
  });
  return { near, far, end: endOf(far) };
}

/** How a connection has ended for its peer; empty while it goes on. */
function endOf(far: Socket): () => string {
  let end = '';
  far.on('error', (error: NodeJS.ErrnoException) => {
    end ||= error.code ?? 'error';
  });
  far.on('end', () => {
    end ||= 'end';
  });
  return () => end;
}

interface Cut {
  /** What a limit, a change of policy or a fault of ours calls. */
  readonly cut: () => void;
  readonly client: Socket;
  readonly clientEnd: () => string;
  readonly app: Socket;
  readonly appEnd: () => string;
}

const upstreams = new Upstreams({
  connectTimeoutMs: 5_000,
  limits: { maxConnections: 100, maxPendingConnects: 10, headerTimeoutMs: 60_000 },
  recorder: { openDestination: () => ({ closed: () => {} }), limitReached: () => {} } as never,
  isOwn: () => false,
});

/** An app that leaves every word to the test, and its next connection. */
async function startApp(t: Test): Promise<{ readonly port: number; readonly arrived: Promise<Socket> }> {
  const server = net.createServer({ allowHalfOpen: true });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => server.close());
  const arrived = once(server, 'connection').then(([app]) => {
    t.teardown(() => app.destroy());
    return app as Socket;
  });
  return { port: (server.address() as AddressInfo).port, arrived };
}

async function overTcp(t: Test): Promise<Cut> {
  const { near, far, end } = await pair(t);
  const { port, arrived } = await startApp(t);
  const endpoint = { host: '127.0.0.1', port };
  const beginning = { asker: '', keeper: noKeeper, bytes: Buffer.from('hello'), guard: null, refused: () => {} };
  const nobody = (): void => {};
  const forwarding = forwardTcp({} as ConnectionPermit, near, endpoint, upstreams, beginning, nobody, nobody);
  const app = await arrived;
  return { cut: () => forwarding.destroy(), client: far, clientEnd: end, app, appEnd: endOf(app) };
}

async function overHttp(t: Test, carry: (client: Socket, app: Socket) => { destroy(): void }): Promise<Cut> {
  const client = await pair(t);
  const app = await pair(t);
  const tunnel = carry(client.near, app.near);
  return { cut: () => tunnel.destroy(), client: client.far, clientEnd: client.end, app: app.far, appEnd: app.end };
}

/** The connections are made, asked and answered as the lane does it. */
async function overLibraryLane(t: Test, protocol: string): Promise<Cut> {
  const { port, arrived } = await startApp(t);
  const lane = await startLane(t, { engine: 'library', app: port });
  const client = net.connect({ host: '127.0.0.1', port: lane.port, allowHalfOpen: true });
  t.teardown(() => client.destroy());
  client.write(`GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n\r\n`);
  const app = await arrived;
  await once(app, 'data');
  app.write(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n\r\n`);
  await once(client, 'data');
  return { cut: () => void lane.live.drain(0), client, clientEnd: endOf(client), app, appEnd: endOf(app) };
}

const rows: readonly (readonly [title: string, begin: (t: Test) => Promise<Cut>])[] = [
  ['TCP', overTcp],
  [
    'WebSocket, the fast lane',
    (t) =>
      overHttp(t, (near, app) => {
        const connection = { occupant: null } as never;
        const tunnel = new Tunnel(connection, null as never, near, { socket: app } as never, Buffer.alloc(0));
        // The app's connection reads it.
        app.on('data', (bytes: Buffer) => tunnel.receive(bytes));
        return tunnel;
      }),
  ],
  ['WebSocket, the library lane', (t) => overLibraryLane(t, 'websocket')],
  ['an upgrade, the library lane', (t) => overLibraryLane(t, 'chat/1')],
  [
    'two sides that are tied',
    (t) =>
      overHttp(t, (near, app) => {
        tie(near, app, noKeeper);
        return near;
      }),
  ],
];

for (const [title, begin] of rows) {
  t.test(`${title}: a cut resets both sides`, async (t) => {
    const { cut, client, clientEnd, app, appEnd } = await begin(t);
    app.write('half of a messa');
    const [said] = await once(client, 'data');
    t.equal(String(said), 'half of a messa');
    app.resume();
    cut();
    const lastSeen = (): string => `${clientEnd()}, ${appEnd()}`;
    await until('both to end', () => clientEnd() !== '' && appEnd() !== '', { lastSeen });
    t.equal(clientEnd(), 'ECONNRESET', 'the client');
    t.equal(appEnd(), 'ECONNRESET', 'the app');
  });

  for (const side of ['client', 'app'] as const) {
    t.test(`${title}: a reset by the ${side} passes on as one`, async (t) => {
      const tunnel = await begin(t);
      const { client, clientEnd, app, appEnd } = tunnel;
      client.write('half of a messa');
      await once(app, 'data');
      client.resume();
      app.resume();
      tunnel[side].resetAndDestroy();
      const end = side === 'client' ? appEnd : clientEnd;
      await until('the other side to end', () => end() !== '');
      t.equal(end(), 'ECONNRESET');
    });
  }

  t.test(`${title}: an end in order is no cut`, async (t) => {
    const { cut, client, clientEnd, app, appEnd } = await begin(t);
    client.resume();
    app.resume();
    client.end('all of it');
    await until('the end to pass', () => appEnd() !== '');
    app.end('that was all');
    await until('the other end to pass', () => clientEnd() !== '');
    cut();
    await until('both to be closed', () => client.closed && app.closed);
    t.equal(clientEnd(), 'end', 'the client');
    t.equal(appEnd(), 'end', 'the app');
  });
}
