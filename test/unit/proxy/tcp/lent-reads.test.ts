import { Writable } from 'node:stream';
import t from 'tap';
import { LentReads } from '../../../../lib/proxy/tcp/lent-reads.ts';
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
      const reads = new LentReads(client);
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
