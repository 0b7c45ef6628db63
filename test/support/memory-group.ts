import { existsSync, mkdtempSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Teardown } from './children.ts';

/** A control group that limits memory: of version 1, where that has the controller, or of version 2. */
export interface MemoryGroup {
  /** Put before a command to run it inside. */
  readonly within: readonly string[];
  /** What is used and cannot be taken back: without the pages of files that nobody has used lately. */
  usedBytes(): number;
  /** The most that was ever used, pages of files included; the kernel makes room there first. */
  peakBytes(): number;
  /** How many processes the kernel has ended for want of memory. */
  kills(): number;
}

const mount = '/sys/fs/cgroup';
const version1 = join(mount, 'memory');

/** The folder under which a group can be made, or why there is none. */
function parent(): { readonly folder: string; readonly version: 1 | 2 } | { readonly missing: string } {
  if (process.getuid?.() !== 0) return { missing: 'making a control group takes root' };
  if (existsSync(join(version1, 'memory.limit_in_bytes'))) return { folder: version1, version: 1 };
  try {
    const controllers = readFileSync(join(mount, 'cgroup.subtree_control'), 'latin1').split(/\s+/);
    if (controllers.includes('memory')) return { folder: mount, version: 2 };
    writeFileSync(join(mount, 'cgroup.subtree_control'), '+memory');
    return { folder: mount, version: 2 };
  } catch (error) {
    return { missing: `no memory controller for groups of our own: ${(error as Error).message}` };
  }
}

/** Why no such group can be made here, for tap's `skip`; false where it can. */
export function memoryGroupsUnavailable(): string | false {
  const found = parent();
  if ('missing' in found) return found.missing;
  try {
    rmdirSync(mkdtempSync(join(found.folder, 'sallyport-test-')));
    return false;
  } catch (error) {
    return `no control group can be made here: ${(error as Error).message}`;
  }
}

/** @param limitBytes of all that runs in it. */
export function createMemoryGroup(t: Teardown, limitBytes: number): MemoryGroup {
  const found = parent();
  if ('missing' in found) throw new Error(found.missing);
  const { version } = found;
  const group = mkdtempSync(join(found.folder, 'sallyport-test-'));
  t.teardown(() => rmdirSync(group));
  const read = (name: string): string => readFileSync(join(group, name), 'latin1');
  const write = (name: string, text: string): void => writeFileSync(join(group, name), text);
  const stat = (name: string): number => Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(read('memory.stat'))?.[1]);
  write(version === 1 ? 'memory.limit_in_bytes' : 'memory.max', String(limitBytes));
  if (version === 2 && existsSync(join(group, 'memory.swap.max'))) write('memory.swap.max', '0');
  const procs = join(group, 'cgroup.procs');
  return {
    within: ['sh', '-c', 'echo $$ > "$0" && exec "$@"', procs],
    usedBytes: () =>
      Number(read(version === 1 ? 'memory.usage_in_bytes' : 'memory.current')) -
      stat(version === 1 ? 'total_inactive_file' : 'inactive_file'),
    peakBytes: () => Number(read(version === 1 ? 'memory.max_usage_in_bytes' : 'memory.peak')),
    kills: () =>
      Number(/^oom_kill (\d+)$/m.exec(read(version === 1 ? 'memory.oom_control' : 'memory.events'))?.[1] ?? 0),
  };
}
