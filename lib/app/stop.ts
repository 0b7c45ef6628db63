import type { Config } from '../config/config.ts';
import { drainedTogether } from '../drained.ts';
import type { Readiness } from '../ops/readiness.ts';
import { StopSequence, type StopSteps } from '../ops/stop-sequence.ts';
import type { Doors } from '../proxy/accept/doors.ts';
import type { DataPlane } from './data-plane.ts';
import type { Workers } from './workers/workers.ts';

interface StopParts extends Pick<StopSteps, 'release' | 'log'> {
  readonly config: Pick<Config, 'shutdownGracePeriodMs'>;
  readonly plane: Pick<DataPlane, 'live' | 'http1'>;
  readonly doors: Pick<Doors, 'close'>;
  readonly workers: Workers;
  readonly readiness: Pick<Readiness, 'drain'>;
}

/** The stop of this thread and of all further workers. */
export function stopSequence({ config, plane, doors, workers, readiness, release, log }: StopParts): StopSequence {
  const { live, http1 } = plane;
  return new StopSequence({
    graceMs: config.shutdownGracePeriodMs,
    connections: async () => live.size + (await workers.connections()),
    unready: () => readiness.drain(),
    closeDoors: async () => void (await Promise.all([workers.closeDoors(), doors.close()])),
    announce() {
      http1.drain();
      live.announceDrain();
      workers.announce();
    },
    empty: (timeoutMs) => Promise.all([live.empty(timeoutMs), workers.empty(timeoutMs)]),
    closeIdle() {
      http1.closeIdle();
      workers.closeIdle();
    },
    drain: async (timeoutMs) => drainedTogether(await Promise.all([live.drain(timeoutMs), workers.drain(timeoutMs)])),
    release,
    log,
  });
}
