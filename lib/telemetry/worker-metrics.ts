import type { Registry } from 'prom-client';
import { gaugeSample, registerCollected } from './series.ts';

export interface WorkersView {
  /** How many serve now, the main thread included. */
  serving(): number;
  /** How many have died so far, by why: a word of the program. */
  deaths(): ReadonlyMap<string, number>;
  /** Client connections of each worker; empty where one serves alone. */
  openConnections(): readonly number[];
  /** Seconds since the figures of each further worker were taken. */
  figuresAges(): ReadonlyMap<number, number>;
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
      help: 'Workers that have died, and their connections with them, by reason; each is replaced.',
      type: 'counter',
    },
    () => Array.from(workers.deaths(), ([why, value]) => gaugeSample(value, { why })),
  );
  registerCollected(
    registry,
    {
      name: 'sallyport_worker_connections',
      help: 'Client connections of each of several workers; 0 is the main thread.',
      type: 'gauge',
    },
    () => workers.openConnections().map((value, worker) => gaugeSample(value, { worker: String(worker) })),
  );
  registerCollected(
    registry,
    {
      name: 'sallyport_worker_figures_age_seconds',
      help: "How old a worker's part of these figures is: more than a moment where it did not answer in time.",
      type: 'gauge',
    },
    () => Array.from(workers.figuresAges(), ([worker, age]) => gaugeSample(age, { worker: String(worker) })),
  );
}
