import { once } from 'node:events';
import net from 'node:net';
import t from 'tap';
import { Outlet } from '../../../lib/proxy/node-streams.ts';
import type { Teardown } from '../../support/children.ts';
import { until } from '../../support/until.ts';

/** Two ends of one connection over the loopback interface. */
async function connection(t: Teardown): Promise<readonly [near: net.Socket, far: net.Socket]> {
  const server = net.createServer({ allowHalfOpen: true });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as net.AddressInfo;
  const near = net.connect({ host: '127.0.0.1', port, allowHalfOpen: true });
  const [[far]] = (await Promise.all([once(server, 'connection'), once(near, 'connect')])) as [[net.Socket], []];
  server.close();
  t.teardown(() => {
    near.destroy();
    far.destroy();
  });
  return [near, far];
}

/** How many writes went by the stream of `socket`: what the system takes at once goes past it. */
function countingWrites(socket: net.Socket): () => number {
  let count = 0;
  const { write } = socket;
  socket.write = ((...args: Parameters<typeof write>) => {
    count++;
    return write.apply(socket, args);
  }) as typeof write;
  return () => count;
}

const patternAt = (at: number): number => (at * 31 + (at >> 8)) & 0xff;

function piece(from: number, length: number): Buffer {
  return Buffer.from(Array.from({ length }, (_, i) => patternAt(from + i)));
}

t.test('what the system takes at once goes past the stream, and is counted', async (t) => {
  const [near, far] = await connection(t);
  const outlet = new Outlet(near);
  const viaStream = countingWrites(near);
  for (let i = 0; i < 100; i++) t.ok(outlet.write(Buffer.from('0123456789')), 'free at once');
  t.equal(viaStream(), 0);
  t.equal(near.bytesWritten, 1000);
  let received = '';
  far.on('data', (bytes) => {
    received += bytes.toString();
  });
  await until('all of it', () => received.length === 1000);
  t.equal(received, '0123456789'.repeat(100));
});

t.test('what it does not take waits in the stream, in order, until its peer reads', async (t) => {
  for (const length of [64, 8_000, 64 * 1024, 500_000]) {
    const name = `pieces of ${length} bytes`;
    const [near, far] = await connection(t);
    far.pause();
    const outlet = new Outlet(near);
    let sent = 0;
    let due = 0;
    let told = 0;
    while (near.writableLength < 3 * length) {
      const bytes = piece(sent, length);
      sent += length;
      if (outlet.write(bytes, () => told++)) bytes.fill(0);
      else due++;
    }
    t.ok(due >= 3, `${name}: ${due} are not free`);
    t.equal(told, 0, name);
    t.equal(near.writableLength, due * length, `${name}: the stream knows of all that waits`);
    t.equal(near.bytesWritten, sent, name);
    near.end();
    let taken = 0;
    let wrong = -1;
    far.on('data', (bytes: Buffer) => {
      for (let i = 0; i < bytes.length && wrong === -1; i++) if (bytes[i] !== patternAt(taken + i)) wrong = taken + i;
      taken += bytes.length;
    });
    far.resume();
    await until(`${name}: the end`, () => far.readableEnded, { lastSeen: () => `${taken} of ${sent}` });
    t.equal(taken, sent, name);
    t.equal(wrong, -1, `${name}: the bytes are those that were sent`);
    t.equal(told, due, `${name}: each that was not free is told of`);
  }
});

t.test('past what has waited the stream is no longer in the way', async (t) => {
  const [near, far] = await connection(t);
  far.pause();
  const outlet = new Outlet(near);
  while (outlet.write(Buffer.alloc(64 * 1024)));
  far.resume();
  await until('all to be taken', () => near.writableLength === 0);
  const viaStream = countingWrites(near);
  t.ok(outlet.write(Buffer.from('more')));
  t.equal(viaStream(), 0);
  near.write('and by the stream');
  t.equal(viaStream(), 1);
});

t.test('a write that fails ends the socket with the error, as a write of the stream does', async (t) => {
  const errors: unknown[] = [];
  for (const way of ['stream', 'outlet'] as const) {
    const [near, far] = await connection(t);
    // Nobody reads, so that only a write meets the reset.
    near.pause();
    far.resetAndDestroy();
    await until('the far end to be gone', () => far.closed);
    const outlet = new Outlet(near);
    const failed = once(near, 'error');
    for (let i = 0; i < 3; i++) {
      if (way === 'outlet') outlet.write(Buffer.from('x'));
      else near.write('x');
    }
    const [error] = await failed;
    const { code, syscall, errno } = error as NodeJS.ErrnoException;
    errors.push({ code, syscall, errno });
    t.ok(near.destroyed, way);
  }
  t.same(errors[1], errors[0]);
});

t.test('a socket that ends or breaks while something waits takes nothing amiss', async (t) => {
  for (const end of ['destroy', 'resetAndDestroy', 'far reset'] as const) {
    const [near, far] = await connection(t);
    far.pause();
    const errors: unknown[] = [];
    near.on('error', (error: NodeJS.ErrnoException) => errors.push(error.code));
    const outlet = new Outlet(near);
    while (outlet.write(Buffer.alloc(64 * 1024)));
    outlet.write(Buffer.alloc(10));
    if (end === 'far reset') far.resetAndDestroy();
    else near[end]();
    await until(`${end}: closed`, () => near.closed);
    t.equal(errors.length, end === 'far reset' ? 1 : 0, `${end}: ${errors}`);
    t.notOk(outlet.write(Buffer.from('late')), `${end}: nothing can be written any more`);
  }
});

t.test('a stream that is no plain socket, has a timeout, or is corked, writes for itself', async (t) => {
  const [near, far] = await connection(t);
  far.resume();
  const outlet = new Outlet(near);
  const viaStream = countingWrites(near);
  near.setTimeout(60_000);
  outlet.write(Buffer.from('a'));
  t.equal(viaStream(), 1);
  near.setTimeout(0);
  near.cork();
  outlet.write(Buffer.from('b'));
  t.equal(viaStream(), 2);
  near.uncork();
  await until('nothing to wait', () => near.writableLength === 0);
  outlet.write(Buffer.from('c'));
  t.equal(viaStream(), 2);
});
