import t from 'tap';
import { onInternalFault } from '../../../lib/proxy/guard.ts';
import { bulkRead, turn } from '../../../lib/proxy/turn.ts';

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
