import type { Descriptors } from '../../proxy/accept/descriptors.ts';
import type { OtherWorkers } from '../../proxy/accept/doors.ts';
import { CountsSeen } from '../../shared/counts.ts';
import { fairerOwner, surplusOfPassing } from './fairer-owner.ts';
import { Turnover } from './turnover.ts';
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
  const seen = new CountsSeen(connections);
  // Asked for every connection, so nothing is made for one.
  const counts: number[] = Array(seen.workers).fill(0);
  const isOpen = (worker: number): boolean => vitals.isOpen(worker);
  const nowMs = (): number => performance.now();
  const turnover = new Turnover();
  const fairest = (): number | null => {
    for (let worker = 0; worker < counts.length; worker++) counts[worker] = seen.of(worker) + vitals.underway(worker);
    const owner = fairerOwner(counts, self, isOpen);
    return owner === null || !turnover.isPassing(nowMs()) ? owner : fairerOwner(counts, self, isOpen, surplusOfPassing);
  };
  return {
    owner() {
      const owner = fairest();
      if (owner === null) turnover.arrived(counts[self] ?? 0, nowMs);
      return owner;
    },
    give(worker, door, fd) {
      vitals.give(worker);
      send(worker, door, fd);
    },
    descriptors,
  };
}
