import { fileURLToPath } from 'node:url';
import { ProgramFailed } from '../workbench.ts';
import { graceMs, type Load, type LoadResult, WrongAnswers } from './load.ts';

export interface SocketLoadOptions {
  readonly exchange: 'tcp' | 'websocket' | 'bulk';
  readonly connections: number;
}

/** The program's exit status when an answer was wrong. */
export const wrongAnswersExit = 2;

/** Messages over sockets of ours, in a process of its own: see socket-load-main.ts. */
export function socketLoad({ exchange, connections }: SocketLoadOptions): Load {
  const main = fileURLToPath(new URL('./socket-load-main.ts', import.meta.url));
  return async ({ bench, port, seconds }) => {
    const args = [main, exchange, String(port), String(connections), String(seconds)];
    try {
      const { stdout } = await bench.run('load', { command: process.execPath, args }, seconds * 1000 + graceMs);
      return JSON.parse(stdout) as LoadResult;
    } catch (error) {
      if (error instanceof ProgramFailed && error.exitCode === wrongAnswersExit) throw new WrongAnswers(error.message);
      throw error;
    }
  };
}
