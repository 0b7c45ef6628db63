import type { PoolOptions } from './pool.ts';
import type { Workers } from './workers.ts';

/** Loads what runs threads only where there are some. */
export async function startWorkers(options: PoolOptions): Promise<Workers> {
  if (options.config.workers === 1) return alone;
  const { WorkerPool } = await import('./pool.ts');
  return new WorkerPool(options);
}

/** No further workers: the main thread serves alone. */
const alone: Workers = {
  serving: () => 1,
  deaths: () => new Map(),
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
  drain: async () => true,
  release: async () => {},
};
