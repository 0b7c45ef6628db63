import type { Contender, Round, ScenarioResult } from './measure.ts';
import { cpuRatio, pairsOf } from './paired.ts';
import { median } from './statistics.ts';

/** Of what a request cost when the ratio was stored, a quarter more is too much. */
const mostOfCost = 1.25;
/** Shares of the proxy's core: where others have more of it, what a request costs is not the proxy's alone. */
const mostElsewhere = 0.15;
const mostStolen = 0.03;
/** So many clean rounds make an attempt, of which there are at most so many, and so many must agree on a loss. */
const leastRounds = 2;
export const attemptsAtMost = 5;
const leastForLoss = 2;

/** One round of both proxies, the one after the other: HAProxy's CPU time over Sallyport's. */
export interface RoundRatio {
  readonly ratio: number;
  readonly clean: boolean;
}

/** The ratio of an attempt; null where the machine did not let it be measured. */
export type Attempt = number | null;

/** `unknown`: the machine was too busy with other things to tell, which is no loss. */
export type Verdict = 'fine' | 'again' | 'dearer' | 'unknown';

export interface Judgement {
  readonly verdict: Verdict;
  readonly best: Attempt;
}

/**
 * What attempts so far say. The best one counts: a neighbour on the machine can make Sallyport dearer than it is beside
 * HAProxy, but what has become dearer by itself is so in every attempt.
 */
export function judged(attempts: readonly Attempt[], stored: number, isLast = false): Judgement {
  const known = attempts.filter((ratio) => ratio !== null);
  const best = known.length === 0 ? null : Math.max(...known);
  if (best !== null && best >= stored / mostOfCost) return { verdict: 'fine', best };
  if (attempts.length < attemptsAtMost && !isLast) return { verdict: 'again', best };
  return { verdict: known.length >= leastForLoss ? 'dearer' : 'unknown', best };
}

export function attemptOf(rounds: readonly RoundRatio[]): Attempt {
  const clean = rounds.filter((round) => round.clean);
  return clean.length < leastRounds ? null : median(clean.map(({ ratio }) => ratio));
}

export function roundRatios({ contenders }: ScenarioResult): RoundRatio[] {
  const of = (name: Contender): readonly Round[] =>
    contenders.find(({ contender }) => contender === name)?.rounds ?? [];
  const isClean = ({ disturbed, stolen }: Round): boolean => disturbed <= mostElsewhere && stolen <= mostStolen;
  return pairsOf(of('sallyport'), of('haproxy')).flatMap((pair) => {
    const ratio = cpuRatio(pair);
    return ratio === null ? [] : [{ ratio, clean: isClean(pair.own) && isClean(pair.other) }];
  });
}

/** The stored ratios by scenario. @throws for anything but numbers above 0. */
export function stored(text: string): Record<string, number> {
  const read: unknown = JSON.parse(text);
  if (typeof read !== 'object' || read === null) throw new Error('smoke.json holds no object');
  for (const [name, ratio] of Object.entries(read)) {
    if (typeof ratio !== 'number' || !(ratio > 0)) throw new Error(`smoke.json: ${name} has no ratio`);
  }
  return { ...read };
}
