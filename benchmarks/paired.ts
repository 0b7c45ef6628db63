import { isClean } from './disturbance.ts';
import type { Round } from './measure.ts';
import { median } from './statistics.ts';

/** Rounds of two contenders, the one right after the other: what else the machine did met both nearly alike. */
export interface Pair {
  readonly own: Round;
  readonly other: Round;
}

/** The median of the pairs' ratios, with the bounds within which it lies 19 times in 20; of few pairs, their range. */
export interface PairedRatio {
  readonly ratio: number;
  readonly low: number;
  readonly high: number;
  readonly pairs: number;
}

/** How far the bounds of a ratio may be apart, in its own measure. */
const widestBounds = 0.25;
/** How often the median may lie outside of its bounds. */
const mostOutside = 0.05;
/** Of fewer, chance can put all on one side more often than that: the least and the greatest are no such bounds. */
export const fewestBounded = 6;

export function pairsOf(own: readonly Round[], others: readonly Round[]): Pair[] {
  return own.flatMap((round, i) => {
    const other = others[i];
    return other === undefined ? [] : [{ own: round, other }];
  });
}

/**
 * What each pair says, where both of its rounds were clean. The figures of either contender may differ from round to round
 * by as much as they like: it is the ratio that must not.
 *
 * @param ratioOf of one pair; null where one of them has no such figure.
 * @returns `disturbed` where clean pairs are fewer than half, or disagree; null where no pair has the figure.
 */
export function pairedRatio(
  pairs: readonly Pair[],
  ratioOf: (pair: Pair) => number | null,
): PairedRatio | 'disturbed' | null {
  const known = pairs.filter((pair) => ratioOf(pair) !== null);
  if (known.length === 0) return null;
  const clean = known.filter(({ own, other }) => isClean(own) && isClean(other));
  if (clean.length === 0 || clean.length * 2 < known.length) return 'disturbed';
  const values = clean.map((pair) => ratioOf(pair) ?? 0);
  const ratio = median(values);
  const { low, high } = boundsOfMedian(values);
  return high - low > widestBounds * ratio ? 'disturbed' : { ratio, low, high, pairs: values.length };
}

/** HAProxy's CPU per unit over Sallyport's, say; null without both. */
export function cpuRatio({ own, other }: Pair): number | null {
  return own.cpuMicrosPerUnit && other.cpuMicrosPerUnit ? other.cpuMicrosPerUnit / own.cpuMicrosPerUnit : null;
}

/** Units per second, ours over the other's; null for what is no proxy. */
export function rateRatio({ own, other }: Pair): number | null {
  return own.cpuMicrosPerUnit && other.cpuMicrosPerUnit ? own.unitsPerSecond / other.unitsPerSecond : null;
}

/**
 * The sign test's interval: of n values as many are left out at either end as chance could put on one side of the median.
 * Under six values chance could put all there, and the bounds are the least and the greatest.
 */
export function boundsOfMedian(values: readonly number[]): { readonly low: number; readonly high: number } {
  const ascending = [...values].sort((a, b) => a - b);
  const { length } = ascending;
  let rank = 0;
  // Of as many tosses of a coin, how likely it is that exactly, and that at most, `rank` show heads.
  let exactly = 0.5 ** length;
  let atMost = exactly;
  while (2 * atMost <= mostOutside) {
    rank++;
    exactly = (exactly * (length - rank + 1)) / rank;
    atMost += exactly;
  }
  const first = Math.max(0, rank - 1);
  return { low: ascending[first] ?? Number.NaN, high: ascending[length - 1 - first] ?? Number.NaN };
}
