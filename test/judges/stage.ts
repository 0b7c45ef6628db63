import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Teardown } from '../support/children.ts';

/** A program by somebody else that judges what Sallyport does. */
export interface Judge {
  readonly name: string;
  /** Brings the program here, or says in words why it cannot be had. */
  prepare(): Promise<string | null>;
  judge(stage: Stage): Promise<Verdict>;
}

export interface Verdict {
  readonly cases: number;
  readonly passed: number;
  /** What did not pass, a line each; empty is success. What a judge itself leaves out counts as neither. */
  readonly failed: readonly string[];
  /** More to know, for the summary. */
  readonly note?: string;
}

/** One judge's folder and children, all gone when it is over. */
export class Stage implements Teardown {
  readonly folder = mkdtempSync(join(tmpdir(), 'sallyport-judge-'));
  readonly #endings: (() => unknown)[] = [];

  teardown(end: () => unknown): void {
    this.#endings.push(end);
  }

  async clear(): Promise<void> {
    for (const end of this.#endings.reverse()) await end();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export interface Ran {
  readonly code: number | string | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end, at most `seconds`. Never rejects: an end by the time limit has no status of its own. */
export async function run(
  program: string,
  args: readonly string[],
  seconds: number,
  env: Readonly<Record<string, string>> = {},
): Promise<Ran> {
  try {
    const options = { timeout: seconds * 1000, maxBuffer: 2 ** 26, env: { ...process.env, ...env } };
    const { stdout, stderr } = await promisify(execFile)(program, args, options);
    return { code: 0, stdout, stderr };
  } catch (error) {
    const { code = null, stdout = '', stderr = '', message } = error as Error & Partial<Ran>;
    return { code, stdout, stderr: stderr === '' ? message : stderr };
  }
}

/** Kept between runs: to build them takes longer than to use them. */
const tools = join(tmpdir(), 'sallyport-judges');

/** Builds commands of a Go module, at this version; null when they are there. */
export async function goPrograms(packages: readonly (readonly [path: string, name: string])[], version: string) {
  mkdirSync(tools, { recursive: true });
  for (const [path, name] of packages) {
    const folder = join(tools, version.replace(/[^\w.-]/g, '_'), name);
    if (existsSync(join(folder, path.split('/').at(-1) as string))) continue;
    const { code, stderr } = await run('go', ['install', `${path}@${version}`], 600, { GOBIN: folder, GOFLAGS: '' });
    if (code !== 0) return `go install ${path}@${version}: ${stderr.trim().split('\n').at(-1)}`;
  }
  return null;
}

/** Where `goPrograms` has put it. */
export function goProgram(path: string, name: string, version: string): string {
  return join(tools, version.replace(/[^\w.-]/g, '_'), name, path.split('/').at(-1) as string);
}

/** Null when the program is installed. */
export async function installed(program: string): Promise<string | null> {
  const { code } = await run('sh', ['-c', `command -v ${program}`], 10);
  return code === 0 ? null : `${program} is not installed`;
}
