import t from 'tap';
import { Gathering } from '../../../../lib/app/workers/gathering.ts';

const figures = { groups: [], families: [] };

t.test('of a worker that ends with its last answer, what it has counted stays, and nothing is open', async (t) => {
  for (const ends of [false, true]) {
    const told: string[] = [];
    const gathering = new Gathering({
      absorb: () => told.push('absorb'),
      forget: () => told.push('forget'),
    });
    const answer = Promise.withResolvers<typeof figures>();
    const member = { worker: 1, isGone: false, call: () => answer.promise as Promise<never> };
    const gathered = gathering.gather([member]);
    answer.resolve(figures);
    if (ends) {
      member.isGone = true;
      gathering.over(member);
    }
    await gathered;
    t.equal(told.at(-1), ends ? 'forget' : 'absorb');
    t.ok(told.includes('absorb'));
    t.same([...gathering.ages().keys()], ends ? [] : [1], 'a worker that is no more has no age');
  }
});
