import { readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Environment } from './sallyport.ts';
import { patience } from './until.ts';

const preload = fileURLToPath(new URL('./worker-faults-preload.mjs', import.meta.url));

/** What a thread can be made to do. `sockets` yields how many TCP connections it has, those of a rehearsal too. */
export type WorkerOrder = 'sockets' | 'exit' | 'throw' | 'exhaust' | 'hang';

/** For the environment of a proxy whose further workers are to take orders, through sockets in `folder`. */
export function workerFaults(folder: string): Environment {
  return { NODE_OPTIONS: `--import=${preload}`, WORKER_FAULTS: folder };
}

/** The threads that have been there so far, of one worker, in the order of their start. */
export function threadsOf(folder: string, worker: number): readonly string[] {
  return readdirSync(folder)
    .filter((name) => name.startsWith(`${worker}.`) && name.endsWith('.sock'))
    .sort()
    .map((name) => join(folder, name));
}

/** Resolves to its answer; null where the thread ends before it gives one. */
export function order(thread: string, what: WorkerOrder): Promise<string | null> {
  return new Promise((resolve) => {
    let answer = '';
    const socket = connect(thread, () => socket.write(`${what}\n`));
    socket.setTimeout(2_000 * patience(), () => socket.destroy());
    socket.on('data', (bytes) => {
      answer += bytes.toString();
      if (answer.endsWith('\n')) socket.destroy();
    });
    socket.on('error', () => undefined);
    socket.on('close', () => resolve(answer === '' ? null : answer.trim()));
  });
}
