import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cpus, release, totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';

/** Which cores the two sides run on, in taskset's notation. */
export interface Cores {
  readonly proxy: string;
  readonly load: string;
}

/** The last core we may use is the proxy's alone; load and app share the others. Null where there is only one. */
export function divideCores(): Cores | null {
  const allowed = coresAllowed(/^Cpus_allowed_list:\s+(\S+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]);
  const proxy = allowed.pop();
  if (proxy === undefined || allowed.length === 0) return null;
  return { proxy: String(proxy), load: allowed.join(',') };
}

/** Moves this whole process, so that the little it does is not done beside the proxy. */
export function stayOn(cores: string): void {
  execFileSync('taskset', ['--all-tasks', '--cpu-list', '--pid', cores, String(process.pid)], { stdio: 'ignore' });
}

/** `0-3,8` to its numbers; none for nothing. */
function coresAllowed(list = ''): number[] {
  return list
    .split(',')
    .filter((range) => range !== '')
    .flatMap((range) => {
      const [first = 0, last = first] = range.split('-').map(Number);
      return Array.from({ length: last - first + 1 }, (_, i) => first + i);
    });
}

/** What a reader of the numbers must know about where they come from. */
export interface MachineFacts {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGiB: number;
  readonly kernel: string;
  readonly node: string;
  readonly commit: string | null;
}

export function machineFacts(): MachineFacts {
  const all = cpus();
  return {
    cpu: all[0]?.model ?? 'unknown',
    cores: all.length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    node: process.version,
    commit: commit(),
  };
}

function commit(): string | null {
  try {
    const cwd = fileURLToPath(new URL('..', import.meta.url));
    return execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd, encoding: 'utf8', stdio: 'pipe' }).trim();
  } catch {
    return null;
  }
}
