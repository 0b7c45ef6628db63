import { tooLarge } from '../lib/regular-file.ts';
import type { LoadRequest, PolicyLoad } from '../lib/reload/load.ts';
import { loadPolicyNow } from '../lib/reload/load.ts';
import { unreadable } from '../lib/reload/policy-files.ts';
import type { Io } from './arguments.ts';

/** As messages call it. */
const named = 'stdin';

/** As much as of a file. */
const mostBytes = 128 * 1024 * 1024;

/** For somebody at a terminal who is waited for. */
export function sayWaiting(io: Io): void {
  if (!('isTTY' in io.stdin) || io.stdin.isTTY !== true) return;
  io.stderr.write('reading standard input; Ctrl-D on a line of its own ends it\n');
}

/** All of it. @throws an error with a `code`, as reading a file does */
export async function standardInput(io: Io): Promise<Buffer> {
  sayWaiting(io);
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of io.stdin) {
    const bytes = Buffer.from(chunk);
    length += bytes.length;
    if (length > mostBytes) throw Object.assign(new Error('standard input is too large'), { code: tooLarge });
    chunks.push(bytes);
  }
  return Buffer.concat(chunks);
}

/** As `loadPolicyNow`, where `-` among the paths stands for standard input; a file of that name is `./-`. */
export async function loadGiven({ paths, namespace }: LoadRequest, io: Io): Promise<PolicyLoad> {
  const files = paths.filter((path) => path !== '-');
  if (files.length === paths.length) return loadPolicyNow({ paths, namespace });
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await standardInput(io));
    return loadPolicyNow({ paths: files, texts: [{ file: named, text }], namespace });
  } catch (error) {
    const load = loadPolicyNow({ paths: files, namespace });
    return { ...load, documents: [], problems: [...load.problems, unreadable(named, error)], broken: true };
  }
}
