import t from 'tap';
import { onInternalFault } from '../../../lib/proxy/guard.ts';
import { bulkRead, turn } from '../../../lib/proxy/turn.ts';
import { until } from '../../support/until.ts';

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

t.test('one turn moves so much, and whoever was stopped goes on in the next', async (t) => {
  let went = 0;
  const reader = {
    nextTurn: () => {
      went++;
    },
    destroy: () => {},
  };
  for (let round = 0; round < 3; round++) {
    let taken = 0;
    while (turn.take(bulkRead, reader)) taken += bulkRead;
    t.equal(taken, 512 * 1024, 'however often it is asked');
    t.notOk(turn.take(bulkRead, reader), 'not the same, and no other, in this turn');
    t.equal(went, 2 * round);
    await nextTurn();
    t.equal(went, 2 * round + 2);
  }
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
  for (let i = 0; i < most; i++) turn.take(2 * bulkRead, reader);
  for (let round = 0; round < 5; round++) {
    const before = went;
    await nextTurn();
    const now = went - before;
    t.ok(now > 0 && now <= 16, `${now} went on in one turn`);
  }
  reader.nextTurn = () => {
    went++;
  };
  await until('all to have gone on', () => went === most - 8, { lastSeen: () => String(went) });
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
  turn.arrival();
  const before = ran;
  await nextTurn();
  t.equal(ran - before, 1, 'one, where somebody has just connected');
  await until('all to have run', () => ran === 70, { lastSeen: () => String(ran) });
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
