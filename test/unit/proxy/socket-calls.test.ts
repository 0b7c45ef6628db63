import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import t from 'tap';
import { parseIp } from '../../../lib/ip.ts';
import { Incoming } from '../../../lib/proxy/incoming.ts';
import { arrivedAt, holdBack, loadSocketCalls, peerOf, redirectedFrom } from '../../../lib/proxy/socket-calls.ts';
import { until } from '../../support/until.ts';

const skip = process.platform === 'linux' ? false : 'the calls are those of Linux';

const rows: readonly (readonly [listen: string, to: string, from: string])[] = [
  ['127.0.0.1', '127.0.0.1', '127.0.0.1'],
  ['0.0.0.0', '127.255.255.254', '127.3.2.1'],
  ['::', '127.0.0.2', '127.0.0.9'],
  ['::', '::1', '::1'],
  ['::1', '::1', '::1'],
];

interface Pair {
  readonly client: Socket;
  readonly socket: Socket;
  /** The listener's. */
  readonly port: number;
}

async function accept(server: Server, to: string, from: string): Promise<Pair> {
  const accepted = once(server, 'connection');
  const { port } = server.address() as { port: number };
  const client = connect({ host: to, port, localAddress: from });
  const connected = once(client, 'connect');
  const [socket] = (await accepted) as [Socket];
  await connected;
  socket.on('error', () => {});
  client.on('error', () => {});
  return { client, socket, port };
}

t.test('both ends of a connection, as Node has them', { skip }, async (t) => {
  for (const way of ['asked of Node', 'asked of the kernel']) {
    if (way === 'asked of the kernel') loadSocketCalls();
    for (const [listen, to, from] of rows) {
      const name = `${way}: listening on ${listen}, ${from} to ${to}`;
      const server = createServer({ allowHalfOpen: true }).listen(0, listen);
      await once(server, 'listening');
      const { client, socket, port } = await accept(server, to, from);
      t.same(peerOf(Incoming.stream(socket)), { ip: parseIp(from), port: client.localPort }, `${name}: the client`);
      t.same(arrivedAt(Incoming.stream(socket)), { ip: parseIp(to), port }, `${name}: where it arrived`);
      // Nothing has redirected it.
      t.equal(redirectedFrom(Incoming.stream(socket), from.includes(':') ? 6 : 4), null, name);
      socket.destroy();
      // What Node was asked once, it remembers.
      if (way === 'asked of the kernel') t.equal(peerOf(Incoming.stream(socket)), null, `${name}: closed`);
      client.destroy();
      server.close();
    }
  }
});

t.test('a client that is gone has no address', { skip }, async () => {
  loadSocketCalls();
  const server = createServer({ pauseOnConnect: true }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { client, socket } = await accept(server, '127.0.0.1', '127.0.0.1');
  client.resetAndDestroy();
  await until('the reset to arrive', () => peerOf(Incoming.stream(socket)) === null);
  socket.destroy();
  server.close();
});

t.test('what is held back leaves with the end, and nothing is lost', { skip }, async (t) => {
  loadSocketCalls();
  const server = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  for (const bytes of [1, 100_000, 5_000_000]) {
    for (const end of ['destroySoon', 'end'] as const) {
      const { client, socket } = await accept(server, '127.0.0.1', '127.0.0.1');
      let received = 0;
      client.on('data', (chunk: Buffer) => {
        received += chunk.length;
      });
      const ended = once(client, 'end');
      holdBack(socket);
      socket.write(Buffer.alloc(bytes));
      socket[end]();
      await ended;
      t.equal(received, bytes, `${bytes} bytes, ${end}`);
      socket.destroy();
      holdBack(socket);
    }
  }
  server.close();
});
