import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { graceMs, type Target } from './load.ts';
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
