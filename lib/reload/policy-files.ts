import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Problem } from '../problem.ts';

export interface PolicyText {
  readonly file: string;
  readonly text: string;
}

export interface PolicyTexts {
  readonly texts: readonly PolicyText[];
  /** An error here means that something named could not be read: what was found is not the whole policy. */
  readonly problems: readonly Problem[];
}

const policyFile = /\.(ya?ml|json)$/;

/**
 * The policy files that a path stands for: itself, or the *.yaml, *.yml and *.json of a folder in the order of their
 * names. Symbolic links are followed, since a ConfigMap volume consists of them; names that begin with a dot are not
 * listed, since its `..data` and `..2026_…` hold the same files again. Folders inside are not entered.
 */
export function readPolicyFiles(path: string): PolicyTexts {
  // The kubelet swaps a whole volume by moving one link. Files read on both sides of a swap would make a policy that
  // nobody ever wrote, so what was read around one is read again.
  for (let attempt = 1; ; attempt++) {
    const before = volumeGeneration(path);
    const found = readOnce(path);
    if (attempt === 5 || volumeGeneration(path) === before) return found;
  }
}

/** Milliseconds without a write after which a file that is written in place counts as complete. */
const settleMs = 100;

/** A file whose last write is within this many milliseconds of its creation was made in one go. */
const oneGoMs = 20;

/**
 * Milliseconds until what the path holds can be believed; 0 for now. Whoever writes a file in place empties it first, and
 * an empty policy, or the first half of one, may be perfectly good YAML. A file that was renamed into place, as editors
 * and the kubelet do it, is as old as its last write and needs no patience.
 */
export function settlesInMs(path: string, nowMs: number): number {
  let waitMs = 0;
  for (const file of listed(path)) {
    const stat = statSync(file, { throwIfNoEntry: false });
    if (stat === undefined || stat.mtimeMs - stat.birthtimeMs <= oneGoMs) continue;
    waitMs = Math.max(waitMs, Math.ceil(stat.mtimeMs + settleMs - nowMs));
  }
  return waitMs;
}

/** The files that would be read; empty where even that cannot be told. */
function listed(path: string): readonly string[] {
  try {
    return statSync(path).isDirectory() ? policyFilesIn(path) : [path];
  } catch {
    return [];
  }
}

function policyFilesIn(folder: string): string[] {
  const names = readdirSync(folder).filter((name) => !name.startsWith('.') && policyFile.test(name));
  return names.sort().map((name) => join(folder, name));
}

/** Where a ConfigMap volume's `..data` leads; empty for any other place. */
function volumeGeneration(path: string): string {
  for (const folder of [path, dirname(path)]) {
    try {
      return readlinkSync(join(folder, '..data'));
    } catch {
      // No link here: no volume, or not this folder's.
    }
  }
  return '';
}

function readOnce(path: string): PolicyTexts {
  const texts: PolicyText[] = [];
  const problems: Problem[] = [];
  const read = (file: string): void => {
    try {
      texts.push({ file, text: new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(file)) });
    } catch (error) {
      problems.push(unreadable(file, error));
    }
  };
  try {
    if (!statSync(path).isDirectory()) {
      read(path);
      return { texts, problems };
    }
    const files = policyFilesIn(path);
    for (const file of files) {
      if (statSync(file, { throwIfNoEntry: false })?.isDirectory()) continue;
      read(file);
    }
    if (files.length === 0) problems.push(emptyFolder(path));
  } catch (error) {
    problems.push(unreadable(path, error));
  }
  return { texts, problems };
}

const remedies: ReadonlyMap<string, readonly [message: string, hint: string]> = new Map([
  ['ENOENT', ['no such file or folder', 'Check the path; a ConfigMap volume must be mounted before the start.']],
  ['EACCES', ['permission denied', 'Let the user that runs Sallyport read it.']],
  ['EISDIR', ['is a folder', 'Name a file.']],
  ['ELOOP', ['symbolic links lead in a circle', 'Repair the link.']],
  ['ERR_ENCODING_INVALID_ENCODED_DATA', ['is not UTF-8 text', 'Save the file as UTF-8.']],
]);

function unreadable(file: string, error: unknown): Problem {
  const code = (error as NodeJS.ErrnoException).code ?? '';
  const [why, hint] = remedies.get(code) ?? [error instanceof Error ? error.message : String(error), ''];
  return atTop('error', 'unreadable', file, `cannot be read: ${why}`, hint);
}

function emptyFolder(path: string): Problem {
  const hint = 'Policy files end in .yaml, .yml or .json; without one, ports follow the default inbound policy.';
  return atTop('warning', 'no-policy-files', path, 'the folder holds no policy file', hint);
}

function atTop(severity: Problem['severity'], code: string, file: string, message: string, hint: string): Problem {
  return { severity, code, message, file, line: 1, column: 1, resource: null, hint };
}
