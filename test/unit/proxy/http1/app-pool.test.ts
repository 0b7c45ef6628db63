import { once } from 'node:events';
import net, { type AddressInfo } from 'node:net';
import t from 'tap';
import type { Admitted } from '../../../../lib/proxy/http/admitted.ts';
import type { Repeatable } from '../../../../lib/proxy/http/retry.ts';
import { AppConnection } from '../../../../lib/proxy/http1/app-connection.ts';
import { AppPool } from '../../../../lib/proxy/http1/app-pool.ts';
import { isQuiet, loadSocketCalls } from '../../../../lib/proxy/socket-calls.ts';
import type { Upstreams } from '../../../../lib/proxy/upstream/upstreams.ts';
import { noLateHeads } from '../../../support/limits.ts';
import { until } from '../../../support/until.ts';

const admitted = null as unknown as Admitted;

/** A connection to an app, as the pool keeps it, and the app's end. */
async function connected(): Promise<{ readonly socket: net.Socket; readonly app: net.Socket }> {
  const server = net.createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const socket = net.connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1', allowHalfOpen: true });
  const [[app]] = (await Promise.all([once(server, 'connection'), once(socket, 'connect')])) as [[net.Socket], []];
  server.close();
  socket.on('error', () => {});
  app.on('error', () => {});
  t.teardown(() => {
    socket.destroy();
    app.destroy();
  });
  return { socket, app };
}

/** What the app has just done, which nobody here has read yet: this turn of the event loop is not over. */
const rows: readonly (readonly [name: string, act: (app: net.Socket) => void, quiet: boolean])[] = [
  ['nothing', () => {}, true],
  ['sent a byte', (app) => void app.write('x'), false],
  ['closed', (app) => void app.destroy(), false],
  ['reset', (app) => void app.resetAndDestroy(), false],
];

/**
 * Whether anything has come that nobody has read. Over the loopback interface it has as soon as it is sent, or a moment
 * later where the kernel is busy: awaited without a turn of the event loop, which would read it.
 */
function hasCome(socket: net.Socket): boolean {
  const since = performance.now();
  while (isQuiet(socket) && performance.now() - since < 5_000);
  return !isQuiet(socket);
}

const skip = process.platform === 'linux' ? false : 'the calls are those of Linux';

t.test(
  'a request that must not be lost gets a connection that has rested if nothing has come on it',
  { skip },
  async (t) => {
    loadSocketCalls();
    for (const [name, act, quiet] of rows) {
      for (const repeatable of ['never', 'unprocessed', 'unprocessed or idle'] satisfies Repeatable[]) {
        const { socket, app } = await connected();
        const pool = new AppPool({ host: '127.0.0.1', port: 1 }, null as unknown as Upstreams);
        const connection = new AppConnection(socket, pool, noLateHeads);
        connection.idleMs = Number.POSITIVE_INFINITY;
        pool.release(connection);
        const since = connection.idleSince;
        await until('it to have rested', () => performance.now() - since > 2);
        act(app);
        t.equal(quiet ? isQuiet(socket) : !hasCome(socket), quiet, `${name}: quiet`);
        const taken = pool.take(admitted, repeatable);
        // What may be sent again needs no look.
        const expected = quiet || repeatable === 'unprocessed or idle' ? connection : null;
        t.equal(taken, expected, `${name}, ${repeatable}`);
        t.equal(
          pool.take(admitted, 'unprocessed or idle'),
          expected === null ? connection : null,
          `${name}: kept, or gone`,
        );
        socket.destroy();
        app.destroy();
      }
    }
  },
);

t.test('of a connection that is closed nobody says that it is quiet', { skip }, async (t) => {
  loadSocketCalls();
  const { socket } = await connected();
  t.ok(isQuiet(socket));
  socket.destroy();
  t.notOk(isQuiet(socket));
});
