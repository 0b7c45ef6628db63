import t from 'tap';
import { bulkRead, type TurnTaker, turn } from '../../../../lib/proxy/fairness/turn.ts';
import { onInternalFault } from '../../../../lib/proxy/guard.ts';
import { smallServed } from '../../../../lib/proxy/node-writes.ts';
import { until } from '../../../support/until.ts';

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const idle = { nextTurn: () => {}, destroy: () => {} };

/** Reads until it is stopped. @returns bytes that it was let read, and the milliseconds of CPU time that took. */
function readOn(reader: TurnTaker): { readonly bytes: number; readonly cpuMs: number } {
  const before = process.threadCpuUsage();
  let bytes = 0;
  while (turn.take(bulkRead, reader)) bytes += bulkRead;
  const { user, system } = process.threadCpuUsage(before);
  return { bytes, cpuMs: (user + system) / 1000 };
}

t.test('a few share most of a millisecond of a turn, and what was stopped goes on in the next', async (t) => {
  let went = 0;
  const reader = {
    nextTurn: () => {
      went++;
    },
    destroy: () => {},
  };
  for (let round = 0; round < 3; round++) {
    const startedAt = performance.now();
    const { bytes, cpuMs } = readOn(reader);
    t.ok(performance.now() - startedAt >= 0.7, 'nobody else waits');
    t.ok(cpuMs < 20, `${cpuMs} ms, however often it is asked`);
    t.ok(bytes >= 512 * 1024);
    t.notOk(turn.take(bulkRead, reader), 'not the same, and no other, in this turn');
    t.equal(went, 2 * round);
    await nextTurn();
    t.equal(went, 2 * round + 2);
  }
});

t.test('a turn moves half a megabyte, and no more, where others wait', async (t) => {
  const rows = [
    { name: 'somebody has just connected', prepare: async () => turn.arrival() },
    {
      name: 'more have been stopped than one turn lets go on',
      prepare: async () => {
        for (let stopped = 0; stopped < 100; ) if (!turn.take(bulkRead, idle)) stopped++;
        await nextTurn();
      },
    },
  ];
  for (const { name, prepare } of rows) {
    await nextTurn();
    await prepare();
    t.equal(readOn(idle).bytes, 512 * 1024, name);
    t.notOk(turn.take(bulkRead, idle));
  }
  for (let i = 0; i < 20; i++) await nextTurn();
});

t.test('beside somebody who is served and moves little, a turn moves a quarter of a megabyte', async (t) => {
  const pass = async (ms: number): Promise<void> => {
    for (const end = performance.now() + ms; performance.now() < end; ) await nextTurn();
  };
  await pass(60);
  readOn(idle);
  await nextTurn();
  for (let turns = 0; turns < 3; turns++) {
    // Often enough, however long the test is kept waiting.
    for (let i = 0; i < 1000; i++) smallServed();
    await pass(60);
    let went = 0;
    const reader = { nextTurn: () => void went++, destroy: () => {} };
    t.equal(readOn(reader).bytes, 256 * 1024);
    for (let i = 0; i < 9; i++) t.notOk(turn.take(bulkRead, reader));
    await nextTurn();
    t.equal(went, 4, 'and so many go on in the next');
    while (went < 10) await nextTurn();
  }
  await until('nobody to have been served for a while', async () => {
    const { bytes } = readOn(idle);
    await nextTurn();
    return bytes > 256 * 1024;
  });
});

t.test('a thousand that were stopped take turns with each other', async (t) => {
  const most = 1000;
  let went = 0;
  const reader = {
    nextTurn: () => {
      went++;
      // Each reads once before it can be stopped again.
      turn.take(2 * bulkRead, reader);
    },
    destroy: () => {},
  };
  for (let stopped = 0; stopped < most; ) if (!turn.take(2 * bulkRead, reader)) stopped++;
  for (let round = 0; round < 5; round++) {
    const before = went;
    await nextTurn();
    const now = went - before;
    t.ok(now > 0 && now <= 16, `${now} went on in one turn`);
  }
  reader.nextTurn = () => {
    went++;
  };
  await until('all to have gone on', () => went === most, { lastSeen: () => String(went) });
});

t.test('work that was put off is done a little at a time, and what is put off by it comes later', async (t) => {
  let ran = 0;
  const slice = (): void => {
    for (const end = performance.now() + 1; performance.now() < end; );
    if (++ran <= 20) turn.later(slice);
  };
  for (let i = 0; i < 50; i++) turn.later(slice);
  const unwanted = turn.later(() => t.fail('it was taken back'));
  unwanted.run = null;
  await nextTurn();
  t.ok(ran >= 1 && ran <= 4, `${ran} in the first turn`);
  await until('all to have run', () => ran === 70, { lastSeen: () => String(ran) });
});

t.test('while somebody connects in every turn, work takes a share of the time and no more', async (t) => {
  let ran = 0;
  for (let i = 0; i < 10; i++) turn.later(() => ran++);
  const startedAt = performance.now();
  let turns = 0;
  for (; ran < 10; turns++) {
    turn.arrival();
    const before = ran;
    await nextTurn();
    t.ok(ran - before <= 1, 'one in a turn at most');
  }
  const tookMs = performance.now() - startedAt;
  t.ok(tookMs >= 9 * 4, `one in 4 ms: 10 took ${tookMs.toFixed(1)} ms, ${turns} turns`);
});

t.test('what a slice leaves to the ticks behind it is part of its time', async (t) => {
  let ran = 0;
  for (let i = 0; i < 10; i++) {
    turn.later(() =>
      process.nextTick(() => {
        ran++;
        for (const end = performance.now() + 3; performance.now() < end; );
      }),
    );
  }
  await nextTurn();
  t.equal(ran, 1, 'the others saw that it was late');
  await until('all to have run', () => ran === 10);
});

t.test('long work is done at once while there is time in a turn, unless some waits', async (t) => {
  await nextTurn();
  t.ok(turn.mayWork());
  for (const end = performance.now() + 3; performance.now() < end; );
  t.notOk(turn.mayWork(), 'the time of this turn is over');
  await nextTurn();
  t.ok(turn.mayWork(), 'another turn');
  turn.arrival();
  t.notOk(turn.mayWork(), 'somebody connects');
  await nextTurn();
  turn.later(() => {});
  t.notOk(turn.mayWork(), 'it would overtake');
  await nextTurn();
  t.ok(turn.mayWork());
});

t.test('a fault of one is not that of the others', async (t) => {
  const faults: string[] = [];
  t.teardown(onInternalFault(({ where }) => faults.push(where)));
  const log: string[] = [];
  const bad = {
    nextTurn: () => {
      throw new Error('boom');
    },
    destroy: () => log.push('ended'),
  };
  while (turn.take(bulkRead, bad));
  turn.take(bulkRead, { nextTurn: () => log.push('went on'), destroy: () => {} });
  await nextTurn();
  t.same(log, ['ended', 'went on']);
  t.same(faults, ['reading on']);
});
