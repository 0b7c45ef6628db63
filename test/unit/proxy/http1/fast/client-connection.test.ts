import type { Socket } from 'node:net';
import t, { type Test } from 'tap';
import { longRead, turn } from '../../../../../lib/proxy/fairness/turn.ts';
import type { HttpConnection } from '../../../../../lib/proxy/http/request-pipeline.ts';
import { AppPool } from '../../../../../lib/proxy/http1/app-pool.ts';
import { FastConnection } from '../../../../../lib/proxy/http1/fast/client-connection.ts';
import type { FastLane } from '../../../../../lib/proxy/http1/fast/lane.ts';
import { halfOpenMs } from '../../../../../lib/proxy/http1/limits.ts';
import { Incoming } from '../../../../../lib/proxy/incoming.ts';
import { noKeeper } from '../../../../../lib/proxy/kept.ts';
import type { Upstreams } from '../../../../../lib/proxy/upstream/upstreams.ts';
import { connectedPair } from '../../../../support/lane-stage.ts';
import { defaultLimits } from '../../../../support/limits.ts';
import type { RawClient } from '../../../../support/raw-http.ts';
import { until } from '../../../../support/until.ts';

/** A client's connection on the fast lane, whose clock is the test's: `sweep` says how late it is. */
async function connected(t: Test): Promise<{
  client: RawClient;
  socket: Socket;
  connection: FastConnection;
  bad: string[];
  reached: string[];
  handed: Buffer[];
}> {
  const bad: string[] = [];
  const reached: string[] = [];
  const handed: Buffer[] = [];
  const lane = {
    pipeline: {
      limits: defaultLimits,
      limitReached: (limit: string) => reached.push(limit),
      brokenHttp1: (_connection: HttpConnection, reason: string) => bad.push(reason),
    },
    draining: false,
    forget: () => {},
    handOver: (_connection: HttpConnection, _stream: Incoming, bytes: Buffer) => handed.push(bytes),
  } as unknown as FastLane;
  const http = { facts: { client: { tls: { kind: 'none' } } }, keeper: noKeeper } as unknown as HttpConnection;
  const { client, socket } = await connectedPair(t);
  const pool = new AppPool({ host: '127.0.0.1', port: 1 }, null as unknown as Upstreams);
  const connection = new FastConnection(lane, http, Incoming.stream(socket), pool);
  connection.start(Buffer.alloc(0));
  return { client, socket, connection, bad, reached, handed };
}

const { headerTimeoutMs, http1IdleTimeoutMs } = defaultLimits;
const later = (ms: number): number => performance.now() + ms;

t.test('a head that does not come to its end', async (t) => {
  const from = performance.now();
  const { client, socket, connection, bad } = await connected(t);
  client.send(Buffer.from('GET / HTTP/1.1\r\nHost:'));
  await until('the beginning to arrive', () => socket.bytesRead > 0);
  connection.sweep(from + headerTimeoutMs - 1000);
  t.notOk(socket.writableEnded, 'there is time left');
  // More of it does not put the deadline off.
  client.send(Buffer.from(' a\r\n'));
  await until('more of it to arrive', () => socket.bytesRead > 21);
  connection.sweep(later(headerTimeoutMs + 1000));
  t.ok(await until('the end of the connection', () => client.ended));
  t.match(client.received.toString(), /^HTTP\/1\.1 408 Request Timeout\r\n/);
  t.same(bad, ['ERR_HTTP_REQUEST_TIMEOUT']);
});

t.test('a connection that nobody uses', async (t) => {
  const from = performance.now();
  const { client, socket, connection, bad, reached } = await connected(t);
  connection.sweep(from + http1IdleTimeoutMs - 1000);
  t.notOk(socket.destroyed, 'there is time left');
  connection.sweep(later(http1IdleTimeoutMs + 1000));
  t.ok(await until('the end of the connection', () => client.ended));
  t.equal(client.receivedLength, 0, 'without a word');
  t.same(bad, []);
  t.same(reached, ['http1_idle_timeout']);
});

t.test('what has come in time, and waits for its turn', async (t) => {
  const long = `X y: ${'a'.repeat(longRead)}\r\n\r\n`;
  const rows: readonly (readonly [title: string, before: string, rest: string])[] = [
    ['the rest of a head', 'GET / HTTP/1.1\r\nHost: a\r\n', long],
    ['another request', '', `GET / HTTP/1.1\r\nHost: a\r\n${long}`],
  ];
  for (const [title, before, rest] of rows) {
    const { socket, connection, bad, reached, handed } = await connected(t);
    if (before !== '') connection.read(Buffer.from(before));
    // Others' work waits.
    turn.later(() => {});
    connection.read(Buffer.from(rest));
    t.same(handed, [], title);
    connection.sweep(later(Math.max(headerTimeoutMs, http1IdleTimeoutMs) + 1000));
    t.same([bad, reached, socket.writableEnded], [[], [], false], title);
    await until('its turn', () => handed.length > 0);
    t.equal(Buffer.concat(handed).toString(), before + rest, title);
  }
});

t.test('what has come in time, and waits until its client has taken what it was sent', async (t) => {
  const { client, socket, connection, bad, reached, handed } = await connected(t);
  const [before, rest] = ['GET / HTTP/1.1\r\nHost: a\r\n', 'X y: z\r\n\r\n'];
  connection.read(Buffer.from(before));
  client.socket.pause();
  socket.write(Buffer.alloc(16 << 20));
  t.ok(socket.writableNeedDrain);
  connection.read(Buffer.from(rest));
  for (let late = 1; late <= 2; late++) connection.sweep(later(late * (headerTimeoutMs + http1IdleTimeoutMs)));
  connection.closeIfIdle();
  t.same([bad, reached, socket.writableEnded, connection.betweenRequests], [[], [], false, false]);
  client.socket.resume();
  await until('its turn', () => handed.length > 0);
  t.equal(Buffer.concat(handed).toString(), before + rest);
});

t.test('a client that ends without a request', async (t) => {
  const { client, socket } = await connected(t);
  client.halfClose();
  t.ok(await until('the end of the connection', () => client.ended));
  t.equal(socket.timeout, halfOpenMs, 'and were there a response, it would have this long');
});

t.test('a client that ends before it has taken what it was sent', async (t) => {
  const { client, socket } = await connected(t);
  client.socket.pause();
  socket.write(Buffer.alloc(16 << 20));
  t.ok(socket.writableNeedDrain);
  client.halfClose();
  await until('its end', () => socket.readableEnded);
  client.socket.resume();
  let timeouts = 0;
  socket.on('timeout', () => timeouts++);
  t.ok(await until('the end of the connection', () => client.ended, { timeoutMs: 2 * halfOpenMs }));
  t.equal(timeouts, 0, 'before its time is over');
  t.equal(client.receivedLength, 16 << 20);
});

t.test('what is not plain is handed over whole, and at once where more cannot help', async (t) => {
  for (const bytes of ['PRI * HTTP/2.0\r\n', 'GET / HTTP/1.2\r\n', '\r\n', `GET /${'a'.repeat(66_000)}`]) {
    const { client, handed } = await connected(t);
    client.send(Buffer.from(bytes));
    await until('it to be handed over', () => handed.length > 0);
    t.ok(bytes.startsWith(Buffer.concat(handed).toString()), JSON.stringify(bytes.slice(0, 20)));
  }
});
