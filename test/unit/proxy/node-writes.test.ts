import { once } from 'node:events';
import type net from 'node:net';
import t from 'tap';
import { outletOf, writeWaiting } from '../../../lib/proxy/node-writes.ts';
import { connection, endOfTurn, receivedBy } from '../../support/connection.ts';
import { systemWrites } from '../../support/system-writes.ts';
import { until } from '../../support/until.ts';

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
  const outlet = outletOf(near);
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
    const outlet = outletOf(near);
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
  const outlet = outletOf(near);
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
    const outlet = outletOf(near);
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
    const outlet = outletOf(near);
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
  const outlet = outletOf(near);
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

const lent = Buffer.from('lent');

/** What is written in one turn, in which calls of the system in that turn and when it is over, and what arrives. */
const turns: readonly {
  readonly name: string;
  readonly run: (near: net.Socket) => void;
  readonly before: readonly number[];
  readonly after: readonly number[];
  readonly arrives: string;
}[] = [
  {
    name: 'a text',
    run: (near) => outletOf(near).text('one'),
    before: [],
    after: [3],
    arrives: 'one',
  },
  {
    name: 'texts are one write',
    run: (near) => {
      for (const text of ['one ', 'two ', '', 'three']) outletOf(near).text(text);
    },
    before: [],
    after: [13],
    arrives: 'one two three',
  },
  {
    name: 'texts up to what the system gets at once',
    run: (near) => {
      for (const letter of 'abc') outletOf(near).text(letter.repeat(10_000));
    },
    before: [10_000, 10_000],
    after: [10_000, 10_000, 10_000],
    arrives: ['a', 'b', 'c'].map((letter) => letter.repeat(10_000)).join(''),
  },
  {
    name: 'bytes that are others when the call returns',
    run: (near) => {
      outletOf(near).copy('head ', lent, 3);
      lent.fill('x');
    },
    before: [],
    after: [8],
    arrives: 'head len',
  },
  {
    name: 'more bytes than are worth waiting for',
    run: (near) => {
      outletOf(near).copy('', Buffer.alloc(20_000, 'a'), 20_000);
      outletOf(near).copy('h', Buffer.alloc(20_000, 'b'), 20_000);
    },
    before: [20_000, 20_001],
    after: [20_000, 20_001],
    arrives: `${'a'.repeat(20_000)}h${'b'.repeat(20_000)}`,
  },
  {
    name: 'a text, then few bytes, then a text',
    run: (near) => {
      outletOf(near).text('one ');
      outletOf(near).copy('', Buffer.from('two '), 4);
      outletOf(near).text('three');
    },
    before: [],
    after: [13],
    arrives: 'one two three',
  },
  {
    name: 'a text, then more bytes than are a text, then a text',
    run: (near) => {
      outletOf(near).text('one ');
      outletOf(near).copy('', Buffer.alloc(1025, 'b'), 1025);
      outletOf(near).text('three');
    },
    before: [4, 1025],
    after: [4, 1025, 5],
    arrives: `one ${'b'.repeat(1025)}three`,
  },
  {
    name: 'a write of the stream',
    run: (near) => {
      outletOf(near).text('one ');
      near.write(Buffer.from('two '));
      outletOf(near).copy('', Buffer.from('three'), 5);
      near.write(' four', 'latin1');
    },
    before: [4, 4, 5, 5],
    after: [4, 4, 5, 5],
    arrives: 'one two three four',
  },
  {
    name: 'a write at once',
    run: (near) => {
      outletOf(near).text('one ');
      outletOf(near).write(Buffer.from('two'));
    },
    before: [4, 3],
    after: [4, 3],
    arrives: 'one two',
  },
  {
    name: 'an end with a last word',
    run: (near) => {
      outletOf(near).text('one ');
      near.end('two', 'latin1');
    },
    before: [4, 3],
    after: [4, 3],
    arrives: 'one two',
  },
  {
    name: 'destroyed',
    run: (near) => {
      outletOf(near).text('one');
      near.destroy();
    },
    before: [3],
    after: [3],
    arrives: 'one',
  },
  {
    name: 'destroyed by somebody who has put himself before it',
    run: (near) => {
      const { destroy } = near;
      near.destroy = (error) => destroy.call(near, error);
      outletOf(near).text('one');
      near.destroy();
    },
    before: [3],
    after: [3],
    arrives: 'one',
  },
  {
    name: 'somebody looks at what the stream holds',
    run: (near) => {
      outletOf(near).text('one');
      writeWaiting(near);
    },
    before: [3],
    after: [3],
    arrives: 'one',
  },
  {
    name: 'behind a cork',
    run: (near) => {
      outletOf(near).text('one ');
      near.cork();
      outletOf(near).text('two ');
      near.write('three');
      process.nextTick(() => near.uncork());
    },
    before: [4],
    after: [4],
    arrives: 'one two three',
  },
];

t.test(
  'what waits for the end of the turn leaves then, and before anything else that happens to the stream',
  async (t) => {
    for (const { name, run, before, after, arrives } of turns) {
      const [near, far] = await connection(t);
      const received = receivedBy(far);
      const writes = systemWrites(near);
      run(near);
      t.same(writes, before, `${name}: in its turn`);
      t.equal(outletOf(near).isWaiting, before.length < after.length, `${name}: waits`);
      await endOfTurn();
      t.same(writes, after, `${name}: when that is over`);
      t.notOk(outletOf(near).isWaiting, `${name}: waits no more`);
      await until(`${name}: all to arrive`, () => received().length === arrives.length);
      t.equal(received(), arrives, name);
    }
  },
);

t.test('only so many wait at once, and no bytes more than there is room for', async (t) => {
  const pairs = await Promise.all(Array.from({ length: 100 }, () => connection(t)));
  const received = pairs.map(([, far]) => receivedBy(far));
  const writes = pairs.map(([near]) => systemWrites(near));
  const written = (): number => writes.filter(({ length }) => length > 0).length;
  for (const [near] of pairs) outletOf(near).text('text');
  t.equal(written(), 64, 'as many leave together');
  await endOfTurn();
  t.equal(written(), 100);
  for (const [at, [near]] of pairs.entries()) outletOf(near).copy(`${at} `, Buffer.alloc(10_000, at), 10_000);
  t.ok(written() > 0 && pairs.some(([near]) => outletOf(near).isWaiting));
  await endOfTurn();
  for (const [at, text] of received.entries()) {
    const expected = `text${at} ${Buffer.alloc(10_000, at).toString('latin1')}`;
    await until('all to arrive', () => text().length === expected.length);
    if (text() !== expected) t.fail(`connection ${at} got what belongs to another`);
  }
});

t.test('a write that fails at the end of the turn ends the socket with the error', async (t) => {
  const [near, far] = await connection(t);
  near.pause();
  far.resetAndDestroy();
  await until('the far end to be gone', () => far.closed);
  const failed = once(near, 'error');
  outletOf(near).text('x');
  await endOfTurn();
  const [error] = await failed;
  t.match(error, { syscall: 'write' });
  t.ok(near.destroyed);
});
