import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { createHealthServer, type HealthServer } from '../../../lib/ops/health-server.ts';
import { Readiness } from '../../../lib/ops/readiness.ts';
import { until } from '../../support/until.ts';

async function started(t: Test, readiness = new Readiness()): Promise<{ server: HealthServer; address: AddressInfo }> {
  const server = createHealthServer({ ready: () => readiness.state(), live: () => true });
  const address = await server.listen('127.0.0.1', 0);
  t.teardown(() => server.close());
  return { server, address };
}

/** Sends bytes and returns all that comes until the server closes. */
async function raw(address: AddressInfo, bytes: string): Promise<string> {
  const socket = connect(address.port, address.address);
  // A reset after the answer is as good as a close.
  socket.on('error', () => {});
  socket.write(bytes);
  let got = '';
  socket.setEncoding('latin1').on('data', (chunk) => {
    got += chunk;
  });
  await once(socket, 'close');
  return got;
}

const close = 'Connection: close\r\n\r\n';

t.test('two paths, two methods, nothing else', async (t) => {
  const { address } = await started(t);
  const rows: [string, number, string][] = [
    ['GET /live', 200, 'live\n'],
    ['HEAD /live', 200, ''],
    ['GET /live?verbose', 200, 'live\n'],
    ['GET /ready', 503, 'not ready: policy, identity, listeners\n'],
    ['HEAD /ready', 503, ''],
    ['POST /live', 405, 'method not allowed\n'],
    ['OPTIONS /ready', 405, 'method not allowed\n'],
    ['GET /metrics', 404, 'not found\n'],
    ['GET /policy', 404, 'not found\n'],
    ['POST /shutdown', 404, 'not found\n'],
    ['GET /live/', 404, 'not found\n'],
    ['GET //live', 404, 'not found\n'],
    ['GET http://x/live', 404, 'not found\n'],
    ['OPTIONS *', 404, 'not found\n'],
  ];
  for (const [start, status, body] of rows) {
    const answer = await raw(address, `${start} HTTP/1.1\r\nHost: x\r\n${close}`);
    t.match(answer, new RegExp(`^HTTP/1\\.1 ${status} `), start);
    t.equal(answer.slice(answer.indexOf('\r\n\r\n') + 4), body, start);
    if (status === 405) t.match(answer, /\r\nallow: GET, HEAD\r\n/i);
  }
});

t.test('a probe without Host, or in HTTP/1.0', async (t) => {
  const { address } = await started(t);
  t.match(await raw(address, `GET /live HTTP/1.1\r\n${close}`), /^HTTP\/1\.1 200 .*live\n$/s);
  t.match(await raw(address, 'GET /live HTTP/1.0\r\n\r\n'), /^HTTP\/1\.1 200 .*live\n$/s);
});

t.test('readiness is read at each request', async (t) => {
  const readiness = new Readiness();
  const { address } = await started(t, readiness);
  const ready = async () => {
    const response = await fetch(`http://127.0.0.1:${address.port}/ready`);
    return `${response.status} ${await response.text()}`;
  };
  for (const name of ['policy', 'identity', 'listeners'] as const) {
    t.match(await ready(), new RegExp(`^503 .*${name}`));
    readiness.up(name);
  }
  t.equal(await ready(), '200 ready\n');
  readiness.drain();
  t.equal(await ready(), '503 not ready: draining\n');
});

t.test('bad input costs its own connection and no more', async (t) => {
  const { address } = await started(t);
  const rows: [string, string, RegExp][] = [
    ['binary', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', /^HTTP\/1\.1 400 /],
    ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', /^HTTP\/1\.1 400 |^$/],
    ['huge header', `GET /live HTTP/1.1\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, /^HTTP\/1\.1 400 |^$/],
    [
      'two framings',
      'GET /live HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
      /^HTTP\/1\.1 400 /,
    ],
    ['CONNECT', 'CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n', /^$/],
    ['a body on another path', 'POST /x HTTP/1.1\r\nContent-Length: 9999999\r\n\r\nabc', /^HTTP\/1\.1 404 /],
    ['an expectation', `GET /live HTTP/1.1\r\nExpect: miracles\r\n${close}`, /^HTTP\/1\.1 417 /],
    ['a slow header', 'GET /live HTTP/1.1\r\nX: ', /^HTTP\/1\.1 (400|408) /],
  ];
  await Promise.all(rows.map(async ([what, bytes, want]) => t.match(await raw(address, bytes), want, what)));
  const response = await fetch(`http://127.0.0.1:${address.port}/live`);
  t.equal(await response.text(), 'live\n', 'still there');
});

t.test('many silent connections do not keep a probe out, and end by themselves', async (t) => {
  const { address } = await started(t);
  const sockets = Array.from({ length: 400 }, () =>
    connect(address.port, '127.0.0.1')
      .on('error', () => {})
      .resume(),
  );
  const closed = sockets.map((socket) => once(socket, 'close'));
  await Promise.all(sockets.map((socket) => (socket.connecting ? once(socket, 'connect') : undefined)));
  t.match(await raw(address, `GET /live HTTP/1.1\r\n${close}`), /live\n$/, 'the newest is served');
  t.ok(
    sockets.some((socket) => !socket.destroyed),
    'while others are still open',
  );
  await Promise.all(closed);
  t.match(await raw(address, `GET /live HTTP/1.1\r\n${close}`), /live\n$/);
});

t.test('a client that opens connections by the hundred keeps no probe out', async (t) => {
  const { address } = await started(t);
  const sockets: Socket[] = [];
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
  });
  // Open before all the others, and the last to say what it wants.
  const probe = connect(address.port, '127.0.0.1');
  await once(probe, 'connect');
  const answer = text(probe);
  for (let i = 0; i < 400; i++) {
    const socket = connect({ port: address.port, host: '127.0.0.1', localAddress: '127.0.0.2' });
    socket.on('error', () => {}).write('GET /live HTTP/1.1\r\nX: ');
    sockets.push(socket);
  }
  await until('the first of the others to be ended', () => sockets.some((socket) => socket.destroyed));
  probe.write(`GET /live HTTP/1.1\r\n${close}`);
  t.match(await answer, /live\n$/);
  t.ok(
    sockets.some((socket) => !socket.destroyed),
    'while others are still open',
  );
});

t.test('one request a connection, however many are sent', async (t) => {
  const { address } = await started(t);
  const answers = await raw(address, 'GET /live HTTP/1.1\r\n\r\n'.repeat(2_500));
  t.match(answers, /^HTTP\/1\.1 200 /);
  t.equal(answers.split('HTTP/1.1').length - 1, 1, 'the rest is not even read');
});

t.test('an address in use is an error to the caller', async (t) => {
  const holder = createServer().listen(0, '127.0.0.1');
  await once(holder, 'listening');
  t.teardown(() => holder.close());
  const server = createHealthServer({ ready: () => new Readiness().state(), live: () => true });
  await t.rejects(server.listen('127.0.0.1', (holder.address() as AddressInfo).port), { code: 'EADDRINUSE' });
});

t.test('close ends kept connections', async (t) => {
  const { server, address } = await started(t);
  const socket = connect(address.port, '127.0.0.1');
  socket.write('GET /live HTTP/1.1\r\nHost: x\r\n\r\n');
  const all = text(socket);
  await once(socket, 'readable');
  await server.close();
  t.match(await all, /live\n$/);
});
