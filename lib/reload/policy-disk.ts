import { setTimeout as delay } from 'node:timers/promises';
import type { LoadRequest, PolicyLoad } from './load.ts';
import { LoadThread } from './load-thread.ts';
import { type Look, look } from './look.ts';
import { type Watch, watchPaths } from './watch.ts';

/** The files of a policy and the time, as its source sees them; tests have a world of their own. */
export interface PolicyWorld {
  nowMs(): number;
  /** Rejects where the signal aborts it. */
  delay(ms: number, signal: AbortSignal): Promise<void>;
  look(): Promise<Look>;
  /** Rejects with `Abandoned` where that happens. */
  load(request: Omit<LoadRequest, 'paths'>, knownDigest: string | undefined): Promise<PolicyLoad | 'unchanged'>;
  /** Ends a load under way. */
  abandon(): void;
  watch(onChange: () => void): void;
  /** Whether the file was put in its place in one piece, as it is. */
  whole(file: string, look: Look): boolean;
  stop(): Promise<void>;
}

/** A load was ended, because what it read had changed. */
export class Abandoned extends Error {}

/** A link is not told of writes to what it leads to, and an empty file may just have been made. */
export function arrivedWhole(watch: Watch, file: string, seen: Look): boolean {
  const found = seen.files.get(file);
  return found !== undefined && !found.empty && !found.link && watch.arrivedWhole(file, found.stamp, seen.takenMs);
}

export interface DiskOptions {
  readonly path: string;
  onWatchError(error: Error): void;
  readonly pollMs?: number | undefined;
}

export function policyOnDisk({ path, onWatchError, pollMs }: DiskOptions): PolicyWorld {
  const thread = new LoadThread();
  let watch: Watch | null = null;
  let abandoned = false;
  return {
    nowMs: () => performance.now(),
    delay: (ms, signal) => delay(ms, undefined, { signal }),
    look: () => look(path),
    async load(request, knownDigest) {
      abandoned = false;
      try {
        return await thread.load({ ...request, paths: [path] }, knownDigest);
      } catch (error) {
        throw abandoned ? new Abandoned() : error;
      }
    },
    abandon() {
      abandoned = true;
      void thread.stop();
    },
    watch(onChange) {
      watch = watchPaths({
        paths: [path],
        onChange,
        onError: onWatchError,
        ...(pollMs === undefined ? {} : { pollMs }),
      });
    },
    whole: (file, seen) => watch !== null && arrivedWhole(watch, file, seen),
    async stop() {
      await Promise.all([watch?.close(), thread.stop()]);
    },
  };
}
