/** What all workers have in common in memory: made by the main thread, and the same in every thread that is given it. */
import { randomBytes } from 'node:crypto';
import type { Config } from '../../config/config.ts';
import { now } from '../../moment.ts';
import type { BucketStore } from '../../policy/decide/buckets.ts';
import type { Count } from '../../proxy/fairness/count.ts';
import type { ConnectionCounts } from '../../proxy/fairness/live-connections.ts';
import { Sources } from '../../proxy/fairness/sources.ts';
import { type BucketMemory, bucketMemory, SharedBucketStore } from '../../shared/buckets.ts';
import { countMemory, forgetCount, SharedCount, SharedWanted } from '../../shared/counts.ts';
import type { Hash64 } from '../../shared/keyed-hash.ts';
import { type LineMemory, lineMemory, SharedLineGate } from '../../shared/line-gate.ts';
import { SharedSources, type SourceMemory, sourceMemory } from '../../shared/sources.ts';
import type { LineGate } from '../../telemetry/line-gate.ts';
import { LineRules } from '../../telemetry/line-rules.ts';

export interface SharedMemory {
  /** When the main thread's `performance.now()` was 0, on the clock of `process.hrtime`, which is one for all threads. */
  readonly originNs: bigint;
  readonly buckets: BucketMemory;
  readonly lines: LineMemory;
  readonly sources: SourceMemory;
  readonly connections: SharedArrayBuffer;
  readonly wanted: SharedArrayBuffer;
  readonly inFlight: SharedArrayBuffer;
  /** Null where there is no candidate policy. Apart from all else, so that it takes no place from what is in force. */
  readonly candidate: { readonly buckets: BucketMemory; readonly lastMs: SharedArrayBuffer } | null;
}

/** What one worker counts and decides with the others. */
export interface WorkerShare {
  /** Milliseconds, the same in all workers at the same moment. */
  readonly nowMs: () => number;
  readonly buckets: BucketStore;
  readonly gate: LineGate;
  readonly lineRules: LineRules;
  readonly counts: ConnectionCounts;
  readonly inFlight: Count;
  readonly candidate: CandidateShare | null;
}

/** What the candidate policy keeps: see `CandidateWatchOptions`. */
export interface CandidateShare {
  readonly buckets: BucketStore;
  readonly lastMs: Float64Array;
}

export function sharedMemory({
  workers,
  limits,
  candidatePath,
}: Pick<Config, 'workers' | 'limits' | 'candidatePath'>): SharedMemory {
  const key = randomKey();
  return {
    originNs: process.hrtime.bigint() - nanoseconds(performance.now()),
    buckets: bucketMemory(key),
    lines: lineMemory(key),
    sources: sourceMemory(key, workers, limits.maxConnections),
    connections: countMemory(workers),
    wanted: countMemory(workers),
    inFlight: countMemory(workers),
    candidate: candidatePath === null ? null : { buckets: bucketMemory(key), lastMs: new SharedArrayBuffer(8) },
  };
}

/** @param worker whose place it takes: what one before it has counted there is no more. */
export function joinShared(memory: SharedMemory, worker: number, { logLines }: Pick<Config, 'logLines'>): WorkerShare {
  const offsetMs = clockOffset(memory.originNs);
  const nowMs = (): number => now() + offsetMs;
  const sources = new SharedSources(memory.sources, worker);
  const lineRules = new LineRules(logLines);
  return {
    nowMs,
    buckets: new SharedBucketStore(memory.buckets),
    gate: new SharedLineGate(memory.lines, lineRules, nowMs),
    lineRules,
    counts: {
      connections: new SharedCount(memory.connections, worker),
      sources: new Sources((asker) => sources.of(asker)),
      wanted: new SharedWanted(memory.wanted, worker),
    },
    inFlight: new SharedCount(memory.inFlight, worker),
    candidate:
      memory.candidate === null
        ? null
        : {
            buckets: new SharedBucketStore(memory.candidate.buckets),
            lastMs: new Float64Array(memory.candidate.lastMs),
          },
  };
}

/** The worker is over, and with it all that it had open. */
export function leaveShared(memory: SharedMemory, worker: number): void {
  for (const count of [memory.connections, memory.wanted, memory.inFlight]) forgetCount(count, worker);
  new SharedSources(memory.sources, worker).forget(worker);
}

/** Between two readings the thread may be kept from the processor; the smallest difference is the one with the least between. */
function clockOffset(originNs: bigint): number {
  const once = (): number => {
    const now = performance.now();
    return Number(process.hrtime.bigint() - originNs) / 1e6 - now;
  };
  return Math.min(...Array.from({ length: 5 }, once));
}

function nanoseconds(milliseconds: number): bigint {
  return BigInt(Math.round(milliseconds * 1e6));
}

function randomKey(): Hash64 {
  const bytes = randomBytes(8);
  return { hi: bytes.readInt32LE(0), lo: bytes.readInt32LE(4) };
}
