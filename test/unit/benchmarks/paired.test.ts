import t from 'tap';
import type { Round } from '../../../benchmarks/measure.ts';
import { boundsOfMedian, cpuRatio, pairedRatio, pairsOf, rateRatio } from '../../../benchmarks/paired.ts';
import { shownBounds } from '../../../benchmarks/report.ts';

/** CPU microseconds of a round, null for what is no proxy; the share of the proxy's core that went elsewhere. */
type Row = readonly [cost: number | null, elsewhere?: number];

function roundsOf(rows: readonly Row[]): Round[] {
  return rows.map(([cpuMicrosPerUnit, disturbed = 0]) => ({
    unitsPerSecond: cpuMicrosPerUnit === null ? 7 : 1e6 / cpuMicrosPerUnit,
    cpuMicrosPerUnit,
    busy: 1,
    disturbed,
    stolen: 0,
    idle: null,
    pausesPerSecond: null,
    p50Micros: null,
    p99Micros: null,
  }));
}

t.test('a ratio is that of neighbouring rounds', async (t) => {
  const rows: readonly {
    readonly name: string;
    readonly own: readonly Row[];
    readonly other: readonly Row[];
    readonly says: readonly [ratio: number, low: number, high: number, pairs: number] | 'disturbed' | null;
  }[] = [
    { name: 'quiet', own: [[20], [20]], other: [[10], [10]], says: [0.5, 0.5, 0.5, 2] },
    {
      name: 'a machine that gets slower and slower',
      own: [[10], [20], [40]],
      other: [[9], [18], [36]],
      says: [0.9, 0.9, 0.9, 3],
    },
    { name: 'pairs that disagree', own: [[10], [10], [10]], other: [[9], [8], [12]], says: 'disturbed' },
    { name: 'one of three disturbed', own: [[10], [99, 0.5], [10]], other: [[9], [9], [9]], says: [0.9, 0.9, 0.9, 2] },
    { name: 'the other of three', own: [[10], [10], [10]], other: [[9], [99, 0.5], [9]], says: [0.9, 0.9, 0.9, 2] },
    { name: 'one each of three', own: [[10, 0.5], [10], [10]], other: [[9], [9, 0.5], [9]], says: 'disturbed' },
    { name: 'all', own: [[10, 0.5]], other: [[9]], says: 'disturbed' },
    { name: 'a round without a neighbour', own: [[10], [10]], other: [[9]], says: [0.9, 0.9, 0.9, 1] },
    { name: 'no proxy', own: [[10]], other: [[null]], says: null },
    { name: 'nobody', own: [[10]], other: [], says: null },
    { name: 'nothing', own: [], other: [], says: null },
  ];
  for (const { name, own, other, says } of rows) {
    const pairs = pairsOf(roundsOf(own), roundsOf(other));
    const said = pairedRatio(pairs, cpuRatio);
    const shown = said === null || said === 'disturbed' ? said : [said.ratio, said.low, said.high, said.pairs];
    t.same(shown, says, name);
  }
  const rate = pairedRatio(pairsOf(roundsOf([[20]]), roundsOf([[10]])), rateRatio);
  t.same(rate, { ratio: 0.5, low: 0.5, high: 0.5, pairs: 1 });
  t.equal(pairedRatio(pairsOf(roundsOf([[20]]), roundsOf([[null]])), rateRatio), null);
});

t.test('few pairs have no bounds', async (t) => {
  t.equal(shownBounds({ ratio: 0.9, low: 0.88, high: 0.91, pairs: 5 }), '0.90');
  t.equal(shownBounds({ ratio: 0.9, low: 0.88, high: 0.91, pairs: 6 }), '0.90 (0.88 to 0.91)');
});

t.test('the bounds of a median are those of the sign test', async (t) => {
  // Of n values in ascending order, the place of the lower bound: tables of the sign test, 0.05 on both sides.
  const places: readonly (readonly [length: number, place: number])[] = [
    [1, 1],
    [5, 1],
    [6, 1],
    [8, 1],
    [9, 2],
    [11, 2],
    [12, 3],
    [15, 4],
    [17, 5],
    [20, 6],
    [25, 8],
    [30, 10],
  ];
  for (const [length, place] of places) {
    const values = Array.from({ length }, (_, i) => ((i * 7) % length) + 1);
    const distinct = new Set(values).size === length ? values : Array.from({ length }, (_, i) => length - i);
    t.same(boundsOfMedian(distinct), { low: place, high: length + 1 - place }, `${length} values`);
  }
  t.same(boundsOfMedian([]), { low: Number.NaN, high: Number.NaN });
});
