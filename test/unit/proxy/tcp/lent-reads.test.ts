import { createHash } from 'node:crypto';
import { once } from 'node:events';
import net from 'node:net';
import { Writable } from 'node:stream';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import { turn } from '../../../../lib/proxy/fairness/turn.ts';
import { noKeeper } from '../../../../lib/proxy/kept.ts';
import { carryGuarded } from '../../../../lib/proxy/tcp/guarded-opening.ts';
import { DataReader, LentReads } from '../../../../lib/proxy/tcp/lent-reads.ts';
import { tie, tieEnds } from '../../../../lib/proxy/tcp/tunnel-ends.ts';
import type { Teardown } from '../../../support/children.ts';
import { still } from '../../../support/lane-stage.ts';
import { until } from '../../../support/until.ts';

/** The same numbers in every run. */
function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

const patternAt = (at: number): number => (at * 31 + (at >> 8)) & 0xff;

/** A client: takes some writes at once and others later, and looks then whether the bytes are still what they were. */
class Client extends Writable {
  taken = 0;
  fault = '';
  late = 0;
  mostHeld = 0;
  readonly #isLate: () => boolean;

  constructor(isLate: () => boolean, highWaterMark: number) {
    super({ highWaterMark });
    this.#isLate = isLate;
  }

  #look(bytes: Buffer, from: number): void {
    for (let i = 0; i < bytes.length; i += 7) {
      if (bytes[i] !== patternAt(from + i)) this.fault ||= `byte ${from + i} is another`;
    }
  }

  override _write(bytes: Buffer, _encoding: string, done: () => void): void {
    const from = this.taken;
    this.taken += bytes.length;
    this.#look(bytes, from);
    if (!this.#isLate()) {
      done();
      return;
    }
    this.late++;
    setImmediate(() => {
      this.mostHeld = Math.max(this.mostHeld, this.writableLength);
      this.#look(bytes, from);
      done();
    });
  }
}

/** The app: each read is as long as the buffer, or shorter. */
class App {
  sent = 0;
  isPaused = false;
  readonly #reads: LentReads;
  readonly #length: (most: number) => number;
  readonly #total: number;

  constructor(reads: LentReads, total: number, length: (most: number) => number) {
    this.#reads = reads;
    this.#total = total;
    this.#length = length;
    reads.from(this);
  }

  /** A turn of the event loop reads a few times, as libuv does. */
  turn(): void {
    for (let i = 0; i < 8 && !this.isPaused && this.sent < this.#total; i++) {
      const buffer = this.#reads.buffer();
      const length = Math.min(this.#length(buffer.length), this.#total - this.sent);
      for (let at = 0; at < length; at++) buffer[at] = patternAt(this.sent + at);
      this.sent += length;
      if (!this.#reads.callback(length)) this.isPaused = true;
    }
    if (this.sent < this.#total) setImmediate(() => this.turn());
  }

  resume(): void {
    this.isPaused = false;
  }
}

const kib = 1024;
const rows: readonly (readonly [name: string, late: number, length: (most: number, random: () => number) => number])[] =
  [
    ['bulk, to a client that keeps up', 0, (most) => most],
    ['bulk, to one that is slow now and then', 0.2, (most) => most],
    ['bulk, to one that is slow', 1, (most) => most],
    ['reads of all lengths', 0.3, (most, random) => 1 + Math.floor(random() * most)],
    ['bulk and small ones in turns', 0.3, (most, random) => (random() < 0.5 ? most : 100)],
    ['just above and below the mark of the client', 0.5, (_, random) => 63 * kib + Math.floor(random() * 2 * kib)],
  ];

t.test('bytes that are lent stay as they are until the client has taken them', async (t) => {
  for (const [name, late, length] of rows) {
    for (const highWaterMark of [16 * kib, 64 * kib]) {
      const random = seededRandom(7);
      const client = new Client(() => random() < late, highWaterMark);
      const reads = new LentReads(client, noKeeper);
      const total = 12 * 1024 * kib;
      const app = new App(reads, total, (most) => length(most, random));
      app.turn();
      const what = `${name}, from ${highWaterMark} bytes`;
      await until(`${what}: all of it`, () => client.taken === total && client.writableLength === 0, {
        lastSeen: () => `${client.taken} bytes, ${app.isPaused ? 'paused' : 'reading'}`,
      });
      t.equal(client.fault, '', what);
      t.equal(client.late > 0, late > 0, `${what}: ${client.late} writes were late`);
      t.ok(client.mostHeld <= 4 * 128 * kib + 64 * kib, `${what}: ${client.mostHeld} bytes were held`);
    }
  }
});

/** Two ends of one connection over the loopback interface. */
async function connection(t: Teardown): Promise<readonly [dialled: net.Socket, accepted: net.Socket]> {
  const server = net.createServer({ allowHalfOpen: true });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as net.AddressInfo;
  const dialled = net.connect({ host: '127.0.0.1', port, allowHalfOpen: true });
  const [[accepted]] = (await Promise.all([once(server, 'connection'), once(dialled, 'connect')])) as [
    [net.Socket],
    [],
  ];
  server.close();
  t.teardown(() => {
    dialled.destroy();
    accepted.destroy();
  });
  return [dialled, accepted];
}

const uploads: readonly (readonly [name: string, pieces: readonly number[], isSlow: boolean])[] = [
  ['small messages', Array.from({ length: 500 }, (_, i) => 1 + (i % 70)), false],
  ['a large upload', Array.from({ length: 64 }, () => 128 * kib), false],
  ['a large upload to an app that reads now and then', Array.from({ length: 64 }, () => 128 * kib), true],
  ['large and small pieces', Array.from({ length: 200 }, (_, i) => (i % 3 === 0 ? 90 * kib : 10)), true],
];

t.test('an accepted socket lends what it reads from now on', async (t) => {
  for (const [name, pieces, isSlow] of uploads) {
    const [sender, client] = await connection(t);
    const [app, receiver] = await connection(t);
    client.on('data', (bytes: Buffer) => {
      t.ok(app.write(bytes), `${name}: the first are as ever`);
      t.ok(new DataReader(client, app, noKeeper).lend(), name);
    });
    client.once('end', () => app.end());
    let taken = 0;
    let wrong = -1;
    receiver.on('data', (bytes: Buffer) => {
      for (let i = 0; i < bytes.length && wrong === -1; i++) if (bytes[i] !== patternAt(taken + i)) wrong = taken + i;
      taken += bytes.length;
      if (!isSlow) return;
      receiver.pause();
      setTimeout(() => receiver.resume(), 1);
    });
    sender.write(Buffer.of(patternAt(0)));
    await until(`${name}: the first byte`, () => taken === 1);
    let sent = 1;
    for (const length of pieces) {
      const from = sent;
      sent += length;
      sender.write(Buffer.from(Array.from({ length }, (_, i) => patternAt(from + i))));
      if (length < kib) await new Promise((resolve) => setImmediate(resolve));
    }
    sender.end();
    await until(`${name}: all of it`, () => receiver.readableEnded, { lastSeen: () => `${taken} of ${sent} bytes` });
    t.equal(taken, sent, name);
    t.equal(wrong, -1, `${name}: the bytes are those that were sent`);
  }
});

t.test('it does not where something it has read would be overtaken, or nobody wants more', async (t) => {
  const [sender, client] = await connection(t);
  const [app] = await connection(t);
  client.pause();
  t.notOk(new DataReader(client, app, noKeeper).lend(), 'paused');
  client.read(0);
  sender.write('abc');
  await until('bytes that wait', () => client.readableLength === 3);
  client.resume();
  t.notOk(new DataReader(client, app, noKeeper).lend(), 'with bytes that wait');
  t.same(await once(client, 'data'), [Buffer.from('abc')]);
  t.ok(new DataReader(client, app, noKeeper).lend());
});

t.test(
  'a turn that was asked for before it lends does not make it read: its buffers may be on their way',
  async (t) => {
    const [, client] = await connection(t);
    const [app] = await connection(t);
    const reader = new DataReader(client, app, noKeeper);
    client.pause();
    reader.nextTurn();
    t.notOk(client.isPaused(), 'by data');
    client.on('data', () => {});
    t.ok(reader.lend());
    client.pause();
    reader.nextTurn();
    t.ok(client.isPaused(), 'lent');
  },
);

t.test('what waits for its turn does not go on before it, though there is room again', async (t) => {
  const { take } = turn;
  t.teardown(() => Object.assign(turn, { take }));
  Object.assign(turn, { take: () => false });
  const [sender, source] = await connection(t);
  const sink = new Client(() => true, 1);
  let drains = 0;
  sink.on('drain', () => drains++);
  const reader = new DataReader(source, sink, noKeeper);
  reader.passAll();
  const total = 4 * 1024 * kib;
  sender.end(Buffer.from(Array.from({ length: total }, (_, at) => patternAt(at))));
  const read = await still('what is read', () => sink.taken);
  t.ok(drains > 0, 'there is room');
  t.ok(read > 0 && read < total, `${read} bytes are read`);
  Object.assign(turn, { take });
  reader.nextTurn();
  await until('all of it', () => sink.taken === total, { lastSeen: () => `${sink.taken} bytes` });
  t.equal(sink.fault, '', 'as it was sent');
});

type Join = (client: net.Socket, app: net.Socket) => void;

const joins: readonly (readonly [title: string, join: Join, ways: readonly ('up' | 'down')[]])[] = [
  ['two that are tied', (client, app) => tie(client, app, noKeeper), ['up', 'down']],
  [
    'a tunnel of CONNECT',
    (client, app) => {
      tieEnds(client, app);
      carryGuarded(client, app, Buffer.from('SSH-2.0-x\r\n'), noKeeper, () => {});
    },
    ['up'],
  ],
];

t.test('what a tunnel carries has its turns, and arrives as it was past slow readers', async (t) => {
  const { take } = turn;
  t.teardown(() => Object.assign(turn, { take }));
  for (const [title, join, ways] of joins) {
    for (const way of ways) {
      const [far, client] = await connection(t);
      const [app, near] = await connection(t);
      const [sender, receiver] = way === 'up' ? [far, near] : [near, far];
      let counted = 0;
      const counting: typeof take = (bytes, reader) => {
        counted += bytes;
        return take.call(turn, bytes, reader);
      };
      Object.assign(turn, { take: counting });
      const total = 16 * 1024 * kib;
      const sent = Buffer.alloc(total, 'a tunnel has its turns');
      sender.end(sent);
      // So much is there when the first is read that the reads are large ones.
      await still('what the kernel takes', () => sender.writableLength);
      join(client, app);
      const early = way === 'up' && title !== 'two that are tied' ? 'SSH-2.0-x\r\n'.length : 0;
      const hash = createHash('sha256');
      let taken = 0;
      receiver.on('data', (bytes: Buffer) => {
        taken += bytes.length;
        hash.update(taken - bytes.length < early ? bytes.subarray(early) : bytes);
        receiver.pause();
        setImmediate(() => receiver.resume());
      });
      const what = `${title}, ${way}`;
      await until(`${what}: all of it`, () => receiver.readableEnded, { lastSeen: () => `${taken} bytes` });
      t.equal(taken, early + total, what);
      t.equal(hash.digest('hex'), createHash('sha256').update(sent).digest('hex'), `${what}: as it was sent`);
      t.ok(counted > 128 * kib, `${what}: ${counted} bytes were counted in turns`);
    }
  }
});

t.test('a tunnel that rests behind a large transfer keeps one buffer of it', async (t) => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  /** Once two looks agree: what earlier tests have left, and reads that are over, goes a collection later. */
  const held = (): Promise<number> => {
    let last = -1;
    return until('memory to settle', () => {
      collect();
      const before = last;
      last = process.memoryUsage().arrayBuffers;
      return last === before && last;
    });
  };
  const tunnels: { readonly far: net.Socket; readonly near: net.Socket }[] = [];
  let taken = 0;
  for (let i = 0; i < 20; i++) {
    const [far, client] = await connection(t);
    const [app, near] = await connection(t);
    near.on('data', (bytes: Buffer) => {
      taken += bytes.length;
    });
    tie(client, app, noKeeper);
    tunnels.push({ far, near });
    far.write('x');
  }
  await until('the first bytes', () => taken === tunnels.length);
  const before = await held();
  const sent = Buffer.alloc(64 * kib);
  let all = taken;
  for (let i = 0; i < 8; i++) {
    // Each is read as a whole, the last one, too.
    for (const { far } of tunnels) far.write(sent);
    all += tunnels.length * sent.length;
    await until('all of it', () => taken === all, { lastSeen: () => `${taken} of ${all} bytes` });
  }
  const each = ((await held()) - sent.length - before) / tunnels.length / kib;
  t.ok(each > 16 && each < 200, `${each} KiB`);
  for (const { far } of tunnels) far.write('once more');
  await until('what comes later', () => taken === all + tunnels.length * 'once more'.length);
});

t.test('buffers that a slow reader needed are let go once nothing moves', async (t) => {
  const [, source] = await connection(t);
  const { take } = turn;
  t.teardown(() => Object.assign(turn, { take }));
  Object.assign(turn, { take: () => true });
  const sink = new Client(() => true, 1024 * kib);
  const reads = new LentReads(sink, noKeeper);
  reads.from(source);
  let filled = 0;
  const buffers = new Set<Buffer>();
  const read = (length: number): boolean => {
    const into = reads.buffer();
    // The first goes where those of all do.
    if (into.length > 64 * kib) buffers.add(into);
    for (let i = 0; i < length; i++) into[i] = patternAt(filled + i);
    filled += length;
    return reads.callback(length);
  };
  const fill = async (): Promise<void> => {
    while (read(32 * kib));
    await until('all of it', () => sink.taken === filled && sink.writableLength === 0);
    t.equal(buffers.size, 4, 'as many as there may be');
  };
  await fill();
  t.notOk(reads.rests(), 'it has just read');
  t.ok(reads.rests(), 'nothing has moved since');
  t.equal(reads.buffer().length, 64 * kib, 'the next read goes where those of all do');
  buffers.clear();
  await fill();
  t.equal(sink.fault, '', 'no bytes were others meanwhile');
});
