import { PassThrough } from 'node:stream';
import t from 'tap';
import { type Peek, type Peeked, peek, putBack } from '../../../../lib/proxy/detect/peek.ts';
import { longRead, turn } from '../../../../lib/proxy/fairness/turn.ts';
import type { FirstReader } from '../../../../lib/proxy/incoming.ts';
import { until } from '../../../support/until.ts';

const nothing = Buffer.alloc(0);
const untilX = (bytes: Buffer): string | undefined => (bytes.includes('x') ? bytes.toString() : undefined);

/** Looks for an x; the answer when it comes. */
function looked(stream: PassThrough, before = nothing, timeoutMs = 60_000): Promise<Peek<string>> {
  return new Promise((resolve) => peek({ socket: stream }, before, timeoutMs, untilX, resolve));
}

t.test('what ends a look', async (t) => {
  // As the sockets do that are looked at elsewhere: a deadline alone keeps no process alive.
  const alive = setInterval(() => {}, 1000);
  t.teardown(() => clearInterval(alive));
  const rows: readonly (readonly [
    name: string,
    before: string,
    chunks: readonly string[],
    ends: boolean,
    kind: string,
    bytes: string,
  ])[] = [
    ['enough before', 'ax', [], false, 'seen', 'ax'],
    ['enough at once', '', ['abxc'], false, 'seen', 'abxc'],
    ['enough in the end', '', ['a', 'b', 'xc'], false, 'seen', 'abxc'],
    ['some before, the rest later', 'a', ['b', 'x'], false, 'seen', 'abx'],
    ['never enough', 'a', ['b'], true, 'ended', 'ab'],
    ['nothing', '', [], true, 'ended', ''],
  ];
  for (const [name, before, chunks, ends, kind, bytes] of rows) {
    const stream = new PassThrough();
    const result = looked(stream, Buffer.from(before));
    for (const chunk of chunks) {
      stream.write(chunk);
      await new Promise((resolve) => setImmediate(resolve));
    }
    if (ends) stream.end();
    t.match(await result, { kind, bytes: Buffer.from(bytes) }, name);
    for (const event of ['data', 'end', 'close']) t.equal(stream.listenerCount(event) <= 1, true, `${name}: ${event}`);
    stream.destroy();
  }
  const silent = new PassThrough();
  silent.write('ab');
  const began = performance.now();
  t.match(await looked(silent, nothing, 30), { kind: 'timeout', bytes: Buffer.from('ab') }, 'too slow');
  t.ok(performance.now() - began >= 30, 'never early');
  const broken = new PassThrough();
  const result = looked(broken);
  broken.destroy();
  t.match(await result, { kind: 'ended', bytes: nothing }, 'reset');
});

t.test('the first bytes may be told without a stream, and often are enough', async (t) => {
  const long = 'a'.repeat(longRead);
  const rows: readonly (readonly [
    name: string,
    before: string,
    tell: (reader: FirstReader, stream: PassThrough) => void,
    kind: string,
    bytes: string,
    streams: number,
  ])[] = [
    ['enough', '', (reader) => reader.came(Buffer.from('ax')), 'seen', 'ax', 0],
    ['nothing, ever', '', (reader) => reader.ended(), 'ended', '', 0],
    ['nothing in time', '', () => {}, 'timeout', '', 0],
    [
      'too little',
      '',
      (reader, stream) => {
        reader.came(Buffer.from('a'));
        stream.write('x');
      },
      'seen',
      'ax',
      1,
    ],
    ['too little, and the end', '', (reader, stream) => stream.end(reader.came(Buffer.from('a'))), 'ended', 'a', 1],
    ['long', '', (reader) => reader.came(Buffer.from(`${long}x`)), 'seen', `${long}x`, 1],
    [
      'a stream before they came',
      '',
      (reader, stream) => {
        reader.streamed();
        stream.write('ax');
      },
      'seen',
      'ax',
      1,
    ],
    ['bytes that were not enough', 'a', (_, stream) => stream.write('x'), 'seen', 'ax', 1],
  ];
  const alive = setInterval(() => {}, 1000);
  t.teardown(() => clearInterval(alive));
  for (const [name, before, tell, kind, bytes, streams] of rows) {
    const stream = new PassThrough();
    const asked: string[] = [];
    let reader: FirstReader | null = null;
    const peeked: Peeked = {
      get socket() {
        asked.push('stream');
        return stream;
      },
      awaitFirst(given) {
        reader = given;
        return true;
      },
      forgetFirst: () => void asked.push('forgotten'),
    };
    const result = new Promise((resolve) => peek(peeked, Buffer.from(before), 30, untilX, resolve));
    if (before === '') t.not(reader, null, name);
    tell(reader ?? { came() {}, ended() {}, streamed() {} }, stream);
    t.match(await result, { kind, bytes: Buffer.from(bytes) }, name);
    t.same(asked, [...Array(streams).fill('stream'), 'forgotten'], name);
    stream.destroy();
  }
});

t.test('one after the other becomes due', async (t) => {
  const alive = setInterval(() => {}, 1000);
  t.teardown(() => clearInterval(alive));
  const waits: number[] = [];
  const silent = async (): Promise<void> => {
    const began = performance.now();
    t.equal((await looked(new PassThrough(), nothing, 50)).kind, 'timeout');
    waits.push(performance.now() - began);
  };
  const first = silent();
  const met = new PassThrough();
  const seen = looked(met, nothing, 50);
  await new Promise((resolve) => setTimeout(resolve, 20));
  const last = silent();
  met.write('x');
  t.equal((await seen).kind, 'seen', 'a deadline that is met is forgotten');
  await Promise.all([first, last]);
  t.ok(
    waits.every((wait) => wait >= 50),
    'each has its own whole time',
  );
  await silent();
  t.equal(waits.length, 3, 'and the next one, after a pause, too');
});

/** Keeps this turn of the event loop busy. */
function work(ms: number): void {
  const began = performance.now();
  while (performance.now() - began < ms);
}

t.test('it ends once, though its deadline comes while what was long still waits for its turn', async (t) => {
  const alive = setInterval(() => {}, 1000);
  t.teardown(() => clearInterval(alive));
  for (const [name, last, kind] of [
    ['it was enough', 'x', 'seen'],
    ['it was not', 'a', 'timeout'],
  ] as const) {
    const stream = new PassThrough();
    const ends: string[] = [];
    const began = performance.now();
    peek({ socket: stream }, nothing, 40, untilX, (end) => void ends.push(end.kind));
    await new Promise((resolve) => setTimeout(resolve, 5));
    // The rest of this turn is another's, and so is all of the next one, which begins behind the deadline.
    turn.mayWork();
    work(3);
    turn.later(() => work(50 - (performance.now() - began)));
    turn.later(() => work(3));
    const after = Promise.withResolvers<void>();
    stream.write('a'.repeat(longRead) + last);
    await new Promise((resolve) => setImmediate(resolve));
    turn.later(after.resolve);
    await after.promise;
    await until('its end', () => ends.length > 0);
    await new Promise((resolve) => setImmediate(resolve));
    t.same(ends, [kind], name);
    stream.destroy();
  }
});

t.test('the end behind what is long is for whoever reads next, though that waited for its turn', async (t) => {
  for (const before of ['', 'a']) {
    const stream = new PassThrough();
    const text = 'a'.repeat(longRead - 1);
    const ended = Promise.withResolvers<Peek<string>>();
    peek({ socket: stream }, nothing, 60_000, untilX, (end) => {
      putBack(stream, end.bytes);
      ended.resolve(end);
    });
    if (before !== '') stream.write(before);
    await new Promise((resolve) => setImmediate(resolve));
    // Somebody else has had this turn.
    turn.mayWork();
    work(3);
    turn.later(() => work(3));
    stream.end(`${text}x`);
    // As a socket does at its end, paused or not.
    process.nextTick(() => stream.read(0));
    const { kind, bytes } = await ended.promise;
    t.equal(kind, 'seen');
    t.equal(bytes.toString(), `${before}${text}x`);
    t.notOk(stream.readableEnded, 'not yet');
    const read: Buffer[] = [];
    for await (const chunk of stream) read.push(chunk as Buffer);
    t.equal(Buffer.concat(read).toString(), `${before}${text}x`);
  }
});

t.test('one that has ended before ends the look at once', async (t) => {
  const stream = new PassThrough();
  stream.end();
  stream.resume();
  await new Promise((resolve) => stream.once('end', resolve));
  t.match(await looked(stream), { kind: 'ended', bytes: nothing });
  stream.destroy();
  await new Promise((resolve) => setImmediate(resolve));
  t.match(await looked(stream), { kind: 'ended', bytes: nothing }, 'and closed');
});

t.test('what is put back is read first', async (t) => {
  const stream = new PassThrough();
  stream.write('ax');
  const { bytes } = await new Promise<Peek<string>>((resolve) =>
    peek({ socket: stream }, nothing, 60_000, untilX, (result) => {
      putBack(stream, result.bytes);
      resolve(result);
    }),
  );
  t.equal(bytes.toString(), 'ax');
  stream.end('yz');
  await new Promise((resolve) => setImmediate(resolve));
  const read: Buffer[] = [];
  for await (const chunk of stream) read.push(chunk as Buffer);
  t.equal(Buffer.concat(read).toString(), 'axyz');
});
