import type { Socket } from 'node:net';
import t from 'tap';
import { Intake, type Reader } from '../../../../../lib/proxy/http2/session/intake.ts';
import { Work } from '../../../../../lib/proxy/http2/session/work.ts';
import { noKeeper } from '../../../../../lib/proxy/kept.ts';
import { dataFrame, frame, type as frameType, preface } from '../../../../support/http2-frames.ts';
import { until } from '../../../../support/until.ts';

const whole = preface.toString('latin1');
const ping = (text: string): Buffer => frame(frameType.ping, 0, 0, Buffer.from(text.padEnd(8)));
const heading = (id: number, text: string): Buffer => frame(frameType.headers, 0, id, Buffer.from(text));

/** A reader without a socket, which writes down what it is told. */
class Stub implements Reader {
  readonly told: string[] = [];
  readonly output = { pending: 0, backlog: 0 };
  readonly work: Work;
  readonly queue = { pumpNewRoom: (): unknown => this.told.push('room') };
  readonly intake: Intake;
  over = false;
  isPaused = false;
  /** What each frame costs, in bytes looked at. */
  cost = 0;
  readonly socket = {
    pause: () => {
      this.isPaused = true;
    },
    resume: () => {
      this.isPaused = false;
    },
    isPaused: () => this.isPaused,
  } as unknown as Socket;
  readonly keeper = noKeeper;
  readonly frames = {
    isBetweenMessages: true,
    heldBytes: 0,
    frame: (type: number, _flags: number, id: number, bytes: Buffer, from: number, to: number): void => {
      this.told.push(`${type} ${id} ${bytes.toString('latin1', from, to)}`.trim());
      this.frames.isBetweenMessages = type !== frameType.headers;
      this.work.spend(this.cost);
      if (type === frameType.goaway) this.over = true;
    },
  };

  constructor(awaitsPreface: boolean, takesTurns = false) {
    this.work = new Work(takesTurns);
    this.intake = new Intake(this, { takesTurns, awaitsPreface, maxPendingBytes: 1000, maxBacklog: 10 });
  }

  noPreface(): void {
    this.told.push('no preface');
    this.over = true;
  }

  unreadable(): void {
    this.told.push('unreadable');
    this.over = true;
  }

  readsNothing(): void {
    this.told.push('reads nothing');
    this.over = true;
  }

  destroy(): void {
    this.told.push('fault');
  }

  /** The frames that came. */
  get framesTold(): readonly string[] {
    return this.told.filter((told) => told !== 'room');
  }
}

const prefaces: readonly (readonly [name: string, chunks: readonly string[], told: readonly string[]])[] = [
  ['at once', [whole], []],
  ['with what comes behind it', [`${whole}${ping('a').toString('latin1')}`], ['6 0 a']],
  ['and what comes later', [whole, ping('a').toString('latin1')], ['6 0 a']],
  ['byte by byte', [...whole, ping('a').toString('latin1')], ['6 0 a']],
  ['in two pieces', [whole.slice(0, 20), `${whole.slice(20)}${ping('a').toString('latin1')}`], ['6 0 a']],
  ['nothing', ['', whole, ping('a').toString('latin1')], ['6 0 a']],
  ['HTTP/1', ['GET / HTTP/1.1\r\n\r\n'], ['no preface']],
  ['another beginning', ['P', 'OST / HTTP/1.1\r\n\r\n'], ['no preface']],
  ['wrong in its last byte', [whole.slice(0, 23), '\r', whole], ['no preface']],
  ['without its second half', [`${whole.slice(0, 18)}\0\0\0\x04`], ['no preface']],
];

t.test("a client's preface is taken off what it sends", async (t) => {
  for (const [name, chunks, told] of prefaces) {
    const reader = new Stub(true);
    for (const chunk of chunks) reader.intake.receive(Buffer.from(chunk, 'latin1'));
    t.same(reader.framesTold, told, name);
  }
});

const several = Buffer.concat([ping('one'), dataFrame(1, 'two'), dataFrame(1, ''), ping('three')]);
const told = ['6 0 one', '0 1 two', '0 1', '6 0 three'];

t.test('frames are cut out of whatever pieces they come in', async (t) => {
  for (let size = 1; size <= several.length; size++) {
    const reader = new Stub(false);
    for (let at = 0; at < several.length; at += size) {
      // Only lent.
      const chunk = Buffer.from(several.subarray(at, at + size));
      reader.intake.receive(chunk);
      chunk.fill(0xff);
    }
    t.same(reader.framesTold, told, `pieces of ${size}`);
  }
});

const tooLarge = Buffer.from([0, 0x40, 1, 0, 0, 0, 0, 0, 1]);

t.test('nothing is read behind a frame that is too large, or behind the end', async (t) => {
  for (const [name, chunks, expected] of [
    ['too large', [tooLarge, ping('a')], ['unreadable']],
    ['too large, in pieces', [tooLarge.subarray(0, 4), tooLarge.subarray(4), ping('a')], ['unreadable']],
    ['too large behind another', [Buffer.concat([ping('a'), tooLarge])], ['6 0 a', 'unreadable']],
    ['the largest', [frame(frameType.data, 0, 1, Buffer.alloc(16_384, ' '))], ['0 1']],
    ['the end', [Buffer.concat([frame(frameType.goaway, 0, 0), ping('a')]), ping('b')], ['7 0']],
  ] as const) {
    const reader = new Stub(false);
    for (const chunk of chunks) reader.intake.receive(chunk);
    t.same(reader.framesTold, expected, name);
  }
});

t.test('what is incomplete has a beginning', async (t) => {
  const { intake } = new Stub(true);
  t.ok(Number(intake.incompleteSince) <= performance.now(), 'the connection');
  for (const [name, bytes, isIncomplete] of [
    ['the preface, behind which something must come', preface, true],
    ['a frame', ping('a'), false],
    ['half a frame', ping('a').subarray(0, 10), true],
    ['its rest', ping('a').subarray(10), false],
    ['content in pieces, which may take its time', dataFrame(1, 'hello').subarray(0, 12), false],
    ['its rest', dataFrame(1, 'hello').subarray(12), false],
    ['a message', heading(1, 'half'), true],
    ['a message, and the next frame', Buffer.concat([ping('b'), heading(1, 'half')]), true],
    ['its end', dataFrame(1, ''), false],
  ] as const) {
    intake.receive(bytes);
    t.equal(intake.incompleteSince !== null, isIncomplete, name);
  }
  intake.receive(heading(1, 'half'));
  const began = Number(intake.incompleteSince);
  await until('a later moment', () => performance.now() > began + 2);
  intake.receive(ping('c').subarray(0, 5));
  t.equal(intake.incompleteSince, began, 'more of it does not put it off');
  intake.receive(Buffer.concat([ping('c').subarray(5), heading(3, 'half')]));
  t.ok(Number(intake.incompleteSince) > began, 'of one behind another');
});

t.test('long work waits for the next turn, in its order, and nothing is read meanwhile', async (t) => {
  const reader = new Stub(false, true);
  reader.cost = 20_000;
  const pings = Array.from({ length: 10 }, (_, i) => ping(String(i)));
  reader.intake.receive(Buffer.concat(pings.slice(0, 8)));
  const atOnce = reader.framesTold.length;
  t.ok(atOnce >= 1 && atOnce <= 3, `${atOnce} at once`);
  t.ok(reader.isPaused);
  for (const one of pings.slice(8)) reader.intake.receive(one);
  t.equal(reader.framesTold.length, atOnce, 'what comes later waits behind');
  reader.intake.resume();
  t.ok(reader.isPaused, 'that it has read what it was sent does not change that');
  await until('all of them', () => reader.framesTold.length === 10);
  t.same(
    reader.framesTold,
    pings.map((_, i) => `6 0 ${i}`),
  );
  t.notOk(reader.isPaused);
});

t.test('cheap frames, and those of the app, have no turns', async (t) => {
  for (const [name, takesTurns, cost] of [
    ['cheap', true, 0],
    ["the app's", false, 1_000_000],
  ] as const) {
    const reader = new Stub(false, takesTurns);
    reader.cost = cost;
    reader.intake.receive(several);
    t.same(reader.framesTold, told, name);
    t.notOk(reader.isPaused, name);
  }
});

t.test('who moves much stops for the others, and goes on in its next turn', async (t) => {
  const content = dataFrame(1, 'x'.repeat(16_000));
  for (const [name, takesTurns, chunk] of [
    ['content', true, Buffer.concat([content, content, content])],
    ['content in records of TLS', true, content],
    ["the app's", false, Buffer.concat([content, content, content])],
  ] as const) {
    const reader = new Stub(false, takesTurns);
    if (name.includes('TLS')) Object.assign(reader.socket, { encrypted: true });
    reader.frames.frame = () => {};
    const intake = new Intake(reader, { takesTurns, awaitsPreface: false, maxPendingBytes: 1000, maxBacklog: 10 });
    let bytes = 0;
    for (; bytes < 2 ** 28 && !reader.isPaused; bytes += chunk.length) intake.receive(chunk);
    t.equal(reader.isPaused, takesTurns, `${name}: ${bytes} bytes at once`);
    intake.resume();
    t.equal(reader.isPaused, takesTurns, 'that it has read what it was sent does not change that');
    await until('its next turn', () => !reader.isPaused);
  }
});

t.test('a peer that does not read is not read', async (t) => {
  const reader = new Stub(false);
  reader.output.pending = 1000;
  reader.intake.receive(ping('a'));
  t.notOk(reader.isPaused, 'as much may wait');
  reader.output.pending = 1001;
  reader.intake.receive(ping('b'));
  t.ok(reader.isPaused);
  reader.intake.resume();
  t.notOk(reader.isPaused);
});

t.test('room is used after all that came at once', async (t) => {
  const reader = new Stub(false);
  reader.intake.receive(several);
  t.same(reader.told, [...told, 'room']);
});
