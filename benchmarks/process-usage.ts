import { readdirSync, readFileSync } from 'node:fs';

/** Linux reports process times to user space in this unit on every architecture Node runs on (USER_HZ). */
const ticksPerSecond = 100;

/**
 * CPU seconds, user and system, that the process has used so far: all its threads, its descendants, and children it has
 * already waited for. A process that is gone counts as nothing.
 */
export function cpuSeconds(pid: number): number {
  let ticks = 0;
  for (const member of processTree(pid)) {
    const stat = readProc(member, 'stat');
    // The second field is the program's name in parentheses and may hold anything; proc(5).
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [utime, stime, cutime, cstime] = fields.slice(11, 15);
    ticks += Number(utime ?? 0) + Number(stime ?? 0) + Number(cutime ?? 0) + Number(cstime ?? 0);
  }
  return ticks / ticksPerSecond;
}

/** CPU time of the calling thread so far: a clock that stands still while other programs have the core. */
export function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** CPU seconds of a core so far; proc(5), /proc/stat. */
export interface CoreTimes {
  /** Spent on anything at all, stolen time included. */
  readonly spent: number;
  /** Taken by the host for others. */
  readonly stolen: number;
}

export function coreTimes(core: string): CoreTimes {
  const line = new RegExp(`^cpu${core} (.*)$`, 'm').exec(readFileSync('/proc/stat', 'utf8'))?.[1] ?? '';
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = line.split(' ').map(Number);
  const spent = (user + nice + system + irq + softirq + steal) / ticksPerSecond;
  return { spent, stolen: steal / ticksPerSecond };
}

/** Seconds that each core of the machine has been idle so far. */
export function idleSeconds(): number[] {
  const lines = readFileSync('/proc/stat', 'utf8').matchAll(/^cpu\d+ (.*)$/gm);
  return Array.from(lines, ([, fields = '']) => Number(fields.split(' ')[3]) / ticksPerSecond);
}

export function coreSeconds(core: string): number {
  return coreTimes(core).spent;
}

/** The largest resident set so far, summed over the process and its descendants. */
export function peakResidentBytes(pid: number): number {
  return sumOfStatus(pid, 'VmHWM');
}

/** The resident set now, summed over the process and its descendants. */
export function residentBytes(pid: number): number {
  return sumOfStatus(pid, 'VmRSS');
}

function sumOfStatus(pid: number, field: 'VmHWM' | 'VmRSS'): number {
  let kilobytes = 0;
  for (const member of processTree(pid)) {
    kilobytes += Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(readProc(member, 'status'))?.[1] ?? 0);
  }
  return kilobytes * 1024;
}

function* processTree(pid: number): Generator<number> {
  yield pid;
  for (const thread of threads(pid)) {
    for (const child of readProc(pid, `task/${thread}/children`).split(' ')) {
      if (child !== '') yield* processTree(Number(child));
    }
  }
}

function threads(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`);
  } catch {
    return [];
  }
}

/** Empty when the process has ended, or the kernel was built without this file. */
function readProc(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return '';
  }
}
