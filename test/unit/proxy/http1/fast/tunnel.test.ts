import { createHash, randomBytes } from 'node:crypto';
import t, { type Test } from 'tap';
import { AppConnection } from '../../../../../lib/proxy/http1/app-connection.ts';
import { Tunnel } from '../../../../../lib/proxy/http1/fast/tunnel.ts';
import { noKeeper } from '../../../../../lib/proxy/kept.ts';
import {
  connectedPair,
  get,
  megabyte,
  runScenarios,
  type Scenario,
  type Stage,
  stage,
  still,
} from '../../../../support/lane-stage.ts';
import type { Engine } from '../../../../support/lanes.ts';
import { noLateHeads } from '../../../../support/limits.ts';
import type { AppSocket } from '../../../../support/raw-app.ts';
import { latin1 } from '../../../../support/raw-http.ts';
import { until } from '../../../../support/until.ts';
import { admittedForNow } from '../../../../support/waiting.ts';

/*
 * WebSocket, on both lanes: what becomes of the bytes, the ends and the resets of two connections that have left HTTP.
 */

const asking = get('/chat', 'Connection: Upgrade\r\nUpgrade: websocket\r\n');
const agreement = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-A: 1\r\n\r\n';

interface Told {
  /** What the app has got behind the head. */
  readonly bytes: () => Buffer;
  readonly connection: () => AppSocket;
  readonly lane: Stage['lane'];
  readonly open: Stage['open'];
}

/** @param pieces what the app sends when it has the head, each in a packet of its own. */
async function switching(t: Test, engine: Engine, pieces: readonly string[] = [agreement]): Promise<Told> {
  let got: Buffer[] = [];
  const raw = async (connection: AppSocket, chunk: Buffer): Promise<void> => {
    if (connection.requests === 1) {
      got.push(chunk);
      return;
    }
    connection.pending = Buffer.concat([connection.pending, chunk]);
    const end = connection.pending.indexOf('\r\n\r\n');
    if (end === -1) return;
    connection.requests = 1;
    got = [connection.pending.subarray(end + 4)];
    for (const piece of pieces) {
      connection.socket.write(piece);
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  const { lane, open, app } = await stage(t, engine, { raw: (connection, chunk) => void raw(connection, chunk) });
  return { bytes: () => Buffer.concat(got), connection: () => app.sockets.at(-1) as AppSocket, lane, open };
}

/** A client whose app has agreed, and where the tunnel begins among what it has received. */
async function tunnel(told: Told): Promise<{ client: Awaited<ReturnType<Stage['open']>>; from: number }> {
  const client = await told.open();
  client.send(asking);
  await until('the agreement', () => client.received.includes('\r\n\r\n'));
  return { client, from: client.received.indexOf('\r\n\r\n') + 4 };
}

const hash = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

const scenarios: readonly Scenario[] = [
  {
    name: 'early bytes wait, and what the app says first arrives, however both are cut',
    run: async (t, engine) => {
      for (let at = 1; at < agreement.length + 5; at += 7) {
        const answer = `${agreement}first`;
        const told = await switching(t, engine, [answer.slice(0, at), answer.slice(at)]);
        const client = await told.open();
        client.send(Buffer.concat([asking, latin1('early')]));
        await until('the first bytes', () => client.received.toString('latin1').endsWith('\r\n\r\nfirst'));
        t.match(client.received.toString('latin1'), /^HTTP\/1\.1 101 Switching Protocols\r\n/);
        t.match(client.received.toString('latin1').toLowerCase(), /\r\nconnection: upgrade\r\n/);
        t.match(client.received.toString('latin1').toLowerCase(), /\r\nupgrade: websocket\r\n/);
        t.match(client.received.toString('latin1').toLowerCase(), /\r\nx-a: 1\r\n/);
        await until('the early bytes', () => told.bytes().toString() === 'early');
        t.equal(told.lane.counts.handedOver, 0, 'the fast lane keeps it');
        t.match(told.lane.counts, { started: 1, heads: 1, ended: 1, failed: 0 }, 'the request is over');
        client.destroy();
      }
    },
  },
  {
    name: 'megabytes go both ways, past slow readers',
    run: async (t, engine) => {
      const told = await switching(t, engine);
      const { client, from } = await tunnel(told);
      const up = randomBytes(6 * 1024 * 1024);
      const down = randomBytes(6 * 1024 * 1024);
      const { socket } = told.connection();
      socket.pause();
      client.send(up);
      socket.write(down);
      await until('the client has its bytes', () => client.receivedLength === from + down.length, {
        timeoutMs: 20_000,
      });
      socket.resume();
      await until('the app has its', () => told.bytes().length === up.length, { timeoutMs: 20_000 });
      t.equal(hash(client.received.subarray(from)), hash(down));
      t.equal(hash(told.bytes()), hash(up));
    },
  },
  {
    name: 'an end passes on behind the last bytes, from either side',
    run: async (t, engine) => {
      for (const side of ['client', 'app'] as const) {
        const told = await switching(t, engine);
        const { client, from } = await tunnel(told);
        if (side === 'client') {
          client.send(latin1('last words'));
          client.halfClose();
        } else {
          told.connection().socket.end('last words');
        }
        t.ok(await until('the end of the connection', () => client.ended), 'the client sees an end');
        client.halfClose();
        await until('the app sees one', () => told.connection().ended);
        const got = side === 'client' ? told.bytes() : client.received.subarray(from);
        t.equal(got.toString(), 'last words');
        client.destroy();
        await until('nothing is left', () => told.lane.live.size === 0 && told.lane.counts.destinations === 0);
      }
    },
  },
  {
    name: 'a reset passes on, from either side',
    run: async (t, engine) => {
      for (const side of ['client', 'app'] as const) {
        const told = await switching(t, engine);
        const { client } = await tunnel(told);
        if (side === 'client') client.reset();
        else told.connection().socket.resetAndDestroy();
        if (side === 'client') await until('the app sees it', () => told.connection().closed);
        else await until('the client sees it', () => client.closed);
        await until('nothing is left', () => told.lane.live.size === 0 && told.lane.counts.destinations === 0);
      }
    },
  },
  {
    name: 'a drain waits for it',
    run: async (t, engine) => {
      const told = await switching(t, engine);
      const { client } = await tunnel(told);
      told.lane.http1.drain();
      told.lane.http1.closeIdle();
      client.send(latin1('still here'));
      await until('it arrives', () => told.bytes().toString().includes('still here'));
      t.notOk(client.ended);
    },
  },
  {
    name: 'an agreement to something else, or to nothing, is none',
    run: async (t, engine) => {
      const other = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n';
      const incomplete = [
        'HTTP/1.1 101 Switching Protocols\r\n\r\n',
        'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n',
      ];
      // Node takes a 101 that is incomplete for an interim response, and waits for another.
      for (const answer of engine === 'library' ? [other] : [...incomplete, other]) {
        const told = await switching(t, engine, [answer]);
        const client = await told.open();
        client.send(Buffer.concat([asking, get('/SMUGGLED')]));
        t.ok(await until('the end of the connection', () => client.ended));
        t.match(client.received.toString('latin1'), /^HTTP\/1\.1 502 /);
        t.equal(told.bytes().toString(), '', 'nothing early goes on');
        t.equal(told.lane.counts.started, told.lane.counts.ended);
      }
    },
  },
];

await runScenarios(t, scenarios);

t.test('a turn that was asked for before the agreement does not make the app be read', async (t) => {
  const [near, far] = [await connectedPair(t), await connectedPair(t)];
  near.client.socket.pause();
  const connection = new AppConnection(far.socket, { forget: () => {} } as never, noLateHeads);
  const leave = (): Tunnel =>
    new Tunnel({ occupant: null, keeper: noKeeper } as never, null as never, near.socket, connection, Buffer.alloc(0));
  connection.begin(admittedForNow, 'GET', 'never', {} as never, leave);
  connection.receive(latin1(agreement), false);
  const sent = randomBytes(16 * megabyte);
  far.client.send(sent);
  const read = await still('what is read', () => far.socket.bytesRead);
  t.ok(read < sent.length, 'more than there is room for');
  connection.nextTurn();
  t.equal(await still('what is read then', () => far.socket.bytesRead), read, 'its buffers are on their way');
  near.client.socket.resume();
  await until('all of it', () => near.client.receivedLength === sent.length);
  t.equal(hash(near.client.received), hash(sent), 'as it was');
});
