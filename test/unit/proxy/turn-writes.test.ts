import t from 'tap';
import { turn } from '../../../lib/proxy/fairness/turn.ts';
import { outletOf, writeAllWaiting } from '../../../lib/proxy/node-writes.ts';
import { connection, endOfTurn } from '../../support/connection.ts';
import { systemWrites } from '../../support/system-writes.ts';

t.test('what is small leaves before a large read or long work keeps the turn busy', async (t) => {
  const busy: readonly (readonly [name: string, begin: () => void])[] = [
    ['nothing waits any more', () => writeAllWaiting()],
    ['a large read', () => turn.take(64 * 1024, { nextTurn: () => {}, destroy: () => {} })],
    ['long work', () => turn.mayWork()],
  ];
  for (const [name, begin] of busy) {
    const [near, far] = await connection(t);
    far.resume();
    const writes = systemWrites(near);
    outletOf(near).text('text');
    t.same(writes, [], name);
    begin();
    t.same(writes, [4], name);
    await endOfTurn();
    t.same(writes, [4], `${name}: once`);
  }
});
