import type { Round } from './measure.ts';
import { median } from './statistics.ts';

type Measured = Pick<Round, 'disturbed' | 'stolen' | 'idle' | 'cpuMicrosPerUnit'>;

/** Shares of the proxy's core that went to other programs, and to other guests of the host. */
const mostElsewhere = 0.1;
const mostStolen = 0.02;
/** Where a core of a load at a fixed rate has less to spare, its latencies are those of a queue for that core. */
const leastIdle = 0.2;
/** By how much of their median the dearest and the cheapest of the clean rounds may differ. */
const widestSpread = 0.25;

export function isClean({ disturbed, stolen, idle }: Measured): boolean {
  return disturbed <= mostElsewhere && stolen <= mostStolen && (idle === null || idle >= leastIdle);
}

/** The rounds that figures are made of: the clean ones, where these are at least half. */
export function counted<Each extends Measured>(rounds: readonly Each[]): readonly Each[] {
  const clean = rounds.filter(isClean);
  return clean.length > 0 && clean.length * 2 >= rounds.length ? clean : rounds;
}

/**
 * Why these rounds tell more about the machine than about the proxy; null where they do not. What is compared is pairs of
 * rounds (`paired.ts`), whose ratio can hold where the figures do not. No rounds at all say nothing, either.
 */
export function disturbance(rounds: readonly Measured[]): string | null {
  if (rounds.length === 0) return 'nothing was measured';
  const used = counted(rounds);
  const share = (of: (round: Measured) => number): number => median(used.map(of));
  const percent = (value: number): string => `${Math.round(value * 100)}%`;
  if (used.some((round) => !isClean(round))) {
    const [elsewhere, stolen] = [share(({ disturbed }) => disturbed), share((round) => round.stolen)];
    if (stolen > mostStolen) return `the host took ${percent(stolen)} of the proxy's core`;
    if (elsewhere > mostElsewhere) return `other programs had ${percent(elsewhere)} of the proxy's core`;
    return `its busier core was idle for only ${percent(share(({ idle }) => idle ?? 1))} of the time`;
  }
  const costs = used.flatMap(({ cpuMicrosPerUnit }) => (cpuMicrosPerUnit === null ? [] : [cpuMicrosPerUnit]));
  const spread = costs.length === 0 ? 0 : (Math.max(...costs) - Math.min(...costs)) / median(costs);
  return spread > widestSpread ? `its rounds differ by ${percent(spread)}` : null;
}
