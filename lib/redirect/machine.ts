import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

export interface Finished {
  /** Null: it could not be started, or did not end in time. */
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The machine, as far as rules concern it; replaced in tests. */
export interface Machine {
  run(command: string, args: readonly string[], input: string): Finished;
  read(path: string): FileRead;
}

/** A file that is not there is an answer of the kernel's; one that cannot be read is none. */
export type FileRead =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'absent' }
  | { readonly kind: 'failed'; readonly reason: string };

/** Longer than a restore waits for another user of the lock. */
const longestRunMs = 30_000;

/** An init container's PATH may leave out the folders where these programs live. */
const systemFolders = '/usr/local/sbin:/usr/sbin:/sbin';

export const thisMachine: Machine = {
  run: (command, args, input) => {
    const { status, stdout, stderr, error } = spawnSync(command, args, {
      input,
      encoding: 'utf8',
      timeout: longestRunMs,
      env: { ...process.env, PATH: `${process.env.PATH ?? '/usr/bin:/bin'}:${systemFolders}` },
    });
    if (error === undefined) return { status, stdout, stderr };
    const missing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    return { status: null, stdout: '', stderr: missing ? 'is not installed' : error.message };
  },
  read: (path) => {
    try {
      return { kind: 'text', text: readFileSync(path, 'utf8') };
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      return code === 'ENOENT' ? { kind: 'absent' } : { kind: 'failed', reason: code ?? message };
    }
  },
};
