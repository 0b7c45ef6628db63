import t from 'tap';
import { TimeShare } from '../../../../lib/app/candidate/time-share.ts';

t.test('a fifth of the time, a second of it at once', async (t) => {
  for (const { title, spends, at, left } of [
    { title: 'nothing was spent', spends: [], at: 0, left: true },
    { title: 'as much as may be at once', spends: [[0, 1000]], at: 1000, left: true },
    { title: 'more', spends: [[0, 1001]], at: 1001, left: false },
    { title: 'one that stands for others, too', spends: [[0, 101, 10]], at: 101, left: false },
    { title: 'more, and time has passed', spends: [[0, 1010]], at: 1060, left: true },
    { title: 'a clock that was set back', spends: [[1000, 0]], at: 0, left: true },
    {
      title: 'a clock that was set forward, by a day',
      spends: [[0, 86_400_000]],
      at: 86_400_000 + 294_000,
      left: false,
    },
    { title: 'some minutes later', spends: [[0, 86_400_000]], at: 86_400_000 + 295_000, left: true },
    {
      title: 'a fifth, for ever',
      spends: Array.from({ length: 1000 }, (_, i) => [i * 10, i * 10 + 2]),
      at: 10_000,
      left: true,
    },
    {
      title: 'more than that, for ever',
      spends: Array.from({ length: 2000 }, (_, i) => [i * 10, i * 10 + 3]),
      at: 20_000,
      left: false,
    },
  ]) {
    const share = new TimeShare();
    for (const [from = 0, to = 0, times] of spends) share.spent(from, to, times);
    t.equal(share.isLeft(at), left, title);
  }
});
