import { ProgramFailed, type Workbench } from '../workbench.ts';
import { WrongAnswers } from './load.ts';

/** The exit status of our own load programs when an answer was wrong. */
export const wrongAnswersExit = 2;

/** Runs one of them, in a process of its own; yields what it printed. @throws WrongAnswers, or when it fails itself. */
export async function runOwnLoad(bench: Workbench, args: readonly string[], timeoutMs: number): Promise<string> {
  try {
    const { stdout } = await bench.run('load', { command: process.execPath, args }, timeoutMs);
    return stdout;
  } catch (error) {
    if (error instanceof ProgramFailed && error.exitCode === wrongAnswersExit) throw new WrongAnswers(error.message);
    throw error;
  }
}
