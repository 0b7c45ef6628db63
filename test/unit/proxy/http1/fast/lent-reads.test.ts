import { createHash, randomBytes } from 'node:crypto';
import t, { type Test } from 'tap';
import {
  get,
  megabyte,
  post,
  runScenarios,
  type Scenario,
  type Stage,
  stage,
  still,
} from '../../../../support/lane-stage.ts';
import type { Engine } from '../../../../support/lanes.ts';
import { meshed } from '../../../../support/mesh.ts';
import { type AppSocket, ok, type RawAppOptions } from '../../../../support/raw-app.ts';
import { latin1, oddLines, type RawClient } from '../../../../support/raw-http.ts';
import { until } from '../../../../support/until.ts';

/*
 * A client's connection reads on loan behind its first request, and the loan ends with the read: here is each place that keeps
 * bytes for longer. What is kept without a copy arrives spoilt (test/support/spoilt-loans.ts).
 */

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** In packets of their own. */
async function send(client: RawClient, ...packets: readonly Buffer[]): Promise<void> {
  for (const packet of packets) {
    client.send(packet);
    for (let i = 0; i < 5; i++) await turn();
  }
}

/** A client that has had its first requests, of a stage with that app. */
type Used = (app?: RawAppOptions) => Promise<Stage & { readonly client: RawClient }>;

async function used(t: Test, engine: Engine, isSecure: boolean, app: RawAppOptions): ReturnType<Used> {
  const mesh = isSecure ? meshed('http/1.1') : null;
  const staged = await stage(t, engine, app, mesh === null ? {} : { tls: mesh.termination }, mesh?.client);
  const client = await staged.open();
  for (const methods of [['GET'], ['GET', 'GET'], ['GET', 'GET', 'GET']]) {
    client.send(get('/earlier'));
    await client.responses(methods);
  }
  return { ...staged, client };
}

const hash = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');
const closing = Buffer.from('HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n');
const letters = (length: number): string => 'abcdefghijklmnopqrstuvwxyz'.repeat(length / 26 + 1).slice(0, length);
const three = ['GET', 'GET', 'GET'];

interface Row {
  readonly name: string;
  readonly run: (t: Test, used: Used) => Promise<void>;
}

const rows: readonly Row[] = [
  {
    name: 'a head in pieces',
    run: async (t, used) => {
      const { client, app } = await used();
      const head = get('/a', `Cookie: ${letters(3000)}\r\n`);
      await send(client, head.subarray(0, 5), head.subarray(5, 1500), head.subarray(1500, -1), head.subarray(-1));
      await client.responses([...three, 'GET']);
      t.match(app.requests.at(-1), { target: '/a' });
      t.ok(app.requests.at(-1)?.headers.some(([, value]) => value === letters(3000)));
    },
  },
  {
    name: 'requests behind one that is being answered',
    run: async (t, used) => {
      let held: AppSocket | null = null;
      const { client, app } = await used({
        answer: ({ target }, connection) => {
          if (target === '/held') held = connection;
          else connection.socket.write(ok);
        },
      });
      await send(client, get('/held'));
      const connection = await until('the request to be there', () => held ?? undefined);
      const next = post('/next', letters(20_000));
      await send(client, next.subarray(0, 9000), next.subarray(9000), get('/last'));
      connection.socket.write(ok);
      await client.responses([...three, 'GET', 'POST', 'GET']);
      t.same(
        app.requests.slice(3).map(({ target, body }) => [target, body.toString()]),
        [
          ['/held', ''],
          ['/next', letters(20_000)],
          ['/last', ''],
        ],
      );
    },
  },
  {
    name: 'many requests at once',
    run: async (t, used) => {
      const { client, app } = await used();
      const targets = Array.from({ length: 300 }, (_, i) => `/${i}`);
      await send(client, Buffer.concat(targets.map((target) => get(target))));
      await client.responses([...three, ...targets.map(() => 'GET')]);
      t.same(
        app.requests.slice(3).map(({ target }) => target),
        targets,
      );
    },
  },
  {
    name: 'content while the app is connected to',
    run: async (t, used) => {
      for (const size of [5, 900, 20_000, 60_000]) {
        const { client, app } = await used({ answer: (_request, { socket }) => void socket.end(closing) });
        const request = post('/up', letters(size));
        const head = request.length - size;
        const middle = head + Math.floor(size / 2);
        client.send(request.subarray(0, middle));
        await turn();
        client.send(request.subarray(middle));
        await client.responses([...three, 'POST']);
        // A request before it makes the stream pause and go on in one turn.
        client.send(Buffer.concat([get('/before'), request.subarray(0, middle)]));
        await turn();
        client.send(request.subarray(middle));
        await client.responses([...three, 'POST', 'GET', 'POST']);
        const uploads = app.requests.filter(({ target }) => target === '/up').map(({ body }) => hash(body));
        t.same([...new Set(uploads)], [hash(latin1(letters(size)))], `${size} bytes`);
        t.same(app.malformed, []);
      }
    },
  },
  {
    name: 'content for an app that is slow',
    run: async (t, used) => {
      const { client, app } = await used();
      const content = randomBytes(12 * megabyte);
      const own = app.sockets.at(-1) as AppSocket;
      const head = `POST /up HTTP/1.1\r\nHost: a.example\r\nContent-Length: ${content.length}\r\n\r\n`;
      for (const { socket } of app.sockets) socket.pause();
      client.send(Buffer.concat([latin1(head), content]));
      const taken = await still('the upload', () => content.length - client.socket.writableLength);
      t.ok(taken < content.length, 'more than the kernel takes: the proxy has stopped reading');
      for (const { socket } of app.sockets) socket.resume();
      await client.responses([...three, 'POST'], 20_000);
      t.equal(hash(app.requests.at(-1)?.body ?? own.pending), hash(content));
    },
  },
  {
    name: 'chunks, whose sizes are cut',
    run: async (t, used) => {
      const { client, app } = await used();
      const chunks = '0005;x=y\r\nhello\r\n1a\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nX-A: b\r\n\r\n';
      const text = latin1(`POST /up HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}`);
      const begin = text.length - chunks.length;
      const methods = [...three];
      for (let at = begin; at < text.length; at++) {
        await send(client, text.subarray(0, at), text.subarray(at));
        methods.push('POST');
        await client.responses(methods);
      }
      for (const { body } of app.requests.slice(3)) t.equal(body.toString(), `hello${letters(26)}`);
      t.equal(app.requests.length, 3 + chunks.length);
    },
  },
  {
    name: 'what is not plain',
    run: async (t, used) => {
      const odd = latin1(
        `POST /odd HTTP/1.1\r\nHost: a.example\r\n${oddLines}Content-Length: 900\r\n\r\n${letters(900)}`,
      );
      for (const at of [3, 60, odd.length - 900, odd.length - 450, odd.length]) {
        let held: AppSocket | null = null;
        const { client, app } = await used({
          answer: ({ target }, connection) => {
            if (target === '/held') held = connection;
            else connection.socket.write(ok);
          },
        });
        await send(client, odd.subarray(0, at), odd.subarray(at));
        await client.responses([...three, 'POST']);
        t.equal(app.requests.at(-1)?.body.toString(), letters(900), `cut at ${at}`);
        const other = await used({
          answer: ({ target }, connection) => {
            if (target === '/held') held = connection;
            else connection.socket.write(ok);
          },
        });
        await send(other.client, get('/held'));
        const connection = await until('the request to be there', () => held ?? undefined);
        await send(other.client, odd.subarray(0, at), odd.subarray(at));
        connection.socket.write(ok);
        await other.client.responses([...three, 'GET', 'POST']);
        t.equal(other.app.requests.at(-1)?.body.toString(), letters(900), `cut at ${at}, behind another`);
      }
    },
  },
  {
    name: 'a tunnel, from the first byte on',
    run: async (t, used) => {
      const got: Buffer[] = [];
      let tunnelled: AppSocket | null = null;
      const { client } = await used({
        answer: ({ target }, connection) => {
          if (target !== '/chat') {
            connection.socket.write(ok);
            return;
          }
          tunnelled = connection;
          connection.socket.removeAllListeners('data');
          connection.socket.on('data', (chunk: Buffer) => got.push(chunk));
        },
      });
      const content = randomBytes(2_000_000);
      const asking = get('/chat', 'Connection: Upgrade\r\nUpgrade: websocket\r\n');
      await send(client, Buffer.concat([asking, content.subarray(0, 500)]), content.subarray(500, 1000));
      const { socket } = await until('the request to be there', () => tunnelled ?? undefined);
      socket.pause();
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
      await until('the agreement', () => client.received.includes('101 '));
      client.send(content.subarray(1000));
      for (let i = 0; i < 50; i++) await turn();
      socket.resume();
      const length = (): number => got.reduce((sum, chunk) => sum + chunk.length, 0);
      await until('all of it', () => length() >= content.length, { timeoutMs: 20_000 });
      t.equal(hash(Buffer.concat(got)), hash(content));
    },
  },
];

/** A record of TLS is another read: what is sent at once comes in pieces, and one that was read with another does not wait. */
const links = ['without TLS', 'inside TLS'] as const;

const scenarios = links.flatMap((link) =>
  rows.map(
    ({ name, run }): Scenario => ({
      name: `${name}, ${link}`,
      run: (t, engine) => run(t, (app = {}) => used(t, engine, link === 'inside TLS', app)),
    }),
  ),
);

runScenarios(t, scenarios);
