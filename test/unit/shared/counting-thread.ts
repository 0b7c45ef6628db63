/** A worker that opens and closes connections as fast as it can, for counts.test.ts. */
import { workerData } from 'node:worker_threads';
import { SharedCount } from '../../../lib/shared/counts.ts';
import { SharedSources, type SourceMemory } from '../../../lib/shared/sources.ts';

export interface Counting {
  readonly worker: number;
  readonly count: SharedArrayBuffer;
  readonly sources: SourceMemory;
  readonly askers: readonly number[];
  readonly rounds: number;
  readonly most: number;
  /** Let in now, over all threads, and the most that ever were. */
  readonly admitted: Int32Array;
  /** The same of each source. */
  readonly bySource: Int32Array;
}

const { worker, count, sources, askers, rounds, most, admitted, bySource } = workerData as Counting;

const connections = new SharedCount(count, worker);
const table = new SharedSources(sources, worker);
const known = askers.map((asker) => table.of(asker));
const open: number[] = [];
let state = worker + 1;

/** A linear congruential generator: each thread takes another way, the same each time. */
function below(bound: number): number {
  state = (Math.imul(state, 1664525) + 1013904223) | 0;
  return (state >>> 8) % bound;
}

/** Counts one more, or less, in a pair of words: how many, and the most so far. */
function track(pairs: Int32Array, pair: number, by: number): void {
  const value = Atomics.add(pairs, pair * 2, by) + by;
  for (let most = Atomics.load(pairs, pair * 2 + 1); value > most; most = Atomics.load(pairs, pair * 2 + 1)) {
    if (Atomics.compareExchange(pairs, pair * 2 + 1, most, value) === most) return;
  }
}

for (let i = 0; i < rounds; i++) {
  const at = below(known.length);
  const source = known[at];
  if (source === undefined) continue;
  if (open.length > 0 && below(2) === 0) {
    const closed = open.splice(below(open.length), 1)[0] ?? 0;
    track(admitted, 0, -1);
    track(bySource, closed, -1);
    known[closed]?.remove();
    connections.remove();
    continue;
  }
  source.add();
  connections.add();
  if (connections.total > most || source.open > most / 4) {
    connections.remove();
    source.remove();
    continue;
  }
  open.push(at);
  track(admitted, 0, 1);
  track(bySource, at, 1);
}
