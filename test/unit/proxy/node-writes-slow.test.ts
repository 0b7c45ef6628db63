import t from 'tap';
import { outletOf } from '../../../lib/proxy/node-writes.ts';
import { connection, endOfTurn, receivedBy } from '../../support/connection.ts';
import { until } from '../../support/until.ts';

t.test('what the system does not take at the end of the turn waits in the stream, in order', async (t) => {
  const [near, far] = await connection(t);
  // Others write from the same room, before and behind.
  const [other, otherFar] = await connection(t);
  const otherReceived = receivedBy(otherFar);
  far.pause();
  const expected: Buffer[] = [];
  let otherExpected = '';
  for (let round = 0; near.writableLength < 200_000; round++) {
    const head = `${round} `;
    const size = [3, 700, 9_000, 17_000][round % 4] as number;
    const bytes = Buffer.alloc(size, round % 251);
    const kept = Buffer.from(bytes);
    if (round % 3 === 0) outletOf(near).text(`${head}${bytes.toString('latin1')}`);
    else if (outletOf(near).copy(head, bytes, size) === null) near.write(Buffer.concat([Buffer.from(head), bytes]));
    else bytes.fill(0xff);
    outletOf(other).copy('', Buffer.from(head), head.length);
    otherExpected += head;
    expected.push(Buffer.from(head), kept);
    if (round % 5 === 0) await endOfTurn();
  }
  const all = Buffer.concat(expected);
  outletOf(near).text('last');
  near.end();
  t.ok(near.writableLength > 0, 'the peer is slow');
  const received = receivedBy(far);
  far.resume();
  await until('the end', () => far.readableEnded, { timeoutMs: 20_000 });
  t.equal(received().length, all.length + 4);
  t.ok(received() === `${all.toString('latin1')}last`, 'the bytes are those that were written');
  await until('the other to have all', () => otherReceived().length === otherExpected.length);
  t.equal(otherReceived(), otherExpected);
});

t.test('what the system does not take leaves once, where the stream is corked meanwhile', async (t) => {
  const [near, far] = await connection(t);
  far.pause();
  const outlet = outletOf(near);
  // Nothing waits in the stream until the system is full: each text is met by a cork, and one of them is not taken.
  let sent = '';
  for (let round = 0; near.writableLength === 0; round++) {
    const text = `${round} `.padEnd(15_000, 'x');
    outlet.text(text);
    near.cork();
    near.write('corked');
    near.uncork();
    sent += `${text}corked`;
  }
  near.end();
  const received = receivedBy(far);
  far.resume();
  await until('the end', () => far.readableEnded, { timeoutMs: 20_000 });
  t.equal(received().length, sent.length);
  t.ok(received() === sent, 'each byte once, in order');
});

// What the system is given is kept for as long as its peer has not taken it.
t.test('a slow peer keeps no more than room for the longest that is copied, and of few bytes only these', async (t) => {
  for (const [size, most] of [
    [1, 0],
    [1024, 0],
    [1025, 96 * 1024],
    [16_000, 96 * 1024],
    [64 * 1024, 96 * 1024],
  ] as const) {
    const [near, far] = await connection(t);
    const { _handle: handle } = near as unknown as { _handle: { writeBuffer(request: object, bytes: Buffer): number } };
    const { writeBuffer } = handle;
    let kept = 0;
    handle.writeBuffer = (request, bytes) => {
      kept = Math.max(kept, bytes.buffer.byteLength);
      return writeBuffer.call(handle, request, bytes);
    };
    const received = receivedBy(far);
    outletOf(near).copy('', Buffer.alloc(size), size);
    await endOfTurn();
    await until('all to arrive', () => received().length === size);
    t.ok(kept <= most, `${size}: ${kept} bytes`);
  }
});
