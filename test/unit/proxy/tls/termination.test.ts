import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { Duplex } from 'node:stream';
import tls from 'node:tls';
import t, { type Test } from 'tap';
import type { Handshake } from '../../../../lib/proxy/tls/handshake.ts';
import { testCertificate } from '../../../support/certificates.ts';
import { helloBytes, parseClientHello } from '../../../support/client-hello.ts';
import { terminationOf } from '../../../support/termination.ts';
import { crowding, until } from '../../../support/until.ts';

const name = 'web.shop';
const own = testCertificate({ dnsNames: [name] });

interface Stage {
  readonly port: number;
  readonly ended: Handshake[];
}

async function stage(t: Test, timeoutMs: number): Promise<Stage> {
  const termination = terminationOf(own, name, timeoutMs);
  const ended: Handshake[] = [];
  const sockets: Socket[] = [];
  const server = createServer({ allowHalfOpen: true }, (socket) => {
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
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { port: (server.address() as AddressInfo).port, ended };
}

t.test('a handshake that goes on, and on', { timeout: 90_000 }, async (t) => {
  const timeoutMs = 400;
  const { port, ended } = await stage(t, timeoutMs);
  const client = connect(port, '127.0.0.1');
  let closed = false;
  client.on('error', () => {});
  client.on('close', () => {
    closed = true;
  });
  client.resume();
  client.write(await helloBytes(t, name));
  const began = performance.now();
  // A record of 16 KiB, a byte at a time: never a pause as long as the limit.
  client.write(Buffer.of(0x17, 0x03, 0x03, 0x40, 0x00));
  const drip = setInterval(() => client.write('x'), timeoutMs / 8);
  t.teardown(() => clearInterval(drip));
  await until('the end of it', () => closed);
  t.ok(performance.now() - began < 10 * timeoutMs * crowding(), 'in its time');
  t.match(ended, [{ kind: 'failed', failure: { reason: 'timeout', detail: /too long/ } }], 'said once');
});

t.test('a handshake that is done in time is left alone', { timeout: 90_000 }, async (t) => {
  const timeoutMs = 400;
  const { port, ended } = await stage(t, timeoutMs);
  const connected = async (): Promise<tls.TLSSocket | undefined> => {
    const socket = tls.connect({ port, host: '127.0.0.1', servername: name, ca: own.trustAnchorsPem });
    socket.on('error', () => {});
    const before = ended.length;
    await until('the handshake', () => ended.length === before + 1);
    return ended.at(-1)?.kind === 'established' ? socket : undefined;
  };
  // Where this thread does not get a processor for so long, there is another attempt.
  const client = await until('a handshake that is done in time', connected);
  let closed = client.destroyed;
  client.on('close', () => {
    closed = true;
  });
  t.match(ended.at(-1), { kind: 'established', identity: null });
  await new Promise((resolve) => setTimeout(resolve, 2 * timeoutMs));
  t.notOk(closed, 'beyond the limit, too');
  client.destroy();
});

t.test('all whose last word came while the process stood still have said it in time', async (t) => {
  const timeoutMs = 2000 * crowding();
  const { port, ended } = await stage(t, timeoutMs);
  const lastWords: (() => void)[] = [];
  const clients = 60;
  for (let i = 0; i < clients; i++) {
    const raw = connect(port, '127.0.0.1');
    let isFirst = true;
    const below = new Duplex({
      read() {},
      write(bytes: Buffer, _encoding, done) {
        if (isFirst) raw.write(bytes);
        else lastWords.push(() => raw.write(bytes));
        isFirst = false;
        done();
      },
    });
    raw.on('data', (bytes) => below.push(bytes));
    raw.on('error', () => {});
    const client = tls.connect({ socket: below, servername: name, ca: own.trustAnchorsPem });
    client.on('error', () => {});
    t.teardown(() => {
      client.destroy();
      raw.destroy();
    });
  }
  await until('all to have their last word ready', () => lastWords.length === clients);
  t.same(ended, []);
  // Written by the system at once.
  for (const send of lastWords) send();
  for (const end = performance.now() + timeoutMs; performance.now() < end; );
  await until('the end of all', () => ended.length === clients);
  t.same(
    ended.filter(({ kind }) => kind === 'failed'),
    [],
  );
});

t.test('a client that ends its side before its handshake is over has failed, at once', async (t) => {
  const { port, ended } = await stage(t, 60_000 * crowding());
  const hello = await helloBytes(t, name);
  const rows: readonly (readonly [name: string, run: (client: Socket) => unknown])[] = [
    ['together with its ClientHello', (client) => client.end(hello)],
    [
      'when we have answered',
      (client) => {
        client.write(hello);
        client.once('data', () => client.end());
      },
    ],
  ];
  for (const [how, run] of rows) {
    const client = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    client.on('error', () => {}).resume();
    const before = ended.length;
    run(client);
    await until(how, () => ended.length > before);
    t.match(ended.at(-1), { kind: 'failed', failure: { reason: 'closed' } }, how);
    client.destroy();
  }
  // Many at once wait for their turn, and end before it.
  const before = ended.length;
  const clients = Array.from({ length: 40 }, () => {
    const client = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    client.on('error', () => {}).resume();
    return client.end(hello);
  });
  await until('all of them', () => ended.length === before + clients.length);
  t.ok(ended.slice(before).every(({ kind }) => kind === 'failed'));
  for (const client of clients) client.destroy();
});
