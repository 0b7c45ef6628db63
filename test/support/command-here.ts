import { PassThrough } from 'node:stream';
import type { Io } from '../../bin/arguments.ts';
import type { Environment } from './sallyport.ts';

export interface Printed {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command in this process: what takes a program's start a hundred times is then over in one. */
export async function commandHere(main: (io: Io) => Promise<number>, env: Environment = {}): Promise<Printed> {
  const streams = { stdin: new PassThrough(), stdout: new PassThrough(), stderr: new PassThrough() };
  const texts = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    streams[name].on('data', (chunk) => {
      texts[name] += chunk;
    });
  }
  const code = await main({ env, ...streams } as unknown as Io);
  return { code, ...texts };
}
