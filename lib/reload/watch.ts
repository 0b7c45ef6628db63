import { realpathSync, statSync } from 'node:fs';
import { readdir, readlink, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { watch as chokidarWatch } from 'chokidar';

export interface WatchOptions {
  /** Files or folders. They need not exist yet. */
  readonly paths: readonly string[];
  /** Something may have changed. May be called when nothing did; what did is reported within `pollMs` at the latest. */
  onChange(): void;
  /** The watching itself is in trouble (no more inotify watches, say). The slow poll goes on. */
  onError(error: Error): void;
  /** How often to look for what no event reported: network filesystems, exhausted watches, edits behind links. */
  readonly pollMs?: number;
}

export interface Watch {
  /**
   * Whether what stands at a path was put there in one piece, by a rename, and has not been written to since. False where
   * that was not seen, or not yet. `stamp` is what it looked like at `takenMs`, by `performance.now()`.
   */
  arrivedWhole(file: string, stamp: string, takenMs: number): boolean;
  close(): Promise<void>;
}

/** A name that came to mean another file; `stamp` is what that looked like. */
interface Replacement {
  readonly toldMs: number;
  stamp: string | null;
}

const mostArrivals = 10_000;

/**
 * Notices changes of files and folders, however they come about. A file is watched through the folder that holds it,
 * because editors replace files by a rename and the kubelet swaps a ConfigMap's `..data` link: a watch on the file
 * itself would stay with the inode that nobody reads any more.
 */
export function watchPaths(options: WatchOptions): Watch {
  const { onChange, pollMs = 10_000 } = options;
  const paths = options.paths.map((path) => resolve(path));
  const onError = (error: unknown): void => options.onError(error instanceof Error ? error : new Error(String(error)));
  const folders = [...new Set(paths.flatMap(foldersToWatch))];
  const realNames = new Map(paths.flatMap((path) => (isFolder(path) ? [[path, realpathSync(path)] as const] : [])));
  const ignored = (candidate: string): boolean => !concerns(candidate, paths, folders);
  const watcher = chokidarWatch(folders, {
    depth: 0,
    ignoreInitial: true,
    // A link is watched as itself: what it leads to changes, in a ConfigMap volume, only by leading elsewhere.
    followSymlinks: false,
    // A rename over a file is wanted at once, not after chokidar has waited for a pair of events to become one.
    atomic: false,
    ignored,
  });
  const arrivals = new Map<string, Replacement>();
  // `rename` is told where a name appears or goes, `change` where its file is written to. A file that was made in place has
  // both, one that was moved there only the first.
  watcher.on('raw', (event: string, name: string | null, details: unknown) => {
    const { watchedPath } = details as { readonly watchedPath?: string };
    if (name === null || watchedPath === undefined || !folders.includes(watchedPath)) return;
    const file = join(watchedPath, name);
    if (event === 'rename') arrivals.set(file, { toldMs: performance.now(), stamp: null });
    else arrivals.delete(file);
    // Names that nobody asks for are forgotten.
    if (arrivals.size > mostArrivals) arrivals.clear();
    if (!ignored(file)) onChange();
  });
  watcher.on('all', onChange);
  // What changed between this call and the moment from which events come was told by nobody.
  watcher.once('ready', onChange);
  watcher.on('error', onError);

  let seen: string | undefined;
  let closed = false;
  const poll = async (): Promise<void> => {
    const now = (await Promise.all(paths.map(fingerprint))).join('\n');
    if (!closed && seen !== now) onChange();
    seen = now;
  };
  void poll().catch(onError);
  const timer = setInterval(() => void poll().catch(onError), pollMs);
  timer.unref();
  return {
    arrivedWhole(file, stamp, takenMs) {
      const folder = dirname(resolve(file));
      const real = realNames.get(folder) ?? folder;
      const arrival = arrivals.get(join(real, basename(file)));
      // An older look may show what was there before.
      if (arrival === undefined || takenMs < arrival.toldMs) return false;
      arrival.stamp ??= stamp;
      return arrival.stamp === stamp;
    },
    async close() {
      closed = true;
      clearInterval(timer);
      await watcher.close();
    },
  };
}

/** The folder that holds the path; for a folder also the folder itself, by its real name. */
function foldersToWatch(path: string): string[] {
  return isFolder(path) ? [dirname(path), realpathSync(path)] : [dirname(path)];
}

function isFolder(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
  } catch {
    // Links in a circle, or a folder above that nobody may enter: reading it says so.
    return false;
  }
}

/** Neighbours of what is watched are not our business; the `..data` link of a ConfigMap volume is. */
function concerns(candidate: string, paths: readonly string[], folders: readonly string[]): boolean {
  const folder = dirname(candidate);
  if (folders.includes(candidate) || paths.includes(candidate) || candidate.endsWith('/..data')) return true;
  return !paths.some((path) => dirname(path) === folder);
}

/** Everything by which a change shows without reading contents: inode, size and times of all entries, targets of links. */
async function fingerprint(path: string): Promise<string> {
  const names = await readdir(path).catch(() => []);
  return (await Promise.all([path, ...names.map((name) => join(path, name))].map(entryState))).join('\n');
}

async function entryState(path: string): Promise<string> {
  const target = await readlink(path).catch(() => '');
  try {
    const { ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
    return `${path} ${target} ${ino} ${size} ${mtimeNs} ${ctimeNs}`;
  } catch (error) {
    return `${path} ${target} ${(error as NodeJS.ErrnoException).code}`;
  }
}
