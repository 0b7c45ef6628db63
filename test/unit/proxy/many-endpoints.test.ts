import v8 from 'node:v8';
import t from 'tap';
import { Pool } from 'undici';
import type { Admitted } from '../../../lib/proxy/http/admitted.ts';
import { AppConnection } from '../../../lib/proxy/http1/app-connection.ts';
import { AppPool } from '../../../lib/proxy/http1/app-pool.ts';
import { AppSessionPool } from '../../../lib/proxy/http2/app/app-session-pool.ts';
import { ByEndpoint } from '../../../lib/proxy/upstream/endpoint.ts';
import type { Upstreams } from '../../../lib/proxy/upstream/upstreams.ts';
import { http2Outcome, requestFields } from '../../support/http2-frames.ts';
import { connectedPair } from '../../support/lane-stage.ts';
import { startLane } from '../../support/lanes.ts';
import { noLateHeads } from '../../support/limits.ts';
import { startRawApp } from '../../support/raw-app.ts';
import { latin1, offTheFastLane, RawClient } from '../../support/raw-http.ts';

/*
 * A port scan through the redirect has an address of the app for each port, and a request on each of them, refused or not,
 * must leave nothing behind.
 */

/** Far more than there may be of anything, and far less than a scan asks for. */
const many = 300;
const bounded = 150;

async function http1(port: number, more: readonly string[]): Promise<void> {
  const client = await RawClient.open({ port });
  client.send(latin1(`GET / HTTP/1.1\r\nHost: web\r\n${[...more, 'Connection: close'].join('\r\n')}\r\n\r\n`));
  await client.ends(10_000);
  client.destroy();
}

type Kept = typeof AppPool | typeof AppSessionPool | typeof Pool;

const ways: readonly (readonly [
  title: string,
  kept: Kept,
  protocol: 'http1' | 'http2',
  ask: (port: number) => Promise<unknown>,
])[] = [
  ['the fast lane', AppPool, 'http1', (port) => http1(port, [])],
  ['the library lane', Pool, 'http1', (port) => http1(port, offTheFastLane)],
  ['HTTP/2', AppSessionPool, 'http2', (port) => http2Outcome(port, requestFields('/'))],
  [
    'HTTP/1 over HTTP/2',
    AppPool,
    'http2',
    (port) => http2Outcome(port, requestFields('/', [['l5d-orig-proto', 'HTTP/1.1']])),
  ],
];

/** How many there are of a class, once those that nobody can reach are gone. */
const alive = (of: Kept): number => v8.queryObjects(of, { format: 'count' });

t.test('requests to ever more addresses of the app leave no pools behind', async (t) => {
  for (const [title, kept, protocol, ask] of ways) {
    await t.test(title, async (t) => {
      const before = alive(kept);
      let app = 20_000;
      const lane = await startLane(t, {
        engine: 'fast',
        protocol,
        // Nobody listens there.
        appHost: '127.0.0.9',
        get app() {
          return ++app;
        },
      });
      for (let i = 0; i < many; i++) await ask(lane.port);
      t.equal(lane.counts.decided, many, 'all have been decided');
      const left = alive(kept) - before;
      t.ok(left < bounded, `${left} of ${many}`);
    });
  }
});

t.test('who is in use is kept, and the others go', async (t) => {
  const used = new Set<number>();
  const gone: number[] = [];
  const each = new ByEndpoint(
    ({ port }) => port,
    (port) => !used.has(port) && gone.push(port) > 0,
  );
  for (let port = 1; port <= 10; port++) used.add(port);
  for (let port = 1; port <= 1000; port++) each.at({ host: 'app', port });
  t.ok(gone.length > 850, `${gone.length} gone`);
  t.same(
    gone.filter((port) => used.has(port)),
    [],
  );
  const kept = new Set(each.values());
  t.ok(
    [...used].every((port) => kept.has(port)),
    'those in use are there',
  );
  t.equal(kept.size + gone.length, 1000);
});

t.test('what a pool has in use keeps it', async (t) => {
  const admitted = null as unknown as Admitted;
  const endpoint = { host: '127.0.0.1', port: 1 };
  const pool = new AppPool(endpoint, null as unknown as Upstreams);
  pool.users++;
  t.notOk(pool.letGo(), 'a client that comes back to it');
  pool.users--;
  const { socket } = await connectedPair(t);
  pool.release(new AppConnection(socket, pool, noLateHeads));
  t.notOk(pool.letGo(), 'a connection that rests');
  const connection = pool.take(admitted, 'unprocessed or idle');
  t.ok(pool.letGo());
  if (connection !== null) pool.release(connection);
  t.ok(socket.destroyed, 'what comes back then is closed');
});

t.test('an app that answers keeps its connections beside a scan', async (t) => {
  const app = await startRawApp(t);
  let scanned = 20_000;
  let isScan = false;
  const lane = await startLane(t, {
    engine: 'fast',
    get app() {
      return isScan ? ++scanned : app.port;
    },
  });
  const client = await RawClient.open({ port: lane.port });
  const ask = async (count: number): Promise<void> => {
    client.send(latin1('GET / HTTP/1.1\r\nHost: web\r\n\r\n'));
    await client.responses(Array.from({ length: count }, () => 'GET'));
  };
  await ask(1);
  isScan = true;
  for (let i = 0; i < many; i++) await http1(lane.port, []);
  await ask(2);
  await ask(3);
  t.ok(app.sockets.length <= 2, `${app.sockets.length} connections for three requests`);
  client.destroy();
});
