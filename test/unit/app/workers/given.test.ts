import { closeSync, openSync } from 'node:fs';
import t from 'tap';
import { GivenDescriptors } from '../../../../lib/app/workers/given.ts';

/** Opens files in place of sockets: to this class all descriptors are alike. */
function world(most = 99) {
  const open = new Set<number>();
  const closed: number[] = [];
  const duplicate = (): number | null => {
    if (open.size >= most) return null;
    const fd = openSync('/dev/null', 'r');
    open.add(fd);
    return fd;
  };
  const close = (fd: number): void => {
    closeSync(fd);
    open.delete(fd);
    closed.push(fd);
  };
  return { descriptors: { duplicate, close }, open, closed };
}

t.test('what a thread has not taken is closed when it is over', async (t) => {
  const { descriptors, open, closed } = world();
  const given = new GivenDescriptors<string>(descriptors);
  const fds = given.give('one', [1, 2]) ?? [];
  t.equal(fds.length, 2);
  given.over('one');
  t.same(closed, fds);
  t.equal(open.size, 0);
  given.over('one');
  t.equal(closed.length, 2, 'once');
});

t.test('what it has taken, and what is closed already, is let be', async (t) => {
  const { descriptors, closed } = world();
  const given = new GivenDescriptors<string>(descriptors);
  const [taken = -1] = given.give('one', [1]) ?? [];
  given.taken('one');
  given.over('one');
  t.same(closed, []);
  const [gone = -1] = given.give('two', [1]) ?? [];
  closeSync(gone);
  given.over('two');
  t.same(closed, []);
  closeSync(taken);
});

t.test('where none is left, none is kept', async (t) => {
  const { descriptors, open } = world(1);
  t.equal(new GivenDescriptors<string>(descriptors).give('one', [1, 2]), null);
  t.equal(open.size, 0);
});
