import t, { type Test } from 'tap';
import {
  BufferBudget,
  ConnectionHolding,
  Stall,
  type StallLimit,
} from '../../../../lib/proxy/fairness/buffer-budget.ts';
import { onInternalFault } from '../../../../lib/proxy/guard.ts';

/** Something slow that notes how it was cut, and moves when it is told to. */
class Peer {
  readonly client = null;
  readonly name: string;
  moved = 0;
  readonly stall: Stall;
  readonly #cuts: string[];

  constructor(budget: BufferBudget, name: string, cuts: string[], holding?: ConnectionHolding) {
    this.name = name;
    this.stall = new Stall(budget, this, holding);
    this.#cuts = cuts;
  }
  progress(): number {
    return this.moved;
  }
  cut(limit: StallLimit): void {
    this.#cuts.push(`${this.name} ${limit}`);
  }
  destroy(): void {}
}

/** Until all that were to be cut have had their turn: they share turns with other work that was put off. */
async function turn(): Promise<void> {
  for (let i = 0; i < 10; i++) await new Promise((resolve) => setImmediate(resolve));
}

function stage(t: Test, maxBufferedBytes = 100, stallTimeoutMs = 1000) {
  const reached: string[] = [];
  const cuts: string[] = [];
  const budget = new BufferBudget(
    { maxBufferedBytes, stallTimeoutMs },
    { limitReached: (limit) => reached.push(limit) },
  );
  t.teardown(() => budget.close());
  const peer = (name: string, holding?: ConnectionHolding): Peer => new Peer(budget, name, cuts, holding);
  return { budget, reached, cuts, peer };
}

t.test('over the budget, the one that has stood still longest goes first', async (t) => {
  const { budget, reached, cuts, peer } = stage(t);
  const [a, b, c] = [peer('a'), peer('b'), peer('c')];
  a.stall.hold(40);
  b.stall.hold(40);
  a.stall.hold(50);
  t.equal(budget.bytes, 90);
  t.same(cuts, []);
  c.stall.hold(30);
  t.same(cuts, [], 'not while it says so');
  await turn();
  t.same(cuts, ['a max_buffered_bytes'], 'not the newest, and only as many as are needed');
  t.equal(budget.bytes, 70);
  t.same(reached, ['max_buffered_bytes']);
  b.stall.release();
  b.stall.release();
  t.equal(budget.bytes, 30);
  t.equal(budget.size, 1);
});

t.test(
  'who holds next to nothing goes behind those of one connection that holds more, and longest first where none does',
  async (t) => {
    const { budget, cuts, peer } = stage(t, 25_600);
    const honest = peer('honest');
    honest.stall.hold(100, false);
    budget.sweep(performance.now() + 500);
    const holding = new ConnectionHolding();
    const streams = Array.from({ length: 300 }, (_, i) => peer(`stream ${i}`, holding));
    for (const { stall } of streams) stall.hold(90);
    await turn();
    t.equal(cuts.length, 17);
    t.same(cuts.slice(0, 2), ['stream 0 max_buffered_bytes', 'stream 1 max_buffered_bytes']);
    t.notOk(honest.stall.isCut);
    t.equal(holding.bytes, budget.bytes - 100);
    for (const { stall } of streams) stall.release();
    t.equal(holding.bytes, 0);

    cuts.length = 0;
    for (const name of Array.from({ length: 256 }, (_, i) => `alone ${i}`)) peer(name).stall.hold(100);
    await turn();
    t.same(cuts, ['honest max_buffered_bytes']);

    const again = stage(t, 25_600);
    again.peer('least').stall.hold(50, false);
    again.budget.sweep(performance.now() + 500);
    for (const name of Array.from({ length: 256 }, (_, i) => `alone ${i}`)) again.peer(name).stall.hold(100);
    await turn();
    t.same(again.cuts, ['alone 0 max_buffered_bytes'], 'of those who hold little, one who holds more');
  },
);

t.test('however many hold next to nothing, those who hold more go first', async (t) => {
  const { budget, cuts, peer } = stage(t, 25_600);
  const honest = Array.from({ length: 100 }, (_, i) => peer(`honest ${i}`));
  for (const [i, { stall }] of honest.entries()) stall.hold(50, i % 2 === 0);
  budget.sweep(performance.now() + 500);
  for (let i = 0; i < 20; i++) peer(`large ${i}`).stall.hold(2000);
  await turn();
  t.ok(cuts.length > 0);
  t.same(
    cuts.filter((cut) => !cut.startsWith('large')),
    [],
  );

  cuts.length = 0;
  honest[0]?.stall.hold(5000);
  await turn();
  t.same(cuts.slice(0, 1), ['honest 0 max_buffered_bytes'], 'nor is one spared who holds little no more');
});

t.test('no number of those who hold next to nothing takes the place of who holds more', async (t) => {
  const { budget, cuts, peer } = stage(t, 25_600);
  const start = performance.now();
  budget.sweep(start);
  const still = Array.from({ length: 256 }, (_, i) => peer(`still ${i}`));
  for (const { stall } of still) stall.hold(100);
  budget.sweep(start + 500);
  const honest = peer('honest');
  for (let bytes = 500; bytes <= 12_000; bytes += 500) honest.stall.hold(bytes, false);
  await turn();
  t.equal(cuts.length, 120);
  t.notOk(honest.stall.isCut);
  budget.sweep(start + 1001);
  for (let i = 0; i < 20; i++) await turn();
  t.equal(cuts.length, 256, 'and they have no more time than others');
  t.equal(budget.bytes, 12_000);
  t.equal(budget.size, 1);
});

t.test('one that has moved since is spared, and none for ever', async (t) => {
  const { budget, cuts, peer } = stage(t);
  const [slow, still, last] = [peer('slow'), peer('still'), peer('last')];
  slow.stall.hold(40);
  still.stall.hold(40);
  slow.moved++;
  last.stall.hold(40);
  await turn();
  t.same(cuts, ['still max_buffered_bytes']);

  const many = Array.from({ length: 200 }, (_, i) => peer(`${i}`));
  for (const each of many) {
    for (const one of many) one.moved++;
    each.stall.hold(10);
    await turn();
    t.ok(budget.bytes <= 100, 'the bound holds even where everybody moves');
  }
});

t.test('alone, and more than there is', async (t) => {
  const { budget, cuts, peer } = stage(t);
  const a = peer('a');
  a.stall.hold(101);
  a.stall.hold(102);
  await turn();
  t.same(cuts, ['a max_buffered_bytes']);
  t.equal(budget.bytes, 0);
});

t.test('time', async (t) => {
  const { budget, reached, cuts, peer } = stage(t);
  const start = performance.now();
  budget.sweep(start);
  const [reader, writer, late, moving] = [peer('reader'), peer('writer'), peer('late'), peer('moving')];
  reader.stall.hold(10);
  writer.stall.hold(0);
  moving.stall.hold(0);
  budget.sweep(start + 500);
  late.stall.hold(0);
  moving.moved++;
  budget.sweep(start + 1000);
  t.same(cuts, [], 'exactly the time is not too long');
  budget.sweep(start + 1001);
  await turn();
  t.same(cuts, ['reader stall_timeout', 'writer stall_timeout']);
  t.same(reached, ['stall_timeout', 'stall_timeout']);
  budget.sweep(start + 1502);
  await turn();
  t.same(cuts.slice(2), ['late stall_timeout']);
  budget.sweep(start + 2002);
  await turn();
  t.same(cuts.slice(3), ['moving stall_timeout'], 'from its last movement on');
  t.equal(budget.size, 0);
});

t.test('a wait for nothing becomes a wait with bytes, and back', async (t) => {
  const { budget, cuts, peer } = stage(t);
  const [a, b] = [peer('a'), peer('b')];
  a.stall.hold(0);
  b.stall.hold(60);
  a.stall.hold(60);
  await turn();
  t.same(cuts, ['b max_buffered_bytes'], 'bytes count from when they wait');
  a.stall.hold(0);
  t.equal(budget.bytes, 0);
  t.equal(budget.size, 1);
});

t.test('who may take as long as it likes is still one of those who stand still', async (t) => {
  const { budget, cuts, peer } = stage(t);
  const start = performance.now();
  budget.sweep(start);
  const [tunnel, reader] = [peer('tunnel'), peer('reader')];
  tunnel.stall.hold(50, false);
  budget.sweep(start + 100);
  reader.stall.hold(40);
  budget.sweep(start + 1e9);
  await turn();
  t.same(cuts, ['reader stall_timeout']);
  peer('late').stall.hold(60);
  await turn();
  t.same(cuts.slice(1), ['tunnel max_buffered_bytes']);
});

t.test('a cut that throws is a fault, and leaves the rest in order', async (t) => {
  const { budget, cuts, peer } = stage(t);
  const faults: string[] = [];
  t.teardown(onInternalFault(({ where }) => faults.push(where)));
  const start = performance.now();
  budget.sweep(start);
  let destroyed = false;
  const bad = new Stall(budget, {
    client: null,
    progress: () => 0,
    cut: () => {
      throw new Error('a fault of ours');
    },
    destroy: () => {
      destroyed = true;
    },
  });
  bad.hold(10);
  peer('good').stall.hold(10);
  budget.sweep(start + 2000);
  await turn();
  t.same(faults, ['cutting off who stands still']);
  t.ok(destroyed, 'and it is ended');
  t.same(cuts, ['good stall_timeout']);
  t.equal(budget.bytes, 0);
});

t.test('no deadline', async (t) => {
  const { budget, cuts, peer } = stage(t, 100, Number.POSITIVE_INFINITY);
  peer('a').stall.hold(1);
  budget.sweep(performance.now() + 1e12);
  t.same(cuts, []);
});

t.test('of thousands that are cut at once, a few in one turn', async (t) => {
  const { budget, reached } = stage(t, 10_000);
  const many = 500;
  let ended = 0;
  const slow = (): Stall =>
    new Stall(budget, {
      client: null,
      progress: () => 0,
      cut: () => {
        for (const until = performance.now() + 0.5; performance.now() < until; );
        ended++;
      },
      destroy: () => {},
    });
  for (let i = 0; i < many; i++) slow().hold(10);
  t.equal(ended, 0);
  slow().hold(10_000);
  let most = 0;
  while (ended < many) {
    const before = ended;
    await new Promise((resolve) => setImmediate(resolve));
    most = Math.max(most, ended - before);
  }
  t.ok(most <= 10, `${most} in one turn`);
  await turn();
  t.equal(reached.length, ended);
});
