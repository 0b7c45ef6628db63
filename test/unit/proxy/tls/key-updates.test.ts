import { type AddressInfo, createServer, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { queuedBytes } from '../../../../lib/proxy/node-handles.ts';
import type { Handshake } from '../../../../lib/proxy/tls/handshake.ts';
import { testCertificate } from '../../../support/certificates.ts';
import { parseClientHello } from '../../../support/client-hello.ts';
import { endOfTurn } from '../../../support/connection.ts';
import { terminationOf } from '../../../support/termination.ts';
import { contentType, RecordClient } from '../../../support/tls-records.ts';
import { until } from '../../../support/until.ts';

const name = 'web.shop';
const own = testCertificate({ dnsNames: [name] });

/** What a client may send at once. */
const mostKeyUpdates = 16;

type Established = Extract<Handshake, { readonly kind: 'established' }>;

interface Stage extends Established {
  readonly client: RecordClient;
  readonly raw: Socket;
  /** What the server has read, and its end. */
  readonly came: () => string;
  /** New keys of the client's that OpenSSL has made, and times that there were too many. */
  readonly made: () => number;
  readonly tooMany: () => number;
}

async function stage(t: Test): Promise<Stage> {
  const termination = terminationOf(own, name);
  let raw: Socket | null = null;
  const server = createServer({ allowHalfOpen: true });
  const established = new Promise<Established>((resolve, reject) => {
    server.once('connection', (socket) => {
      raw = socket;
      socket.on('error', () => {});
      socket.once('data', (bytes: Buffer) => {
        const result = parseClientHello(bytes);
        if (result.kind !== 'hello') throw new Error('a whole hello was sent');
        socket.pause();
        termination.accept(socket, '127.0.0.1', bytes, result.hello, 'http/1.1', (handshake) => {
          if (handshake.kind === 'established') resolve(handshake);
          else reject(new Error(handshake.failure.detail));
        });
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const client = await RecordClient.connect(port, { servername: name, ca: own.trustAnchorsPem });
  const handshake = await established;
  const { socket, reads } = handshake;
  if (raw === null) throw new Error('it was accepted');
  t.teardown(() => {
    client.destroy();
    socket.destroy();
    reads.release();
    server.close();
  });
  let came = '';
  let made = 0;
  let tooMany = 0;
  socket.on('error', () => socket.destroy());
  socket.on('data', (bytes: Buffer) => {
    came += bytes.toString('latin1');
  });
  socket.on('end', () => {
    came += '(end)';
  });
  const emit = socket.emit.bind(socket);
  // The server's own keys are others, and come in pairs with these where they are asked for.
  socket.emit = (event: string, ...told: unknown[]): boolean => {
    const isHeard = emit(event, ...told);
    if (event === 'keylog') {
      made++;
      t.ok(
        (told[0] as Buffer).every((byte) => byte === 0),
        'of the keys nothing is left',
      );
    }
    return isHeard;
  };
  reads.whenMany(() => {
    tooMany++;
    socket.destroy();
  });
  return { ...handshake, client, raw, came: () => came, made: () => made, tooMany: () => tooMany };
}

t.test('a read full of KeyUpdates: OpenSSL gets a few of them, and the client is cut off', async (t) => {
  const rows: readonly (readonly [string, { asks?: boolean; padding?: number; count?: number }])[] = [
    ['as short as they can be', {}],
    ['that want an answer, which nobody reads', { asks: true }],
    ['in long records', { padding: 500, count: 200 }],
    ['in records of the greatest length', { padding: 16_000, count: 80 }],
  ];
  for (const [what, { asks = false, padding = 0, count = 2400 }] of rows) {
    const { client, raw, socket, made, tooMany } = await stage(t);
    client.raw.pause();
    client.raw.write(client.keyUpdates(count, asks, padding));
    await until('too many', () => tooMany() > 0);
    const most = 2 * mostKeyUpdates * (asks ? 2 : 1);
    t.ok(made() > mostKeyUpdates && made() <= most, `${what}: ${made()}`);
    t.ok(queuedBytes(socket) < 100 * mostKeyUpdates, 'what waits for it is bounded');
    await until('its end', () => raw.destroyed);
    t.equal(tooMany(), 1, 'said once');
  }
});

t.test('content between them makes them no better', async (t) => {
  const { client, came, made, tooMany } = await stage(t);
  for (let i = 0; i < 40 && tooMany() === 0; i++) {
    client.raw.write(Buffer.concat([client.keyUpdates(8), client.data('.')]));
    await until('it', () => came().length > i || tooMany() > 0);
  }
  t.equal(tooMany(), 1);
  t.ok(made() < 2 * mostKeyUpdates, `${made()}`);
});

t.test('where TLS reads by itself it is cut off as well, behind the read', async (t) => {
  const { client, reads, came, made, tooMany, raw } = await stage(t);
  reads.release();
  client.raw.write(client.data('released'));
  await until('it', () => came() === 'released');
  const all = client.keyUpdates(40_000);
  client.raw.write(all);
  await until('its end', () => raw.destroyed);
  t.equal(tooMany(), 1);
  t.ok(made() < 20_000, `${made()}`);
});

t.test('a few are nobody`s business, and all that comes between and behind them is read, to the end', async (t) => {
  for (const isReleased of [false, true]) {
    const { client, reads, came, made, tooMany, socket } = await stage(t);
    if (isReleased) reads.release();
    const records = [
      client.data('a'),
      client.keyUpdate(true),
      client.data('b'),
      client.keyUpdates(9),
      client.data('c'),
    ];
    const bytes = Buffer.concat(records);
    client.raw.write(bytes.subarray(0, 33));
    await endOfTurn();
    client.raw.write(bytes.subarray(33));
    await until('all', () => came() === 'abc');
    t.equal(made(), 11, 'one of them the server`s');
    socket.pause();
    client.raw.end(Buffer.concat([client.data('d'), client.keyUpdate(false), client.data('e')]));
    for (let i = 0; i < 20; i++) await endOfTurn();
    t.equal(came(), 'abc', 'it is paused');
    socket.resume();
    await until('the end', () => came().endsWith('(end)'));
    t.equal(came(), 'abcde(end)');
    t.equal(tooMany(), 0);
  }
});

t.test('much is read byte for byte, whatever comes between, by one who stops now and then', async (t) => {
  const { client, came, socket, tooMany } = await stage(t);
  let i = 0;
  let sent = '';
  const next = (): Buffer => {
    const text = `${i++}.`.repeat(1 + ((i * 997) % 3000)).slice(0, 16_000);
    sent += text;
    return i % 60 === 7 ? Buffer.concat([client.keyUpdate(false), client.data(text)]) : client.data(text);
  };
  socket.on('data', () => {
    socket.pause();
    setImmediate(() => socket.resume());
  });
  client.raw.write(Buffer.concat(Array.from({ length: 600 }, next)));
  await until('all of it', () => came().length >= sent.length);
  t.equal(came() === sent, true);
  t.equal(tooMany(), 0);
});

t.test('of other records that say nothing OpenSSL itself has enough', async (t) => {
  const rows: readonly (readonly [string, type: number, content: Buffer])[] = [
    ['content of no length', contentType.data, Buffer.alloc(0)],
    ['warnings', contentType.alert, Buffer.of(1, 90)],
    ['a session ticket', contentType.handshake, Buffer.concat([Buffer.of(4, 0, 0, 14), Buffer.alloc(14)])],
    ['a request for a handshake', contentType.handshake, Buffer.of(0, 0, 0, 0)],
  ];
  for (const [what, type, content] of rows) {
    const { client, socket, came } = await stage(t);
    client.raw.write(
      Buffer.concat([...Array.from({ length: 60 }, () => client.record(type, content)), client.data('x')]),
    );
    await until(`the end of it: ${what}`, () => socket.destroyed);
    t.equal(came(), '', what);
  }
});

t.test('Node announces no further listeners, once somebody hears of the keys', async (t) => {
  const { socket } = await stage(t);
  t.equal(socket.listenerCount('newListener'), 0);
});
