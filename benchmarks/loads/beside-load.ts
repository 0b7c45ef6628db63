import type { Load } from './load.ts';
import { pacedLoad } from './paced-load.ts';

/** Requests a second, on so many connections: few enough that none waits for another. */
const probes = { rate: 500, connections: 32 } as const;

/** Small requests at a low rate beside another load at its highest: units are that one's, latencies are theirs. */
export function besideLoad(other: Load): Load {
  return async (target) => {
    const [{ units, seconds }, { p50Micros, p99Micros }] = await Promise.all([
      other(target),
      pacedLoad(target, probes.connections, probes.rate),
    ]);
    return { units, seconds, p50Micros, p99Micros };
  };
}
