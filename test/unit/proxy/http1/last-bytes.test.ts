import diagnostics from 'node:diagnostics_channel';
import { connect, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import type { Limits } from '../../../../lib/proxy/limits.ts';
import { bounded, runScenarios, type Scenario, still } from '../../../support/lane-stage.ts';
import { type Engine, type Lane, startLane } from '../../../support/lanes.ts';
import { latin1 } from '../../../support/raw-http.ts';
import { startSocketApp } from '../../../support/socket-app.ts';
import { until, within } from '../../../support/until.ts';

// What a client gets of a last response that still waits for it when the proxy has no more to read of the app.

/** A client that reads nothing yet. */
async function openSlow(t: Test, port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  t.teardown(() => socket.destroy());
  socket.pause();
  await new Promise((resolve) => socket.once('connect', resolve));
  return socket;
}

/** The connections that this process accepts at one port. */
function accepted(t: Test, port: number): Socket[] {
  const sockets: Socket[] = [];
  const seen = (message: unknown): void => {
    const { socket } = message as { readonly socket: Socket };
    if (socket.localPort === port) sockets.push(socket);
  };
  diagnostics.subscribe('net.server.socket', seen);
  t.teardown(() => diagnostics.unsubscribe('net.server.socket', seen));
  return sockets;
}

const piece = Buffer.alloc(16 * 1024, 'x');

interface Waiting {
  readonly lane: Lane;
  readonly client: Socket;
  /** Its connection, as the proxy has it. */
  readonly ours: Socket;
  /** Bytes of the response's content. */
  readonly size: number;
}

/** A response that ends with its connection, of which the proxy has all and the kernel takes no more. */
async function waiting(t: Test, engine: Engine, limits: Partial<Limits>, version = '1.1'): Promise<Waiting> {
  const apps: Socket[] = [];
  const { port } = await startSocketApp(t, (socket) => {
    apps.push(socket);
    socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\n\r\n'));
  });
  const lane = await startLane(t, { engine, app: port, limits });
  const accepts = accepted(t, lane.port);
  const client = await openSlow(t, lane.port);
  client.write(latin1(`GET /large HTTP/${version}\r\nHost: a.example\r\n\r\n`));
  await until('the response to begin', () => lane.counts.heads === 1);
  const [ours] = accepts as [Socket];
  const [app] = apps as [Socket];
  let size = 0;
  while (ours.writableLength === 0 && size < bounded) {
    const wanted = ours.bytesWritten + piece.length;
    app.write(piece);
    size += piece.length;
    await until('a piece to go on', () => ours.bytesWritten >= wanted || ours.writableLength > 0, { everyMs: 0 });
  }
  app.end();
  await until('the response to be over', () => lane.counts.ended === 1);
  return { lane, client, ours, size };
}

const scenarios: Scenario[] = [
  ...['1.0', '1.1'].map((version) => ({
    name: `a client of HTTP/${version} that ends its side gets all of what waits for it`,
    run: async (t: Test, engine: Engine) => {
      const { lane, client, ours, size } = await waiting(t, engine, {}, version);
      client.on('error', (error) => t.fail(error.message));
      client.end();
      await until('its end to be heard', () => ours.readableEnded);
      await still('what becomes of it', () => lane.live.size);
      let received = 0;
      client.on('data', (bytes: Buffer) => {
        received += bytes.length;
      });
      client.resume();
      await within('the end', 10_000, new Promise((resolve) => client.once('end', resolve)));
      t.ok(received > size, `${received} bytes of ${size} and a head`);
      await until('no connection to be left', () => lane.live.size === 0);
    },
  })),
  ...[false, true].map((ends) => ({
    name: `a client that reads nothing${ends ? ' and ends its side' : ''} is let go when it has stood still for too long`,
    run: async (t: Test, engine: Engine) => {
      const { lane, client } = await waiting(t, engine, { stallTimeoutMs: 300 });
      if (ends) client.end();
      await until('no connection to be left', () => lane.live.size === 0);
      t.same(lane.counts.limits, ['stall_timeout']);
      t.equal(lane.heldBytes(), 0);
    },
  })),
];

void runScenarios(t, scenarios);
