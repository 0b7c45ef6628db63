import type { Descriptors } from '../../proxy/accept/descriptors.ts';
import type { OtherWorkers } from '../../proxy/accept/doors.ts';
import { countsOf } from '../../shared/counts.ts';
import { fairerOwner } from './fairer-owner.ts';
import type { Vitals } from './vitals.ts';

export interface BalanceParts {
  readonly self: number;
  readonly vitals: Vitals;
  /** Connections of each worker (`SharedCount`). */
  readonly connections: SharedArrayBuffer;
  readonly descriptors: Descriptors;
  readonly send: OtherWorkers['give'];
}

/** The other workers, as a worker's doors see them. */
export function othersThan({ self, vitals, connections, descriptors, send }: BalanceParts): OtherWorkers {
  return {
    owner() {
      const counts = countsOf(connections).map((count, worker) => count + vitals.underway(worker));
      return fairerOwner(counts, self, (worker) => vitals.isOpen(worker));
    },
    give(worker, door, fd) {
      vitals.give(worker);
      send(worker, door, fd);
    },
    descriptors,
  };
}
