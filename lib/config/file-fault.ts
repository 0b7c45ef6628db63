import { existsSync, readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { nearestName } from '../policy/nearest.ts';
import { notRegular, tooLarge } from '../regular-file.ts';

/** Why a file was not read or written, and what to do about it. Both for people; `remedy` is a sentence. */
export interface FileFault {
  readonly why: string;
  readonly remedy: string;
}

const known: ReadonlyMap<string, FileFault> = new Map([
  ['EACCES', { why: 'permission denied', remedy: 'Let the user that runs Sallyport read it.' }],
  ['EPERM', { why: 'permission denied', remedy: 'Let the user that runs Sallyport read it.' }],
  ['EISDIR', { why: 'is a folder', remedy: 'Name a file in it.' }],
  ['ENOTDIR', { why: 'a part of the path is a file, not a folder', remedy: 'Correct the path.' }],
  ['ELOOP', { why: 'symbolic links lead in a circle', remedy: 'Repair the link.' }],
  ['EROFS', { why: 'the file system is read-only', remedy: 'Choose a place that can be written.' }],
  ['ENOSPC', { why: 'no space left', remedy: 'Make room there.' }],
  ['EEXIST', { why: 'something else is there already', remedy: 'Choose another place.' }],
  ['EIO', { why: 'the disk reports an error', remedy: 'See the log of the system.' }],
  ['EMFILE', { why: 'this process has no file descriptor left', remedy: 'Raise its limit (ulimit -n).' }],
  ['ENFILE', { why: 'the machine has no file descriptor left', remedy: 'Raise its limit (fs.file-max).' }],
  ['ERR_ENCODING_INVALID_ENCODED_DATA', { why: 'is not UTF-8 text', remedy: 'Save the file as UTF-8.' }],
  [
    notRegular,
    {
      why: 'is no regular file but a pipe, a socket or a device',
      remedy: 'Name a regular file; commands take - for standard input.',
    },
  ],
  [tooLarge, { why: 'is too large', remedy: 'Name the file that was meant.' }],
]);

/**
 * The one reading of what the system, or a decoder, says when a file cannot be read or written. `unknown` is the remedy for a
 * path that leads nowhere near anything.
 */
export function fileFault(
  path: string,
  error: unknown,
  unknown = 'Check the path; a ConfigMap volume must be mounted before the start.',
): FileFault {
  const { code = '', message = String(error) } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT') return { why: 'no such file or folder', remedy: missingRemedy(path, unknown) };
  // What open(2) says of a socket.
  return known.get(code === 'ENXIO' ? notRegular : code) ?? { why: code === '' ? message : code, remedy: '' };
}

/** Of a path that leads nowhere: the one that was probably meant, or the first part of it that is not there. */
function missingRemedy(path: string, unknown: string): string {
  const near = nearPath(path);
  if (near !== undefined) return `Did you mean "${near}"?`;
  const gone = firstMissing(path);
  const where = gone === path ? '' : `There is no "${gone}". `;
  return where + unknown;
}

/** The first part of a path that is not there, from the left; the path itself where all above it is. */
function firstMissing(path: string): string {
  const parent = dirname(path);
  return parent === path || existsSync(parent) ? path : firstMissing(parent);
}

/** What is there under nearly that path: `policy/web.yaml` for `polcy/web.yml`. */
function nearPath(path: string): string | undefined {
  const names: string[] = [];
  let there = path;
  while (!existsSync(there)) {
    const parent = dirname(there);
    if (parent === there) return undefined;
    names.unshift(basename(there));
    there = parent;
  }
  try {
    for (const name of names) {
      const held = readdirSync(there);
      const near = held.includes(name) ? name : nearestName(name, held);
      if (near === undefined) return undefined;
      there = join(there, near);
    }
  } catch {
    // A folder that may not be listed, or no folder: there is nothing to suggest.
    return undefined;
  }
  return names.length === 0 ? undefined : there;
}
