import t from 'tap';
import { type HandshakeSocket, HandshakeTurn, HandshakeTurns } from '../../../../lib/proxy/fairness/handshake-turns.ts';
import { turn } from '../../../../lib/proxy/fairness/turn.ts';
import { onInternalFault } from '../../../../lib/proxy/guard.ts';
import { until } from '../../../support/until.ts';

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function socket(): { destroyed: boolean; destroy(): void } {
  return {
    destroyed: false,
    destroy() {
      this.destroyed = true;
    },
  };
}

/** A handshake's work: most of it comes in the ticks behind its beginning. */
function work(): void {
  process.nextTick(() => {
    for (const end = performance.now() + 1.5; performance.now() < end; );
  });
}

t.test('a turn of the event loop begins a few, of each client in its turn', async (t) => {
  const turns = new HandshakeTurns();
  const begun: string[] = [];
  const add = (source: string, n: number): void =>
    turns.add(
      source,
      new HandshakeTurn(socket(), () => {
        work();
        begun.push(`${source}${n}`);
      }),
    );
  const tick = (): Promise<void> => new Promise((resolve) => process.nextTick(resolve));
  for (let n = 0; n < 20; n++) {
    add('flood', n);
    // As after every event of a socket.
    await tick();
  }
  add('other', 0);
  const atOnce = begun.length;
  t.ok(atOnce >= 1 && atOnce <= 2, 'what there is time for begins at once');
  for (let turn = 1; begun.length < 21 && turn < 40; turn++) {
    const before = begun.length;
    await nextTurn();
    t.ok(begun.length - before <= 2, 'no more than there is time for in any turn');
  }
  t.same(begun.slice(atOnce, atOnce + 2), [`flood${atOnce}`, 'other0'], 'everybody has a turn');
  t.equal(begun.length, 21, 'and all of them begin');
  await nextTurn();
  add('late', 0);
  t.equal(begun.at(-1), 'late0', 'without a flood nobody waits');
});

t.test('a client that has gone begins nothing, and a fault ends its own connection', async (t) => {
  const faults: string[] = [];
  t.teardown(onInternalFault(({ where }) => faults.push(where)));
  const turns = new HandshakeTurns();
  const [gone, bad, good] = [socket(), socket(), socket()];
  const begun: string[] = [];
  turn.later(() => {});
  const fails = (): void => {
    throw new Error('boom');
  };
  turns.add('a', new HandshakeTurn(gone, () => begun.push('gone')));
  turns.add('a', new HandshakeTurn(bad, fails));
  turns.add('a', new HandshakeTurn(good, () => begun.push('good')));
  gone.destroy();
  await nextTurn();
  await until('the others to have had their turn', () => begun.length > 0 && bad.destroyed);
  t.same(begun, ['good']);
  t.same([bad.destroyed, good.destroyed], [true, false]);
  t.same(faults, ['a TLS handshake']);
});

t.test('one that is over before its turn begins nothing', async (t) => {
  const turns = new HandshakeTurns();
  const begun: string[] = [];
  turn.later(() => {});
  const over = new HandshakeTurn(socket(), () => begun.push('over'));
  turns.add('a', over);
  turns.add('a', new HandshakeTurn(socket(), () => begun.push('next')));
  turns.over(over);
  await until('the other to have had its turn', () => begun.length > 0);
  t.same(begun, ['next']);
});

t.test('when enough have ended in a turn, the others are read a few in each', async (t) => {
  const turns = new HandshakeTurns();
  const read = new Set<number>();
  let begun = 0;
  const handshakes = Array.from({ length: 100 }, (_, i) => {
    const _handle = { readStart: () => Number(!read.add(i)), readStop: () => Number(!read.delete(i)) };
    const begin = (): void => {
      begun++;
      read.add(i);
    };
    return new HandshakeTurn({ ...socket(), _handle } as HandshakeSocket, begin);
  });
  for (const each of handshakes) turns.add('a', each);
  await until('all to have begun', () => begun === 100);
  t.equal(read.size, 100);
  const answered = new Set<number>();
  let most = 0;
  for (let turn = 0; answered.size < 99 && turn < 100; turn++) {
    let inTurn = 0;
    // All have answered but the first; libuv hands over what is read.
    for (const [i, each] of handshakes.entries()) {
      if (i === 0 || !read.has(i) || answered.has(i)) continue;
      answered.add(i);
      inTurn++;
      turns.over(each);
    }
    most = Math.max(most, inTurn);
    await nextTurn();
  }
  t.equal(answered.size, 99, 'all of them end');
  t.equal(most, 8);
  await until('the one that has not answered to be read again', () => read.has(0));
});

t.test('one that is asked about when it is let go on alone is told', async (t) => {
  const turns = new HandshakeTurns();
  let begun = 0;
  const all = Array.from({ length: 9 }, () => new HandshakeTurn(socket(), () => begun++));
  for (const each of all) turns.add('a', each);
  await until('all to have begun', () => begun === 9);
  for (const each of all.slice(1)) turns.over(each);
  let isLate = false;
  turns.onceRead(all[0] as HandshakeTurn, () => {
    isLate = true;
  });
  for (let i = 0; i < 20 && !isLate; i++) await nextTurn();
  t.ok(isLate);
});

t.test('a flood of handshakes that end does not keep one that is asked about', async (t) => {
  const turns = new HandshakeTurns();
  let begun = 0;
  const one = (): HandshakeTurn => new HandshakeTurn(socket(), () => begun++);
  const silent = one();
  const endMany = async (): Promise<void> => {
    const many = Array.from({ length: 8 }, one);
    const before = begun;
    for (const each of many) turns.add('a', each);
    await until('all to have begun', () => begun === before + 8);
    for (const each of many) turns.over(each);
  };
  turns.add('a', silent);
  await until('it to have begun', () => begun === 1);
  await endMany();
  let isLate = false;
  turns.onceRead(silent, () => {
    isLate = true;
  });
  // In the poll between its release and the look.
  for (let i = 0; i < 20 && !isLate; i++) {
    await endMany();
    await nextTurn();
  }
  t.ok(isLate);
});
