/** A thread that asks for tokens, for buckets.test.ts: in each round, at the round's time, until all it asks for is refused. */
import { parentPort, workerData } from 'node:worker_threads';
import type { RateLimit } from '../../../lib/policy/decide/policy-index.ts';
import { RateLimiter } from '../../../lib/policy/decide/rate-limit.ts';
import { type BucketMemory, SharedBucketStore } from '../../../lib/shared/buckets.ts';

export interface Round {
  readonly nowMs: number;
  readonly clients: readonly (string | null)[];
}

interface Given {
  readonly memory: BucketMemory;
  readonly limits: readonly RateLimit[];
  /** Threads that have come to the barrier, over all rounds; admitted by round. */
  readonly arrived: Int32Array;
  readonly admitted: Int32Array;
  readonly threads: number;
  readonly rounds: readonly Round[];
}

const { memory, limits, arrived, admitted, threads, rounds } = workerData as Given;

let nowMs = 0;
const limiter = new RateLimiter(() => nowMs, new SharedBucketStore(memory));

/** Nobody asks at the next time before all have had what there was at this one. */
function barrier(number: number): void {
  const wanted = threads * number;
  if (Atomics.add(arrived, 0, 1) + 1 === wanted) Atomics.notify(arrived, 0);
  for (let seen = Atomics.load(arrived, 0); seen < wanted; seen = Atomics.load(arrived, 0)) {
    Atomics.wait(arrived, 0, seen);
  }
}

barrier(1);
rounds.forEach((round, index) => {
  nowMs = round.nowMs;
  for (let more = true; more; ) {
    more = false;
    for (const limit of limits) {
      for (const client of round.clients) {
        if (limiter.take(limit, client) !== null) continue;
        Atomics.add(admitted, index, 1);
        more = true;
      }
    }
  }
  barrier(index + 2);
});
parentPort?.postMessage('done');
