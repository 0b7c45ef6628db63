import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Where every distribution, and every container, mounts cgroups: version 2 at the root, or each controller of version 1. */
const mount = '/sys/fs/cgroup';

/**
 * Cores that this process may use, as its cgroup and those above it limit them: 1.5, say; null where nothing does.
 *
 * @param read yields the text of a file; throws where it cannot be read.
 */
export function cpuLimit(read: (path: string) => string = (path) => readFileSync(path, 'latin1')): number | null {
  const limits = cgroupsOf(textOf(read, '/proc/self/cgroup') ?? '').flatMap(({ root, path, version }) =>
    upwards(path).flatMap((folder) => limitOf(read, join(mount, root, folder), version) ?? []),
  );
  return limits.length === 0 ? null : Math.min(...limits);
}

interface Cgroup {
  /** Below the mount. */
  readonly root: string;
  readonly path: string;
  readonly version: 1 | 2;
}

/** Lines of /proc/self/cgroup: `0::/path` of version 2, `4:cpu,cpuacct:/path` of version 1 (cgroups(7)). */
function cgroupsOf(text: string): Cgroup[] {
  return text.split('\n').flatMap((line): Cgroup[] => {
    const [, id, controllers = '', path = '/'] = /^(\d+):([^:]*):(\/.*)$/.exec(line) ?? [];
    if (id === '0' && controllers === '') return [{ root: '', path, version: 2 }];
    return controllers.split(',').includes('cpu') ? [{ root: 'cpu', path, version: 1 }] : [];
  });
}

/**
 * `/a/b`, `/a` and `/`. In a container whose cgroups have a namespace of their own, or are mounted from its own on, the
 * first may be missing, and the last is the container's.
 */
function upwards(path: string): string[] {
  const parts = path.split('/').filter((part) => part !== '' && part !== '..');
  return [...parts.map((_part, index) => `/${parts.slice(0, parts.length - index).join('/')}`), '/'];
}

/** Null where there is no limit, and where there is no such file. */
function limitOf(read: (path: string) => string, folder: string, version: 1 | 2): number | null {
  const [quota, period] =
    version === 2
      ? (textOf(read, join(folder, 'cpu.max')) ?? '').trim().split(/\s+/)
      : [textOf(read, join(folder, 'cpu.cfs_quota_us')), textOf(read, join(folder, 'cpu.cfs_period_us'))];
  // `max` and `-1` are no limit.
  const cores = Number(quota ?? Number.NaN) / Number(period ?? Number.NaN);
  return Number.isFinite(cores) && cores > 0 ? cores : null;
}

function textOf(read: (path: string) => string, path: string): string | null {
  try {
    return read(path);
  } catch {
    return null;
  }
}
