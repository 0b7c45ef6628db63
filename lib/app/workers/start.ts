import type { Config } from '../../config/config.ts';
import { byThemselves } from '../../drained.ts';
import type { PoolOptions } from './pool.ts';
import type { SharedMemory, WorkerShare } from './shared.ts';
import type { Workers } from './workers.ts';

/** What the workers share, and the main thread's part of it. */
export interface Sharing {
  readonly memory: SharedMemory;
  readonly own: WorkerShare;
}

/** Null where the main thread serves alone, and counts for itself. */
export async function startSharing(config: Config): Promise<Sharing | null> {
  if (config.workers === 1) return null;
  const { joinShared, sharedMemory } = await import('./shared.ts');
  const memory = sharedMemory(config);
  return { memory, own: joinShared(memory, 0, config) };
}

/** Loads what runs threads only where there are some. */
export async function startWorkers(options: PoolOptions, sharing: Sharing | null): Promise<Workers> {
  if (sharing === null) return alone;
  const { WorkerPool } = await import('./pool.ts');
  return new WorkerPool(options, sharing.memory);
}

/** No further workers: the main thread serves alone. */
const alone: Workers = {
  others: null,
  serving: () => 1,
  deaths: () => new Map(),
  openConnections: () => [],
  gather: async () => {},
  compared: async () => [],
  decided: async () => [],
  figuresAges: () => new Map(),
  async change(_change, commit) {
    commit();
  },
  pod() {},
  logLevel() {},
  open: async () => {},
  connections: async () => 0,
  closeDoors: async () => {},
  announce() {},
  empty: async () => true,
  closeIdle() {},
  drain: async () => byThemselves,
  release: async () => {},
};
