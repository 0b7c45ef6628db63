import {
  accessSync,
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fsyncSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileFault } from '../lib/config/file-fault.ts';
import { UsageError } from './arguments.ts';

/**
 * Puts `after` in place of `before`: all of it or nothing, with the mode and the owner of the file, and not where somebody
 * else has written to it since `before` was read.
 *
 * @throws UsageError
 */
export function replaceFile(path: string, before: string, after: string): void {
  let made: string | null = null;
  try {
    const target = realpathSync(path);
    // A folder that can be written would let a file be replaced that cannot.
    accessSync(target, constants.W_OK);
    const beside = join(dirname(target), `.${basename(target)}.${process.pid}`);
    const fd = openSync(beside, 'wx', 0o600);
    made = beside;
    try {
      writeLike(fd, target, after);
    } finally {
      closeSync(fd);
    }
    if (readFileSync(target, 'utf8') !== before) throw changedMeanwhile(path);
    renameSync(beside, target);
  } catch (error) {
    if (made !== null) rmSync(made, { force: true });
    if (error instanceof UsageError) throw error;
    const { why, remedy } = fileFault(path, error, 'Write it elsewhere: leave --in-place out.');
    throw new UsageError('not-written', `${path} cannot be replaced: ${why}`, remedy);
  }
}

function writeLike(fd: number, target: string, text: string): void {
  const { mode, uid, gid } = statSync(target);
  writeFileSync(fd, text);
  if (uid !== process.getuid?.() || gid !== process.getgid?.()) fchownSync(fd, uid, gid);
  fchmodSync(fd, mode & 0o7777);
  fsyncSync(fd);
}

function changedMeanwhile(path: string): UsageError {
  return new UsageError(
    'not-written',
    `${path} is not replaced: it was changed while the log was read`,
    'run it again',
  );
}
