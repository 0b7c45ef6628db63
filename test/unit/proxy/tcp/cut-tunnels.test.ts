import { once } from 'node:events';
import net, { type AddressInfo, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import type { ConnectionPermit } from '../../../../lib/policy/decision.ts';
import { Tunnel } from '../../../../lib/proxy/http1/fast/tunnel.ts';
import { forwardTcp } from '../../../../lib/proxy/tcp/forward.ts';
import { tie } from '../../../../lib/proxy/tcp/tunnel-ends.ts';
import { Upstreams } from '../../../../lib/proxy/upstream/upstreams.ts';
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
  readonly app: Socket;
  readonly appEnd: () => string;
}

const upstreams = new Upstreams({
  connectTimeoutMs: 5_000,
  limits: { maxConnections: 100, maxPendingConnects: 10 },
  recorder: { openDestination: () => ({ closed: () => {} }), limitReached: () => {} } as never,
  isOwn: () => false,
});

async function overTcp(t: Test, client: Socket): Promise<Cut> {
  const server = net.createServer({ allowHalfOpen: true });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => server.close());
  const arrived = once(server, 'connection');
  const endpoint = { host: '127.0.0.1', port: (server.address() as AddressInfo).port };
  const beginning = { asker: '', bytes: Buffer.from('hello'), guard: null, refused: () => {} };
  const nobody = (): void => {};
  const forwarding = forwardTcp({} as ConnectionPermit, client, endpoint, upstreams, beginning, nobody, nobody);
  const [app] = (await arrived) as [Socket];
  t.teardown(() => app.destroy());
  return { cut: () => forwarding.destroy(), app, appEnd: endOf(app) };
}

async function overHttp(t: Test, client: Socket, carry: (client: Socket, app: Socket) => { destroy(): void }) {
  const { near, far, end } = await pair(t);
  const tunnel = carry(client, near);
  return { cut: () => tunnel.destroy(), app: far, appEnd: end };
}

const rows: readonly (readonly [title: string, begin: (t: Test, client: Socket) => Promise<Cut>])[] = [
  ['TCP', overTcp],
  [
    'WebSocket, the fast lane',
    (t, client) =>
      overHttp(t, client, (near, app) => {
        const connection = { occupant: null } as never;
        const tunnel = new Tunnel(connection, near, { socket: app } as never, Buffer.alloc(0));
        // The app's connection reads it.
        app.on('data', (bytes: Buffer) => tunnel.receive(bytes));
        return tunnel;
      }),
  ],
  [
    'an upgrade, the library lane',
    (t, client) =>
      overHttp(t, client, (near, app) => {
        tie(near, app);
        return near;
      }),
  ],
];

for (const [title, begin] of rows) {
  t.test(`${title}: a cut resets both sides`, async (t) => {
    const { near, far, end } = await pair(t);
    const { cut, app, appEnd } = await begin(t, near);
    near.write('half of a messa');
    const [said] = await once(far, 'data');
    t.equal(String(said), 'half of a messa');
    app.resume();
    cut();
    await until('both to end', () => end() !== '' && appEnd() !== '', { lastSeen: () => `${end()}, ${appEnd()}` });
    t.equal(end(), 'ECONNRESET', 'the client');
    t.equal(appEnd(), 'ECONNRESET', 'the app');
  });

  t.test(`${title}: an end in order is no cut`, async (t) => {
    const { near, far, end } = await pair(t);
    const { cut, app, appEnd } = await begin(t, near);
    far.resume();
    app.resume();
    far.end('all of it');
    await until('the end to pass', () => appEnd() !== '');
    app.end('that was all');
    await until('the other end to pass', () => end() !== '');
    cut();
    await until('both to be closed', () => far.closed && app.closed);
    t.equal(end(), 'end', 'the client');
    t.equal(appEnd(), 'end', 'the app');
  });
}
