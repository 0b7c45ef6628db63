import type { Registry } from 'prom-client';
import { gaugeSample, registerCollected } from './series.ts';

export interface WorkersView {
  /** How many serve now, the main thread included. */
  serving(): number;
  /** How many have died so far, by why: a word of the program. */
  deaths(): ReadonlyMap<string, number>;
}

/** The threads that serve: how many there are, and how many have been lost. */
export function workerMetrics(registry: Registry, workers: WorkersView): void {
  registerCollected(
    registry,
    { name: 'sallyport_workers', help: 'Threads that serve, the main one included.', type: 'gauge' },
    () => [gaugeSample(workers.serving())],
  );
  registerCollected(
    registry,
    {
      name: 'sallyport_worker_deaths_total',
      help: 'Workers that have died, and with them their connections, by why; each is replaced.',
      type: 'counter',
    },
    () => Array.from(workers.deaths(), ([why, value]) => gaugeSample(value, { why })),
  );
}
