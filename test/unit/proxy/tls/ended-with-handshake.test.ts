import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { type ConnectionOptions, type TLSSocket, connect as tlsConnect } from 'node:tls';
import t, { type Test } from 'tap';
import { stage } from '../../../support/lane-stage.ts';
import { meshed } from '../../../support/mesh.ts';
import { until } from '../../../support/until.ts';

interface Told {
  text: string;
  /** The other side has ended, too. */
  isOver: boolean;
}

/** Which pieces of what a client says go on to the proxy, and as what: `near` is the client's side, `far` the proxy's. */
type Passing = (near: Socket, far: Socket) => void;

/** A client whose bytes reach the proxy as `passing` has it; what the proxy says reaches the client at once. */
async function relayed(t: Test, port: number, tls: ConnectionOptions, passing: Passing): Promise<TLSSocket> {
  const relay = createServer({ allowHalfOpen: true }, (near) => {
    const far = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    passing(near, far);
    far.on('data', (bytes: Buffer) => near.write(bytes));
    for (const socket of [near, far]) socket.on('error', () => {});
    t.teardown(() => {
      near.destroy();
      far.destroy();
    });
  });
  await new Promise<void>((resolve) => relay.listen(0, '127.0.0.1', resolve));
  t.teardown(() => relay.close());
  const client = tlsConnect({ port: (relay.address() as AddressInfo).port, host: '127.0.0.1', ...tls });
  client.on('error', () => {});
  t.teardown(() => client.destroy());
  return client;
}

/** A client whose last word of the handshake, what it sends behind that, and its end arrive in one piece. */
async function allAtOnce(t: Test, port: number, tls: ConnectionOptions, sends: string): Promise<Told> {
  const client = await relayed(t, port, tls, (near, far) => {
    const held: Buffer[] = [];
    let isFirst = true;
    near.on('data', (bytes: Buffer) => {
      if (isFirst) far.write(bytes);
      else held.push(bytes);
      isFirst = false;
    });
    near.on('end', () => far.end(Buffer.concat(held)));
    far.on('end', () => near.end());
  });
  const told: Told = { text: '', isOver: false };
  client.on('data', (bytes: Buffer) => {
    told.text += bytes.toString('latin1');
  });
  client.on('close', () => {
    told.isOver = true;
  });
  client.once('secureConnect', () => client.end(sends));
  return told;
}

t.test('a client that ends its side with its handshake is not waited for', async (t) => {
  for (const engine of ['fast', 'library'] as const) {
    for (const protocol of ['http/1.1', 'h2'] as const) {
      const { termination, client } = meshed(protocol);
      const { lane } = await stage(t, engine, {}, { protocol: 'detect', tls: termination });
      const told = await allAtOnce(t, lane.port, client, '');
      await until(`${engine}, ${protocol}: it to be over`, () => told.isOver && lane.live.size === 0);
      t.same([lane.counts.sources, lane.counts.decided], [0, 0], `${engine}, ${protocol}`);
    }
  }
});

t.test('what it has sent before that is answered', async (t) => {
  for (const engine of ['fast', 'library'] as const) {
    const { termination, client } = meshed('http/1.1');
    const { lane } = await stage(t, engine, {}, { protocol: 'detect', tls: termination });
    const told = await allAtOnce(t, lane.port, client, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    await until(`${engine}: the answer`, () => told.text.startsWith('HTTP/1.1 200 '));
    await until(`${engine}: it to be over`, () => lane.live.size === 0);
    t.same([lane.counts.sources, lane.counts.decided], [0, 1], engine);
  }
});

/** No key has ever made it: OpenSSL refuses it, and reads no further. */
const broken = Buffer.concat([Buffer.of(23, 3, 3, 0, 32), Buffer.alloc(32)]);

/** A client whose last word of the handshake and a broken record arrive in one piece, and which stays. */
async function brokenBehind(t: Test, port: number, tls: ConnectionOptions): Promise<{ isOver: boolean }> {
  const told = { isOver: false };
  await relayed(t, port, tls, (near, far) => {
    let pieces = 0;
    near.on('data', (bytes: Buffer) => {
      pieces++;
      if (pieces <= 2) far.write(pieces === 1 ? bytes : Buffer.concat([bytes, broken]));
    });
    for (const event of ['end', 'close']) {
      far.on(event, () => {
        told.isOver = true;
      });
    }
  });
  return told;
}

t.test('a client whose TLS breaks with its handshake is let go at once, and counted no more', async (t) => {
  for (const protocol of ['http/1.1', 'h2'] as const) {
    const { termination, client } = meshed(protocol);
    const { lane } = await stage(t, 'fast', {}, { protocol: 'detect', tls: termination });
    const told = await brokenBehind(t, lane.port, client);
    await until(`${protocol}: it to be over`, () => told.isOver && lane.live.size === 0);
    t.same([lane.counts.sources, lane.counts.decided], [0, 0], protocol);
  }
});
