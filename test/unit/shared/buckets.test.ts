import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import { PlainStore } from '../../../lib/policy/decide/buckets.ts';
import type { RateLimit } from '../../../lib/policy/decide/policy-index.ts';
import { RateLimiter } from '../../../lib/policy/decide/rate-limit.ts';
import { type BucketMemory, bucketMemory, SharedBucketStore } from '../../../lib/shared/buckets.ts';
import fc from '../../support/properties.ts';
import { within } from '../../support/until.ts';
import type { Round } from './taking-thread.ts';

function limit(over: Partial<RateLimit> & { key: string }): RateLimit {
  return { ref: { group: '', kind: '', name: over.key }, total: null, identity: null, overrides: new Map(), ...over };
}

const key = { hi: 0x1234567, lo: -42 };

/** What one thread admits that asks in the same rounds. */
function alone(limits: readonly RateLimit[], rounds: readonly Round[]): number[] {
  let nowMs = 0;
  const limiter = new RateLimiter(() => nowMs, new PlainStore());
  return rounds.map((round) => {
    nowMs = round.nowMs;
    let admitted = 0;
    for (let before = -1; before !== admitted; ) {
      before = admitted;
      for (const each of limits)
        for (const client of round.clients) if (limiter.take(each, client) === null) admitted++;
    }
    return admitted;
  });
}

async function together(memory: BucketMemory, limits: readonly RateLimit[], rounds: readonly Round[], threads: number) {
  const arrived = new Int32Array(new SharedArrayBuffer(4));
  const admitted = new Int32Array(new SharedArrayBuffer(4 * rounds.length));
  const workerData = { memory, limits, rounds, threads, arrived, admitted };
  const program = new URL('./taking-thread.ts', import.meta.url);
  const workers = Array.from({ length: threads }, () => new Worker(program, { workerData }));
  await within('the threads', 20_000, Promise.all(workers.map((worker) => once(worker, 'exit'))));
  return [...admitted];
}

const names = (from: number, count: number): string[] => Array.from({ length: count }, (_, i) => `id-${from + i}`);
const override = { entry: 0, rate: 7 };

t.test('several threads are admitted exactly what one is', async (t) => {
  const rows: readonly (readonly [string, RateLimit[], Round[], BucketMemory])[] = [
    [
      'a total',
      [limit({ key: 'a', total: 5000 })],
      [1000, 1000.5, 1001, 1500, 9000].map((nowMs) => ({ nowMs, clients: ['x', null] })),
      bucketMemory(key),
    ],
    [
      'three tokens a second, whose times are no whole numbers',
      [limit({ key: 'a', total: 3 })],
      Array.from({ length: 40 }, (_, i) => ({ nowMs: 1000 + i * 83.3, clients: [null] })),
      bucketMemory(key),
    ],
    [
      'identities, strangers and overrides of two limits',
      [
        limit({
          key: 'a',
          identity: 40,
          overrides: new Map([
            ['id-1', override],
            ['id-2', override],
          ]),
        }),
        limit({ key: 'b', identity: 30, overrides: new Map([['id-3', { entry: 0, rate: 100 }]]) }),
      ],
      [1000, 1100, 1101, 1900, 2500, 5000].map((nowMs) => ({ nowMs, clients: [...names(0, 12), null] })),
      bucketMemory(key),
    ],
    [
      'identities that come in crowds, and take the places of those before',
      [limit({ key: 'a', identity: 5 })],
      Array.from({ length: 120 }, (_, i) => ({ nowMs: 1000 + i * 1001, clients: names(i * 10, 20) })),
      bucketMemory(key, { named: 64, identities: 64 }),
    ],
  ];
  for (const [name, limits, rounds, memory] of rows) {
    t.same(await together(memory, limits, rounds, 4), alone(limits, rounds), name);
  }
});

t.test('one thread with shared buckets is admitted what it is with its own', async (t) => {
  const limits = [
    limit({ key: 'a', total: 8, identity: 3, overrides: new Map([['id-0', { entry: 0, rate: null }]]) }),
    limit({ key: 'b', identity: 2, overrides: new Map([['id-1', { entry: 0, rate: 9 }]]) }),
  ];
  const question = fc.record({
    limit: fc.constantFrom(...limits),
    client: fc.constantFrom(null, 'id-0', 'id-1', 'id-2', 'id-3'),
    waitMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 1500 }), fc.double({ min: 0, max: 400, noNaN: true })),
  });
  fc.assert(
    fc.property(fc.array(question, { maxLength: 80 }), (questions) => {
      let nowMs = 1;
      const plain = new RateLimiter(() => nowMs);
      const shared = new RateLimiter(
        () => nowMs,
        new SharedBucketStore(bucketMemory(key, { named: 64, identities: 64 })),
      );
      for (const { limit, client, waitMs } of questions) {
        nowMs += waitMs;
        if (plain.take(limit, client) !== shared.take(limit, client)) return false;
      }
      return true;
    }),
    { numRuns: 300 },
  );
  t.pass('in 300 sequences');
});

t.test('where there is no place, identities share a bucket and limits refuse', async (t) => {
  let nowMs = 1000;
  const memory = bucketMemory(key, { named: 4, identities: 32 });
  const limiter = new RateLimiter(() => nowMs, new SharedBucketStore(memory));
  const each = limit({ key: 'a', identity: 1 });
  const admitted = (ids: readonly string[]): number => ids.filter((id) => limiter.take(each, id) === null).length;
  t.equal(admitted(names(0, 500)), 33, 'one for each of 32 places, and one for all others');
  t.equal(admitted(names(0, 500)), 0);
  nowMs += 1001;
  t.equal(admitted(names(500, 32)), 32, 'a second later there is room again');
  t.equal(admitted(names(500, 32)), 0);

  nowMs += 1001;
  const limits = names(0, 5).map((name) => limit({ key: name, total: 2 }));
  const outcomes = limits.map((one) => limiter.take(one, null));
  t.same(outcomes, [null, null, null, null, 'total'], 'four have places; the fifth refuses');
  nowMs += 1001;
  t.equal(limiter.take(limits[4] as RateLimit, null), null, 'and is in force as soon as there is one');
});

t.test('a thread that is ended takes nothing along', async (t) => {
  const memory = bucketMemory(key, { named: 64, identities: 64 });
  const one = limit({ key: 'a', identity: 3 });
  for (let i = 0; i < 3; i++) {
    // No earlier than the one before: a clock never steps back.
    const rounds = Array.from({ length: 100_000 }, (_, round) => ({
      nowMs: 1e9 * (i + 1) + round * 1001,
      clients: names(round, 6),
    }));
    const arrived = new Int32Array(new SharedArrayBuffer(4));
    const admitted = new Int32Array(new SharedArrayBuffer(4 * rounds.length));
    const workerData = { memory, limits: [one], rounds, threads: 1, arrived, admitted };
    const worker = new Worker(new URL('./taking-thread.ts', import.meta.url), { workerData });
    while (Atomics.load(admitted, 100) === 0) await new Promise((resolve) => setImmediate(resolve));
    await worker.terminate();
  }
  // The worst of what one may leave behind: the lock, and slots that belong to nobody.
  for (const table of [memory.named, memory.identities]) {
    new Int32Array(table, 0, 1)[0] = 77;
    const times = new Float64Array(table, 16);
    for (let slot = 0; slot < 64; slot++) times[slot * 2] = -1;
  }
  const limiter = new RateLimiter(() => 1e10, new SharedBucketStore(memory));
  const outcomes = names(0, 8).map((id) => [1, 2, 3, 4].map(() => limiter.take(one, id)));
  t.same(outcomes, Array(8).fill([null, null, null, 'per-identity']));
});
