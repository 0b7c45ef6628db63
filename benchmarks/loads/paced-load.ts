import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { percentile } from '../statistics.ts';
import { graceMs, type LoadResult, type Target } from './load.ts';
import { runOwnLoad } from './own-load.ts';

export interface PacedOptions {
  readonly connections: number;
  /** Requests per second over all connections. */
  readonly rate: number;
}

/** Request by request, in the order in which they were due. */
export interface PacedRun {
  /** Milliseconds since the epoch. */
  readonly dueMs: Float64Array;
  /** From when it was due to the last byte of its answer. */
  readonly tookMicros: Float64Array;
}

const main = fileURLToPath(new URL('./paced-load-main.ts', import.meta.url));

/**
 * Answers per second where each connection asks again as soon as it is answered: what the proxy reaches with this very load and
 * app, whichever of the three has no more to give. @throws WrongAnswers, or when it fails itself.
 */
export async function saturation({ bench, port, host, seconds }: Target, connections: number): Promise<number> {
  const args = [main, ...[port, 0, seconds, connections].map(String), host, join(bench.folder, 'paced-load.log')];
  return Number(await runOwnLoad(bench, args, seconds * 1000 + graceMs));
}

/** HTTP/1.1 at a rate of ours, not of the proxy's: see paced-load-main.ts. @throws WrongAnswers, or when it fails itself. */
export async function runPaced(
  { connections, rate }: PacedOptions,
  { bench, port, host, seconds }: Target,
): Promise<PacedRun> {
  const file = join(bench.folder, 'paced-load.log');
  await runOwnLoad(
    bench,
    [main, ...[port, rate, seconds, connections].map(String), host, file],
    seconds * 1000 + graceMs,
  );
  const { buffer, byteOffset, length } = readFileSync(file);
  const columns = new Float64Array(buffer.slice(byteOffset, byteOffset + length));
  return { dueMs: columns.subarray(0, columns.length / 2), tookMicros: columns.subarray(columns.length / 2) };
}

/** @param rate requests per second. */
export async function pacedLoad(target: Target, connections: number, rate: number): Promise<LoadResult> {
  const { dueMs, tookMicros } = await runPaced({ connections, rate }, target);
  // A proxy that cannot keep up answers the last of them long after it was due.
  const lastMs = dueMs.reduce((last, due, i) => Math.max(last, due + (tookMicros[i] as number) / 1000), 0);
  const seconds = (lastMs - (dueMs[0] as number)) / 1000;
  tookMicros.sort();
  return {
    units: tookMicros.length,
    seconds,
    p50Micros: percentile(tookMicros, 0.5),
    p99Micros: percentile(tookMicros, 0.99),
  };
}

/** Requests per second; finding it takes twice the seconds of the target. */
export async function highestRate(target: Target, connections: number): Promise<number> {
  // The first time warms it up.
  await saturation(target, connections);
  return saturation(target, connections);
}
