import { type AddressInfo, connect, createServer } from 'node:net';
import { type ConnectionOptions, connect as tlsConnect } from 'node:tls';
import t, { type Test } from 'tap';
import { stage } from '../../../support/lane-stage.ts';
import { meshed } from '../../../support/mesh.ts';
import { until } from '../../../support/until.ts';

interface Told {
  text: string;
  /** The other side has ended, too. */
  isOver: boolean;
}

/** A client whose last word of the handshake, what it sends behind that, and its end arrive in one piece. */
async function allAtOnce(t: Test, port: number, tls: ConnectionOptions, sends: string): Promise<Told> {
  const relay = createServer({ allowHalfOpen: true }, (near) => {
    const far = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    const held: Buffer[] = [];
    let isFirst = true;
    near.on('data', (bytes: Buffer) => {
      if (isFirst) far.write(bytes);
      else held.push(bytes);
      isFirst = false;
    });
    near.on('end', () => far.end(Buffer.concat(held)));
    far.on('data', (bytes: Buffer) => near.write(bytes)).on('end', () => near.end());
    for (const socket of [near, far]) socket.on('error', () => {});
    t.teardown(() => {
      near.destroy();
      far.destroy();
    });
  });
  await new Promise<void>((resolve) => relay.listen(0, '127.0.0.1', resolve));
  t.teardown(() => relay.close());
  const at = { port: (relay.address() as AddressInfo).port, host: '127.0.0.1' };
  const client = tlsConnect({ ...at, ...tls });
  const told: Told = { text: '', isOver: false };
  client.on('error', () => {});
  client.on('data', (bytes: Buffer) => {
    told.text += bytes.toString('latin1');
  });
  client.on('close', () => {
    told.isOver = true;
  });
  client.once('secureConnect', () => client.end(sends));
  t.teardown(() => client.destroy());
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
  const relay = createServer({ allowHalfOpen: true }, (near) => {
    const far = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    let pieces = 0;
    near.on('data', (bytes: Buffer) => {
      pieces++;
      if (pieces <= 2) far.write(pieces === 1 ? bytes : Buffer.concat([bytes, broken]));
    });
    far.on('data', (bytes: Buffer) => near.write(bytes));
    for (const event of ['end', 'close']) {
      far.on(event, () => {
        told.isOver = true;
      });
    }
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
