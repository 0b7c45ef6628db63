import t from 'tap';
import { Handed } from '../../../../lib/app/workers/handed.ts';

t.test('of a worker that is over, what it has not taken is closed', async (t) => {
  for (const taken of [0, 1, 3]) {
    const closed: number[] = [];
    let count = 0;
    const handed = new Handed({ close: (fd) => closed.push(fd) }, () => count);
    handed.add(10);
    handed.add(11);
    count = Math.min(taken, 2);
    handed.add(12);
    count = taken;
    handed.over();
    t.same(closed, [10, 11, 12].slice(taken), `${taken} taken`);
    handed.over();
    t.equal(closed.length, 3 - taken, 'once');
  }
});
