import { type ChildProcess, type SpawnOptions, spawn, spawnSync } from 'node:child_process';
import { within } from './until.ts';

/** What tap's `t` must offer here: only a place to leave the clean-up. */
export interface Teardown {
  teardown(clean: () => unknown): void;
}

/** Where the kernel can be told to end a program with the one that started it: Linux, with util-linux. */
const withParent = ['setpriv', '--pdeathsig', 'KILL'] as const;
const canTie = spawnSync(withParent[0], [...withParent.slice(1), 'true'], { stdio: 'ignore' }).status === 0;

/**
 * A program and its arguments, for `spawn`, so that it ends with this process, even if that is killed: `spawn(...tied('curl',
 * ['-s', url]), options)`. It has the process id that `spawn` says. A program that is not there ends with status 127.
 */
export function tied(command: string, args: readonly string[]): [command: string, args: string[]] {
  return canTie ? [withParent[0], [...withParent.slice(1), command, ...args]] : [command, [...args]];
}

/** A child ends with this process, even when an assertion throws past every teardown, and where it cannot be tied. */
const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface Child {
  readonly process: ChildProcess;
  readonly pid: number;
  /** Everything printed so far. */
  stdout(): string;
  stderr(): string;
  readonly exited: Promise<Exit>;
  /** Sends the signal and waits for the end; after `graceMs` it is SIGKILL. */
  end(signal?: NodeJS.Signals, graceMs?: number): Promise<Exit>;
}

export interface ChildOptions {
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  /** Given once per chunk as it arrives. */
  readonly onStdout?: (text: string) => void;
  readonly stdin?: 'pipe' | 'ignore';
  readonly graceMs?: number;
}

/** tap puts its loaders into every Node below the test, through NODE_OPTIONS, and `late/run.ts` its own. */
const hasLoaders = process.env.TAP === '1' || process.env.LATE_SEED !== undefined;

/** Starts a program whose end `t` is responsible for. Rejects when it cannot be started at all. */
export async function startChild(
  t: Teardown,
  command: string,
  args: readonly string[],
  options: ChildOptions = {},
): Promise<Child> {
  const spawnOptions: SpawnOptions = {
    stdio: [options.stdin ?? 'ignore', 'pipe', 'pipe'],
    ...(options.env === undefined ? {} : { env: options.env }),
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
  };
  // What is tested must run as it ships, unless the test says otherwise.
  const nodeOptions = options.env?.NODE_OPTIONS ?? '';
  const child = hasLoaders
    ? spawn(...tied('env', [`NODE_OPTIONS=${nodeOptions}`, command, ...args]), spawnOptions)
    : spawn(...tied(command, args), spawnOptions);
  running.add(child);
  const printed = { stdout: '', stderr: '' };
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    printed.stdout += text;
    options.onStdout?.(text);
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    printed.stderr += text;
  });
  // 'close' rather than 'exit': by then everything it printed has been read.
  const exited = new Promise<Exit>((resolve) => {
    child.once('close', (code, signal) => {
      running.delete(child);
      resolve({ code, signal });
    });
  });
  await new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve);
    child.once('error', (error) => {
      running.delete(child);
      reject(new Error(`cannot start ${command}`, { cause: error }));
    });
  });
  const alive = (): boolean => child.exitCode === null && child.signalCode === null;
  const end = async (signal: NodeJS.Signals = 'SIGTERM', graceMs = options.graceMs ?? 5_000): Promise<Exit> => {
    if (alive()) child.kill(signal);
    try {
      return await within(`${command} to end after ${signal}`, graceMs, exited);
    } catch {
      child.kill('SIGKILL');
      return exited;
    }
  };
  t.teardown(() => (alive() ? end() : undefined));
  return {
    process: child,
    pid: child.pid as number,
    stdout: () => printed.stdout,
    stderr: () => printed.stderr,
    exited,
    end,
  };
}

export interface Finished extends Exit {
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end, at most `timeoutMs`; a non-zero exit is a result here, not an exception. */
export async function runToEnd(
  t: Teardown,
  command: string,
  args: readonly string[],
  options: ChildOptions & { readonly timeoutMs?: number } = {},
): Promise<Finished> {
  const child = await startChild(t, command, args, options);
  try {
    const exit = await within(`${command} ${args.join(' ')} to finish`, options.timeoutMs ?? 30_000, child.exited);
    return { ...exit, stdout: child.stdout(), stderr: child.stderr() };
  } catch (error) {
    await child.end('SIGKILL');
    throw error;
  }
}

/** The programs that cannot be found on the PATH, for tap's `skip`; false where all are there. */
export async function missing(t: Teardown, ...programs: string[]): Promise<string | false> {
  const absent: string[] = [];
  for (const program of programs) {
    const found = await runToEnd(t, '/bin/sh', ['-c', 'command -v "$1"', 'sh', program]);
    if (found.code !== 0) absent.push(program);
  }
  return absent.length === 0 ? false : `not installed: ${absent.join(', ')}`;
}
