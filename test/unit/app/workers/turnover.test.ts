import t from 'tap';
import { Turnover } from '../../../../lib/app/workers/turnover.ts';

t.test('whether connections come and go', async (t) => {
  const rows: readonly (readonly [
    name: string,
    arrivals: number,
    /** Connections that are open when the next comes, by how many have come. */
    open: (arrived: number) => number,
    /** Milliseconds between two. */
    apartMs: number,
    passing: boolean,
  ])[] = [
    ['a millisecond each', 1000, () => 8, 0.1, true],
    ['none yet', 0, () => 0, 0.1, false],
    ['too few to know', 127, () => 8, 0.1, false],
    ['just enough', 128, () => 8, 0.1, true],
    ['all stay', 1000, (arrived) => arrived, 0.1, false],
    ['half of them stay', 1000, (arrived) => arrived / 2, 0.1, false],
    ['one of eight stays', 256, (arrived) => 8 + arrived / 8, 0.1, true],
    ['each for a second, one after the other', 1000, () => 1, 1000, false],
    ['a thousand that stay, beside some that go', 1000, () => 1000, 0.1, false],
    ['a hundred that stay, beside many that go', 1000, () => 100, 0.1, true],
  ];
  for (const [name, arrivals, open, apartMs, passing] of rows) {
    const turnover = new Turnover();
    let nowMs = 5000;
    for (let arrived = 0; arrived < arrivals; arrived++) {
      nowMs += apartMs;
      turnover.arrived(open(arrived), () => nowMs);
    }
    t.equal(turnover.isPassing(nowMs), passing, name);
    t.notOk(turnover.isPassing(nowMs + 101), `${name}: that holds no longer`);
  }
});

t.test('a burst that stays behind others that went is soon seen', async (t) => {
  const turnover = new Turnover();
  for (let at = 0; at < 200; at++) turnover.arrived(8, () => at / 10);
  t.ok(turnover.isPassing(20));
  for (let at = 0; at < 128; at++) turnover.arrived(8 + at, () => 20 + at / 1000);
  t.notOk(turnover.isPassing(20.2));
});
