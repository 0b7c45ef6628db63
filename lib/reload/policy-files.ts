import { readdirSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileFault } from '../config/file-fault.ts';
import { isPolicyFileName } from '../config/policy-paths.ts';
import type { Coded } from '../errors/problems.ts';
import type { Problem } from '../problem.ts';
import { readRegularFile, tooLarge } from '../regular-file.ts';
import { type Look, lookNow, policyFileNames } from './look.ts';

export interface PolicyText {
  readonly file: string;
  readonly text: string;
}

export interface PolicyTexts {
  readonly texts: readonly PolicyText[];
  /** An error here means that something named could not be read: what was found is not the whole policy. */
  readonly problems: readonly Problem[];
  /** The files as they stood before and after they were read. */
  readonly look: Look;
}

const megabyte = 1024 * 1024;

/** Bounds of what is read at all, in bytes. A listing of 10,000 pods has 37 MB. */
export interface ReadLimits {
  readonly file: number;
  readonly all: number;
}
const readLimits: ReadLimits = { file: 128 * megabyte, all: 256 * megabyte };

/**
 * The policy files that a path stands for: itself, or the *.yaml, *.yml and *.json of a folder in the order of their
 * names. Symbolic links are followed, since a ConfigMap volume consists of them. Folders inside are not entered. Only
 * regular files are opened, and none that is too large.
 */
export function readPolicyFiles(path: string, limits: ReadLimits = readLimits): PolicyTexts {
  // The kubelet swaps a whole volume by moving one link. Files read on both sides of a swap, or of any other change, would
  // make a policy that nobody ever wrote, so what was read around one is read again.
  for (let attempt = 1; ; attempt++) {
    const before = lookNow(path);
    const found = readOnce(path, limits);
    if (attempt === 5 || lookNow(path).stamp === before.stamp) return { ...found, look: before };
  }
}

function readOnce(path: string, limits: ReadLimits): Omit<PolicyTexts, 'look'> {
  const texts: PolicyText[] = [];
  const problems: Problem[] = [];
  let left = limits.all;
  const read = (file: string): void => {
    try {
      const bytes = readRegularFile(file, Math.min(limits.file, left));
      left -= bytes.length;
      texts.push({ file, text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) });
    } catch (error) {
      problems.push(unreadable(file, error, undefined, limits));
    }
  };
  try {
    if (!statSync(path).isDirectory()) {
      read(path);
      return { texts, problems };
    }
    const files = policyFileNames(readdirSync(path)).map((name) => join(path, name));
    for (const file of files) {
      if (!isFolder(file)) read(file);
    }
    if (files.length === 0) problems.push(isPolicyFileName(basename(path)) ? folderForFile(path) : emptyFolder(path));
  } catch (error) {
    problems.push(unreadable(path, error, undefined, limits));
  }
  return { texts, problems };
}

function isFolder(file: string): boolean {
  try {
    return statSync(file, { throwIfNoEntry: false })?.isDirectory() ?? false;
  } catch {
    // Links in a circle, say: reading it tells what is wrong.
    return false;
  }
}

/** Of a file that could not be read; `unknown` as of `fileFault`. */
export function unreadable(file: string, error: unknown, unknown?: string, limits: ReadLimits = readLimits): Problem {
  const code = (error as NodeJS.ErrnoException).code ?? '';
  if (code === tooLarge) {
    const megabytes = (bytes: number): string => `${Math.floor(bytes / megabyte)} MB`;
    const message = `is too large: at most ${megabytes(limits.file)} a file and ${megabytes(limits.all)} in all are read`;
    return atTop(
      { severity: 'error', code: 'too-large' },
      file,
      message,
      'Keep only policy documents in the folder, and one listing of the cluster.',
    );
  }
  const { why, remedy } = fileFault(file, error, unknown);
  return atTop({ severity: 'error', code: 'unreadable' }, file, `cannot be read: ${why}`, remedy);
}

function emptyFolder(path: string): Problem {
  const hint = 'Policy files end in .yaml, .yml or .json; without one, ports follow the default inbound policy.';
  return atTop({ severity: 'warning', code: 'no-policy-files' }, path, 'the folder holds no policy file', hint);
}

/** What container engines make of a file that they are to mount and do not find. Nobody takes a policy away so. */
function folderForFile(path: string): Problem {
  const hint = 'Put the file there; an engine that mounts a file which it does not find makes a folder of it.';
  return atTop({ severity: 'error', code: 'unreadable' }, path, 'is a folder, and holds no policy file', hint);
}

/** A problem with a whole file. */
export function atTop(coded: Coded, file: string, message: string, hint: string): Problem {
  return { ...coded, message, file, line: 1, column: 1, resource: null, hint };
}
