import t from 'tap';
import { fairerOwner, surplusOfPassing } from '../../../../lib/app/workers/fairer-owner.ts';

const all = (): boolean => true;

t.test('whose a connection is that has come', async (t) => {
  const rows: readonly (readonly [
    counts: number[],
    self: number,
    isOpen: (worker: number) => boolean,
    owner: number | null,
  ])[] = [
    [[0, 0], 0, all, null],
    [[1, 0], 0, all, 1],
    [[0, 1], 0, all, null],
    [[0, 1], 1, all, 0],
    [[2, 1], 0, all, 1],
    [[3, 2], 0, all, null],
    [[4, 2], 0, all, 1],
    [[17, 15], 0, all, null],
    [[18, 15], 0, all, 1],
    [[1000, 900], 0, all, null],
    [[1000, 880], 0, all, 1],
    [[5, 3, 0], 0, all, 2],
    [[5, 3, 0], 0, (worker) => worker !== 2, 1],
    [[5, 3, 0], 0, () => false, null],
    [[5], 0, all, null],
    [[], 0, all, null],
  ];
  for (const [counts, self, isOpen, owner] of rows) {
    t.equal(fairerOwner(counts, self, isOpen), owner, `${counts.join()} at ${self}`);
  }
});

t.test('where they come and go, less is handed over, and what stays is not left to one', async (t) => {
  const rows: readonly (readonly [counts: number[], owner: number | null])[] = [
    [[8, 0], null],
    [[9, 0], 1],
    [[12, 4], null],
    [[20, 8], null],
    [[21, 8], 1],
  ];
  for (const [counts, owner] of rows) t.equal(fairerOwner(counts, 0, all, surplusOfPassing), owner, counts.join());
});

t.test('connections that stay are divided evenly, whoever accepts them', async (t) => {
  for (const workers of [2, 3, 4]) {
    const counts = Array.from({ length: workers }, () => 0);
    for (let at = 0; at < 96; at++) {
      // All of a burst come to one of them.
      const self = Math.floor(at / 10) % workers;
      const owner = fairerOwner(counts, self, all) ?? self;
      counts[owner] = (counts[owner] ?? 0) + 1;
    }
    const [most, fewest] = [Math.max(...counts), Math.min(...counts)];
    t.ok(most - fewest <= 2 + fewest / 8, `${workers}: ${counts.join()}`);
  }
});
