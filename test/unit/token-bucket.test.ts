import t from 'tap';
import { TokenBucket } from '../../lib/token-bucket.ts';

/** Three at once, two a second: how many of ten may go after each wait, and what was earned with it. */
const rows: readonly {
  readonly title: string;
  readonly afterMs: number;
  readonly earned?: number;
  readonly may: number;
}[] = [
  { title: 'it begins full', afterMs: 0, may: 3 },
  { title: 'and is empty then', afterMs: 0, may: 0 },
  { title: 'a part of one is none', afterMs: 499, may: 0 },
  { title: 'and is kept', afterMs: 1, may: 1 },
  { title: 'so many a second', afterMs: 1000, may: 2 },
  { title: 'it holds no more than its burst', afterMs: 1_000_000, may: 3 },
  { title: 'what is earned counts', afterMs: 0, earned: 1, may: 1 },
  { title: 'and is no more than the burst, either', afterMs: 0, earned: 100, may: 3 },
];

t.test('a burst, and a rate in the long run', async (t) => {
  let nowMs = 5;
  const bucket = new TokenBucket(3, 2, () => nowMs);
  for (const { title, afterMs, earned = 0, may } of rows) {
    nowMs += afterMs;
    bucket.earn(earned);
    t.equal(Array.from({ length: 10 }, () => bucket.take()).filter(Boolean).length, may, title);
  }
});
