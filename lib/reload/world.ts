import { setTimeout as delay } from 'node:timers/promises';
import { type Look, lookAtAll } from './look.ts';
import { type Watch, watchPaths } from './watch.ts';

/** Files and time, as a reloader sees them; tests have a world of their own. */
export interface World {
  /** Monotonic. */
  nowMs(): number;
  /** Rejects where the signal aborts it. */
  delay(ms: number, signal: AbortSignal): Promise<void>;
  look(): Promise<Look>;
  watch(onChange: () => void): void;
  /** Whether the file was put in its place in one piece, as it is. */
  whole(file: string, look: Look): boolean;
  stop(): Promise<void>;
}

export interface DiskOptions {
  /** Files or folders. */
  readonly paths: readonly string[];
  /** Watching is in trouble; polling goes on. */
  onWatchError(error: Error): void;
  readonly pollMs?: number | undefined;
}

export function filesOnDisk({ paths, onWatchError, pollMs }: DiskOptions): World {
  let watch: Watch | null = null;
  return {
    nowMs: () => performance.now(),
    delay: (ms, signal) => delay(ms, undefined, { signal }),
    look: () => lookAtAll(paths),
    watch(onChange) {
      if (paths.length === 0) return;
      watch = watchPaths({ paths, onChange, onError: onWatchError, ...(pollMs === undefined ? {} : { pollMs }) });
    },
    whole: (file, seen) => watch !== null && arrivedWhole(watch, file, seen),
    async stop() {
      await watch?.close();
    },
  };
}

/** There is no event at a link for writes to what it leads to, and an empty file may just have been made. */
function arrivedWhole(watch: Watch, file: string, seen: Look): boolean {
  const found = seen.files.get(file);
  return found !== undefined && !found.empty && !found.link && watch.arrivedWhole(file, found.stamp, seen.takenMs);
}
