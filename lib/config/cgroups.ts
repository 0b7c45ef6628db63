import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Where every distribution, and every container, mounts cgroups: version 2 at the root, or each controller of version 1. */
const mount = '/sys/fs/cgroup';

/** Yields the text of a file; throws where it cannot be read. */
export type ReadText = (path: string) => string;

const readText: ReadText = (path) => readFileSync(path, 'latin1');

/** One cgroup that holds this process, itself or one above it. */
export interface Cgroup {
  readonly version: 1 | 2;
  /** The text of one of its files; null where there is no such file. */
  text(name: string): string | null;
}

/** Those in which this process is, for a controller; the nearest first. Each may limit what all below it use together. */
export function cgroupsOf(controller: string, read: ReadText = readText): Cgroup[] {
  return joined(textOf(read, '/proc/self/cgroup') ?? '', controller).flatMap(({ root, path, version }) =>
    upwards(path).map((folder) => ({ version, text: (name) => textOf(read, join(mount, root, folder, name)) })),
  );
}

interface Joined {
  /** Below the mount. */
  readonly root: string;
  readonly path: string;
  readonly version: 1 | 2;
}

/** Lines of /proc/self/cgroup: `0::/path` of version 2, `4:cpu,cpuacct:/path` of version 1 (cgroups(7)). */
function joined(text: string, controller: string): Joined[] {
  return text.split('\n').flatMap((line): Joined[] => {
    const [, id, controllers = '', path = '/'] = /^(\d+):([^:]*):(\/.*)$/.exec(line) ?? [];
    if (id === '0' && controllers === '') return [{ root: '', path, version: 2 }];
    return controllers.split(',').includes(controller) ? [{ root: controller, path, version: 1 }] : [];
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

function textOf(read: ReadText, path: string): string | null {
  try {
    return read(path);
  } catch {
    return null;
  }
}
