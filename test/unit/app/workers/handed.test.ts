import t from 'tap';
import { Handed } from '../../../../lib/app/workers/handed.ts';

t.test('of a worker that is over, what it has not taken is left for another', async (t) => {
  for (const taken of [0, 1, 3]) {
    let count = 0;
    const handed = new Handed(() => count);
    const connections = [10, 11, 12].map((fd) => ({ door: 0, fd }));
    for (const connection of connections.slice(0, 2)) handed.add(connection);
    count = Math.min(taken, 2);
    for (const connection of connections.slice(2)) handed.add(connection);
    count = taken;
    t.same(handed.over(), connections.slice(taken), `${taken} taken`);
    t.same(handed.over(), [], 'once');
  }
});

t.test('the count of those taken has 32 bits, and goes round', async (t) => {
  let count = 0;
  const handed = new Handed(() => count);
  // No worker takes two thousand million at once: here it is how the list comes to know of as many.
  count = 2 ** 31 - 1;
  handed.add({ door: 0, fd: 10 });
  handed.add({ door: 0, fd: 11 });
  count = -(2 ** 31);
  t.same(handed.over(), [{ door: 0, fd: 11 }], 'one was taken, and one was not');
});
