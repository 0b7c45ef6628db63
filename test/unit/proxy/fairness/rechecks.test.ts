import t, { type Test } from 'tap';
import { type Rechecked, Rechecks, type Slice } from '../../../../lib/proxy/fairness/rechecks.ts';
import { onInternalFault } from '../../../../lib/proxy/guard.ts';
import { Roster } from '../../../../lib/roster.ts';
import { until } from '../../../support/until.ts';

/** A connection with requests, each of which takes a while to decide. */
class Member {
  rosterPlace = -1;
  /** By which policy its requests were decided last. */
  readonly decided: number[];
  destroyed = false;
  readonly #ms: number;
  readonly #policy: () => number;
  onDecided: (() => void) | null = null;

  constructor(requests: number, ms: number, policy: () => number) {
    this.decided = new Array(requests).fill(0);
    this.#ms = ms;
    this.#policy = policy;
  }

  recheck(slice: Slice): Rechecked {
    const policy = this.#policy();
    for (let at = 0; at < this.decided.length; at++) {
      if (this.decided[at] === policy) continue;
      if (slice.isOver) return 'more';
      const until = performance.now() + this.#ms;
      while (performance.now() < until);
      this.decided[at] = policy;
      this.onDecided?.();
    }
    return 'done';
  }

  destroy(): void {
    this.destroyed = true;
  }
}

function world(t: Test, members: number, requests: number, ms: number) {
  const roster = new Roster<Member>();
  const policy = { inForce: 0 };
  const all = Array.from({ length: members }, () => new Member(requests, ms, () => policy.inForce));
  for (const member of all) roster.add(member);
  const rechecks = new Rechecks(roster);
  t.teardown(() => rechecks.close());
  const change = (): void => {
    policy.inForce++;
    rechecks.begin();
  };
  const isDone = (member: Member): boolean => member.decided.every((by) => by === policy.inForce);
  return { roster, all, change, isDone, left: () => [...roster].filter((member) => !isDone(member)).length };
}

t.test('few are decided at once', (t) => {
  const { change, left } = world(t, 3, 1, 0);
  change();
  t.equal(left(), 0);
  t.end();
});

t.test('many are decided in slices, and those of one connection, too', async (t) => {
  for (const [members, requests] of [
    [200, 1],
    [1, 200],
  ] as const) {
    const { change, left, all } = world(t, members, requests, 0.25);
    const decided = (): number => all.flatMap((each) => each.decided).filter((by) => by === 1).length;
    change();
    t.ok(decided() > 0, 'it begins at once');
    t.ok(decided() < 150, 'and leaves others their turn');
    let turns = 0;
    while (left() > 0) {
      const before = decided();
      await new Promise((resolve) => setImmediate(resolve));
      turns++;
      // 8 ms are 32 of them; one more may have begun.
      t.ok(decided() - before <= 33, 'never more than a slice');
    }
    t.ok(turns > 1);
  }
});

t.test('all are decided by the last of several policies, whoever comes and goes meanwhile', async (t) => {
  const { change, left, all, roster } = world(t, 300, 2, 0.02);
  change();
  let changes = 1;
  let at = 0;
  for (const member of all) {
    member.onDecided = () => {
      at++;
      if (at % 7 === 0) roster.delete(member);
      if (at % 11 === 0) roster.delete(roster.at(0) ?? member);
      if (at % 97 === 0 && changes++ < 5) change();
    };
  }
  await until('all to be decided', () => left() === 0);
  t.ok(changes >= 3, 'it changed on the way');
  t.ok(roster.size > 0);
});

t.test('policies that follow each other quicker than a round lasts keep nobody from being decided', async (t) => {
  const { change, all } = world(t, 400, 1, 0.1);
  const turns = 60;
  for (let turn = 0; turn < turns; turn++) {
    change();
    await new Promise((resolve) => setImmediate(resolve));
  }
  t.ok(
    all.every(({ decided }) => (decided[0] ?? 0) > 0),
    'each of them at least once',
  );
});

t.test('a fault ends who it belongs to, and the others have their turn', async (t) => {
  const faults: string[] = [];
  t.teardown(onInternalFault(({ where }) => faults.push(where)));
  const { change, all, isDone } = world(t, 3, 1, 0);
  const broken = all[1] as Member;
  broken.onDecided = () => {
    throw new Error('boom');
  };
  change();
  t.same(faults, ['rechecking']);
  t.ok(broken.destroyed);
  t.ok(isDone(all[0] as Member) && isDone(all[2] as Member));
});

t.test('a loop that is busy with others gives it a part of its time', async (t) => {
  const { change, left, all } = world(t, 300, 1, 0.25);
  const decided = (): number => all.filter((each) => each.decided[0] === 1).length;
  change();
  let most = 0;
  while (left() > 0) {
    const until = performance.now() + 15;
    while (performance.now() < until);
    const before = decided();
    await new Promise((resolve) => setImmediate(resolve));
    most = Math.max(most, decided() - before);
  }
  // A slice of 2 ms has 8 of them.
  t.ok(most > 12, `${most} in a turn`);
});
