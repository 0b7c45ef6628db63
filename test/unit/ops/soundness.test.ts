import t from 'tap';
import { Soundness } from '../../../lib/ops/soundness.ts';

type Ended = 'connection' | 'nothing';

/** Seconds at which faults of a kind come; then what is said at further seconds. */
const rows: readonly {
  readonly name: string;
  readonly faults: readonly (readonly [number, Ended])[];
  readonly later: readonly (readonly [at: number, ready: boolean, live: boolean])[];
}[] = [
  { name: 'none', faults: [], later: [[0, true, true]] },
  {
    name: 'two',
    faults: [
      [0, 'connection'],
      [1, 'nothing'],
    ],
    later: [[1, true, true]],
  },
  {
    name: 'three within a minute',
    faults: [
      [0, 'connection'],
      [30, 'connection'],
      [59, 'connection'],
    ],
    later: [
      [59, false, true],
      [60, true, true],
    ],
  },
  {
    name: 'three within more than a minute',
    faults: [
      [0, 'connection'],
      [30, 'connection'],
      [61, 'connection'],
    ],
    later: [[61, true, true]],
  },
  {
    name: 'three that belong to no connection',
    faults: [
      [0, 'nothing'],
      [0, 'nothing'],
      [1, 'nothing'],
    ],
    later: [
      [1, false, false],
      [60, true, true],
    ],
  },
  {
    name: 'nineteen and twenty',
    faults: Array.from({ length: 19 }, () => [5, 'connection'] as const),
    later: [[5, false, true]],
  },
  {
    name: 'twenty',
    faults: Array.from({ length: 20 }, (_, i) => [i, 'connection'] as const),
    later: [
      [19, false, false],
      [60, false, true],
      [77, true, true],
    ],
  },
  {
    name: 'a thousand',
    faults: Array.from({ length: 1000 }, (_, i) => [i / 100, i % 7 === 0 ? 'nothing' : 'connection'] as const),
    later: [
      [10, false, false],
      [70, true, true],
    ],
  },
];

for (const { name, faults, later } of rows) {
  t.test(name, async (t) => {
    let seconds = 0;
    const soundness = new Soundness(() => seconds * 1000);
    for (const [at, ended] of faults) {
      seconds = at;
      soundness.fault(ended);
    }
    for (const [at, ready, live] of later) {
      seconds = at;
      t.same([soundness.ready, soundness.live], [ready, live], `after ${at} s`);
    }
  });
}
