import t from 'tap';
import type { Leaf } from '../../../lib/analysis/leaves.ts';
import { mergedLeaves } from '../../../lib/analysis/merged-leaves.ts';
import { type Test, testKey } from '../../../lib/analysis/tests.ts';
import fc from '../../support/properties.ts';

const test = (index: number): Test => ({ kind: 'header', match: { name: 'x-user', type: 'exact', value: `${index}` } });

/** Of one host and path. */
const leafOf = (holding: readonly number[], failing: readonly number[]): Leaf =>
  ({
    host: { kind: 'any' },
    path: { kind: 'one', path: '/a' },
    holding: holding.map(test),
    failing: failing.map(test),
  }) as unknown as Leaf;

const merged = (leaves: readonly Leaf[]) => mergedLeaves(leaves, ({ kind }) => kind);
const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

t.test('routes that ask for a value each', async (t) => {
  const count = 700;
  const chain = upTo(count).map((index) => leafOf([index], upTo(index)));
  t.equal(merged(chain).length, count, 'nothing that can be left out');
  const [all, ...others] = merged([...chain, leafOf([], upTo(count))]);
  t.same([all?.tests.size, others], [0, []], 'all requests');
});

/** What a list of tests says of requests, a bit for each set of tests that hold. */
const holdsFor = (each: ReadonlyMap<string, boolean>, count: number): boolean[] =>
  upTo(2 ** count).map((set) =>
    [...each].every(
      ([key, holds]) => holds === upTo(count).some((i) => testKey(test(i)) === key && (set & (1 << i)) !== 0),
    ),
  );

t.test('as many requests as before, whatever is merged', async () => {
  const count = 4;
  const leaf = fc.array(fc.constantFrom(true, false, null), { minLength: count, maxLength: count });
  fc.assert(
    fc.property(fc.array(leaf, { maxLength: 10 }), (all) => {
      const of = (outcomes: readonly (boolean | null)[], wanted: boolean): number[] =>
        upTo(count).filter((index) => outcomes[index] === wanted);
      const leaves = all.map((outcomes) => leafOf(of(outcomes, true), of(outcomes, false)));
      const before = all.map((outcomes) =>
        holdsFor(
          new Map(outcomes.flatMap((holds, i) => (holds === null ? [] : [[testKey(test(i)), holds] as const]))),
          count,
        ),
      );
      const after = merged(leaves).map(({ tests }) =>
        holdsFor(new Map([...tests].map(([key, [, holds]]) => [key, holds])), count),
      );
      return upTo(2 ** count).every((set) => before.some((each) => each[set]) === after.some((each) => each[set]));
    }),
  );
});
