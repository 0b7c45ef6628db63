import t from 'tap';
import { Roster, type Rostered } from '../../lib/roster.ts';
import fc from '../support/properties.ts';

interface Member extends Rostered {
  readonly name: number;
}

/** What a Set would do is right; only the order may differ. */
t.test('a roster is a set', async (t) => {
  const steps = fc.array(fc.tuple(fc.constantFrom('add', 'delete'), fc.nat(9)), { maxLength: 60 });
  fc.assert(
    fc.property(steps, (list) => {
      const members: readonly Member[] = Array.from({ length: 10 }, (_, name) => ({ name, rosterPlace: -1 }));
      const [roster, set] = [new Roster<Member>(), new Set<Member>()];
      for (const [what, name] of list) {
        const member = members[name] as Member;
        if (what === 'add') {
          roster.add(member);
          set.add(member);
        } else if (roster.delete(member) !== set.delete(member)) {
          return false;
        }
      }
      const sorted = (all: Iterable<Member>): string =>
        [...all]
          .map(({ name }) => name)
          .sort()
          .join();
      return roster.size === set.size && sorted(roster) === sorted(set);
    }),
  );
  t.pass('whatever comes and goes');
});

t.test('the member that is looked at may leave', async (t) => {
  const roster = new Roster<Member>();
  for (let name = 0; name < 5; name++) roster.add({ name, rosterPlace: -1 });
  const seen: number[] = [];
  for (const member of roster) {
    seen.push(member.name);
    if (member.name % 2 === 0) roster.delete(member);
  }
  t.same(seen.sort(), [0, 1, 2, 3, 4], 'each is seen once');
  t.same([...roster].map(({ name }) => name).sort(), [1, 3]);
});
