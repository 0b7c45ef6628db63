import fc, { type IAsyncProperty, type IProperty } from 'fast-check';

/*
 * FUZZ_SECONDS: how long a file searches in all, split among its properties (20).
 * FUZZ_SEED, FUZZ_PATH: repeat what a failure printed.
 *
 * With CI set, every search starts from the same seed: a build then fails for what it changed, not for its luck. New
 * ground is searched everywhere else, and for as long as one likes.
 */

const seconds = numberFrom('FUZZ_SECONDS') ?? 20;
const fixedSeed = 20_261_120;
const seed = numberFrom('FUZZ_SEED') ?? (process.env.CI === undefined ? Date.now() % 2 ** 31 : fixedSeed);
const path = process.env.FUZZ_PATH;

/** For tap: a search is never cut short by the test's own time limit. */
export const timeLimitMs = (seconds + 120) * 1000;

function numberFrom(name: string): number | undefined {
  const text = process.env[name];
  if (text === undefined || text === '') return undefined;
  const value = Number(text);
  if (!Number.isFinite(value)) throw new Error(`${name}: not a number: ${JSON.stringify(text)}`);
  return value;
}

/** How often a search goes on for its share again where the machine was too busy for enough of it. */
const mostRounds = 8;

/**
 * Searches for a counterexample until this property's share of the time is over.
 *
 * @param isEnough asked then: false lets it go on, since what has hardly searched has found nothing either.
 * @returns null when none was found; else what fast-check found and how to repeat it.
 */
export async function search<T>(
  property: IAsyncProperty<T> | IProperty<T>,
  share: number,
  isEnough: () => boolean = () => true,
): Promise<string | null> {
  for (let round = 0; round < mostRounds; round++) {
    const found = await searchOnce(property, share, seed + round);
    if (found !== null || path !== undefined || isEnough()) return found;
  }
  return null;
}

async function searchOnce<T>(
  property: IAsyncProperty<T> | IProperty<T>,
  share: number,
  from: number,
): Promise<string | null> {
  const result = await fc.check(property as IAsyncProperty<T>, {
    seed: from,
    ...(path === undefined ? {} : { path }),
    numRuns: Number.MAX_SAFE_INTEGER,
    interruptAfterTimeLimit: seconds * share * 1000,
    // Every run stays within the loop's own bounds; what fast-check would keep of each is not.
    verbose: 0,
  });
  // Interrupted before its first run was over: it has found nothing, and `isEnough` says whether it has searched.
  if (!result.failed || (result.interrupted && result.counterexample === null)) return null;
  const repeat = `FUZZ_SEED=${result.seed} FUZZ_PATH=${result.counterexamplePath ?? ''}`;
  const error = result.errorInstance;
  return [
    `repeat with ${repeat} (run ${result.numRuns}, ${result.numShrinks} times shrunk)`,
    `counterexample: ${fc.stringify(result.counterexample)}`,
    error instanceof Error ? (error.stack ?? error.message) : String(error),
  ].join('\n');
}
