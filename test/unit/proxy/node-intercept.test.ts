import { randomBytes } from 'node:crypto';
import { type AddressInfo, connect, createServer, Socket } from 'node:net';
import tls from 'node:tls';
import t, { type Test } from 'tap';
import { intercept } from '../../../lib/proxy/node-intercept.ts';
import type { Handshake } from '../../../lib/proxy/tls/handshake.ts';
import { meshClient, workloadCertificate, workloadName } from '../../support/certificates.ts';
import { helloBytes, parseClientHello } from '../../support/client-hello.ts';
import { terminationOf } from '../../support/termination.ts';
import { until } from '../../support/until.ts';

async function connectedPair(t: Test): Promise<{ readonly client: Socket; readonly socket: Socket }> {
  const server = createServer();
  const arrived = new Promise<Socket>((resolve) => server.once('connection', resolve));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const socket = await arrived;
  server.close();
  for (const each of [client, socket]) each.on('error', () => {});
  t.teardown(() => {
    client.destroy();
    socket.destroy();
  });
  return { client, socket };
}

t.test('what is read goes another way until it is released; the end and what is written do not', async (t) => {
  const rows: readonly (readonly [string, Buffer])[] = [
    ['a record of TLS', Buffer.concat([Buffer.of(0x17, 3, 3, 0, 3), Buffer.from('abc')])],
    ['a byte', Buffer.of(0)],
    ['a request', Buffer.from('GET / HTTP/1.1\r\nHost: web\r\n\r\n')],
    ['two requests', Buffer.from('GET / HTTP/1.1\r\nHost: web\r\n\r\nPOST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc')],
    ['one that leaves HTTP', Buffer.from('GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nabc')],
    ['a tunnel', Buffer.from('CONNECT web:80 HTTP/1.1\r\nHost: web:80\r\n\r\nabc')],
    ['the preface of HTTP/2', Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')],
    ['a head without an end', Buffer.from(`GET / HTTP/1.1\r\n${'a: b\r\n'.repeat(9000)}`)],
    ['anything', randomBytes(50_000)],
  ];
  for (const [name, bytes] of rows) {
    const { client, socket } = await connectedPair(t);
    const events: string[] = [];
    const taken: Buffer[] = [];
    socket.on('data', (piece: Buffer) => events.push(piece.toString('latin1')));
    socket.on('end', () => events.push('end'));
    const intercepted = intercept(socket, (piece) => taken.push(piece));
    const half = bytes.length >> 1;
    client.write(bytes.subarray(0, half));
    if (half > 0) await until('its first half', () => Buffer.concat(taken).length === half);
    client.write(bytes.subarray(half));
    await until('all of it', () => Buffer.concat(taken).length === bytes.length);
    t.ok(Buffer.concat(taken).equals(bytes), name);
    const echo = new Promise((resolve) => client.once('data', (piece) => resolve(String(piece))));
    socket.write('written');
    t.equal(await echo, 'written');
    intercepted?.release();
    intercepted?.release();
    client.write('after');
    await until('what is read after that', () => events.length > 0);
    client.end();
    await until('the end', () => events.length > 1);
    t.same(events, ['after', 'end'], name);
    t.equal(Buffer.concat(taken).length, bytes.length, name);
    client.destroy();
    socket.destroy();
  }
});

t.test('an end, and a reset, in between', async (t) => {
  for (const how of ['end', 'resetAndDestroy'] as const) {
    const { client, socket } = await connectedPair(t);
    const events: string[] = [];
    for (const event of ['end', 'error', 'close']) socket.on(event, () => events.push(event));
    socket.resume();
    const intercepted = intercept(socket, () => {});
    client[how]();
    await until('the close', () => events.includes('close'));
    t.equal(events[0], how === 'end' ? 'end' : 'error');
    intercepted?.release();
    t.equal(
      intercept(socket, () => {}),
      null,
      'a closed one',
    );
  }
});

t.test('released while it reads, and at once read for another', async (t) => {
  const [one, two] = [await connectedPair(t), await connectedPair(t)];
  const taken: string[] = [];
  const first = intercept(one.socket, (bytes) => {
    taken.push(`one ${bytes}`);
    first?.release();
    intercept(two.socket, (more) => taken.push(`two ${more}`));
  });
  const rest: string[] = [];
  one.socket.on('data', (bytes: Buffer) => rest.push(String(bytes)));
  one.client.write('a');
  await until('the first', () => taken.length === 1);
  one.client.write('b');
  two.client.write('c');
  await until('both', () => taken.length === 2 && rest.length === 1);
  t.same(taken, ['one a', 'two c']);
  t.same(rest, ['b']);
  for (const { client, socket } of [one, two]) {
    client.destroy();
    socket.destroy();
  }
});

const name = 'web.shop.serviceaccount.identity.linkerd.cluster.local';
const own = workloadCertificate('web', 'shop');

interface Stage {
  readonly port: number;
  readonly ended: Handshake[];
  /** Lengths of what TLS was given to read. */
  readonly given: number[];
}

/** A termination whose TLS sockets say how much they are given at once. */
async function stage(t: Test): Promise<Stage> {
  const termination = terminationOf(own, name);
  const ended: Handshake[] = [];
  const given: number[] = [];
  const sockets: Socket[] = [];
  const secure = new tls.TLSSocket(new Socket(), { isServer: true });
  const { _handle } = secure as unknown as { readonly _handle: object };
  const handleClass = Object.getPrototypeOf(_handle) as { receive(bytes: Buffer): void };
  const { receive } = handleClass;
  handleClass.receive = function (this: object, bytes) {
    given.push(bytes.length);
    receive.call(this, bytes);
  };
  secure.destroy();
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => {});
    socket.once('data', (bytes: Buffer) => {
      const result = parseClientHello(bytes);
      if (result.kind !== 'hello') throw new Error('a whole hello was sent');
      socket.pause();
      termination.accept(socket, '127.0.0.1', bytes, result.hello, 'http/1.1', (handshake) => ended.push(handshake));
    });
  });
  t.teardown(() => {
    handleClass.receive = receive;
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { port: (server.address() as AddressInfo).port, ended, given };
}

t.test('TLS never fills its first buffer before it is released, and reads by itself from then on', async (t) => {
  const { port, ended, given } = await stage(t);
  const { cert = '', ...files } = meshClient(workloadName('web', 'shop'), workloadCertificate('orders', 'shop'));
  const client = tls.connect({ ...files, cert: `${cert}${own.trustAnchorsPem}`, port, host: '127.0.0.1' });
  const request = `GET / HTTP/1.1\r\nHost: web\r\nA: ${'a'.repeat(6000)}\r\n\r\n`;
  // Behind the certificates at once.
  client.write(request);
  await until('the handshake', () => ended.length === 1);
  const [handshake] = ended;
  if (handshake?.kind !== 'established') throw new Error('it was to succeed');
  t.match(handshake, { identity: { name: /^orders/ } });
  let came = '';
  handshake.socket.on('data', (bytes: Buffer) => {
    came += bytes;
  });
  await until('the request', () => came.length === request.length);
  t.equal(came, request);
  t.ok(Math.max(...given) < 1024, `${given}`);
  t.ok(given.length > 3, 'more than the hello');
  const before = given.length;
  client.write(request);
  await until('another', () => came.length === 2 * request.length);
  t.ok(given.length > before, 'read here, too');
  t.ok(Math.max(...given) < 1024, `${given}`);
  handshake.reads.release();
  const after = given.length;
  client.write(request);
  await until('a third', () => came.length === 3 * request.length);
  t.equal(came, request.repeat(3));
  t.equal(given.length, after);
  client.destroy();
});

t.test('a handshake that comes to nothing half way', async (t) => {
  const rows: readonly (readonly [string, (socket: Socket) => void, string])[] = [
    ['a request', (socket) => socket.write('GET / HTTP/1.1\r\nHost: web\r\n\r\n'), 'malformed'],
    ['bytes', (socket) => socket.write(Buffer.alloc(70_000, 'x')), 'malformed'],
    ['an end', (socket) => socket.end(), 'closed'],
    ['a reset', (socket) => socket.resetAndDestroy(), 'closed'],
  ];
  for (const [what, goOn, reason] of rows) {
    const { port, ended } = await stage(t);
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => {});
    const hello = await helloBytes(t, name);
    socket.write(hello);
    await new Promise((resolve) => socket.once('data', resolve));
    goOn(socket);
    await until(`the end of ${what}`, () => ended.length === 1);
    t.match(ended, [{ kind: 'failed', failure: { reason } }], what);
    socket.destroy();
  }
});
