import t from 'tap';
import type { StreamState } from '../../../../../lib/proxy/http2/session/stream-state.ts';
import { StreamTable } from '../../../../../lib/proxy/http2/session/stream-table.ts';
import fc from '../../../../support/properties.ts';

interface Stub {
  readonly id: number;
  readonly state: StreamState;
}

const stub = (id: number, state: StreamState = 'open'): Stub => ({ id, state });

t.test('every number has a state', async (t) => {
  const table = new StreamTable<Stub>();
  t.equal(table.stateOf(1), 'idle', 'before the first');
  table.last = 9;
  table.add(stub(3));
  table.add(stub(5, 'half-closed (remote)'));
  table.rememberReset(7, 100);
  const rows: readonly (readonly [id: number, state: StreamState])[] = [
    [1, 'closed'],
    [3, 'open'],
    [5, 'half-closed (remote)'],
    [7, 'reset'],
    [9, 'closed'],
    [11, 'idle'],
    [2, 'idle'],
    [8, 'idle'],
  ];
  for (const [id, state] of rows) t.equal(table.stateOf(id), state, String(id));
  table.forgetReset(7);
  t.equal(table.stateOf(7), 'closed', 'nothing of it is on its way');
});

t.test('a stream leaves once', async (t) => {
  const table = new StreamTable<Stub>();
  const [one, other] = [stub(1), stub(3)];
  table.add(one);
  table.add(other);
  t.equal(table.get(1), one);
  t.ok(table.isOpen(1));
  t.ok(table.remove(1));
  t.notOk(table.remove(1));
  t.notOk(table.isOpen(1));
  t.equal(table.get(1), undefined);
  t.equal(table.size, 1);
  t.same(table.clear(), [other]);
  t.equal(table.size, 0);
  t.notOk(table.remove(3));
});

t.test('of many resets the oldest are forgotten', async (t) => {
  const table = new StreamTable<Stub>();
  table.last = 3001;
  for (let id = 1; id <= 2003; id += 2) table.rememberReset(id, 0);
  t.equal(table.stateOf(1), 'closed');
  t.equal(table.stateOf(3), 'closed');
  t.equal(table.stateOf(5), 'reset');
  t.equal(table.stateOf(2003), 'reset');
});

t.test('streams are missing from the first look that finds none', async (t) => {
  const table = new StreamTable<Stub>();
  const looks: readonly (readonly [name: string, now: number, open: readonly number[], last: number, ms: number])[] = [
    ['new', 1000, [], 0, 0],
    ['still new', 1500, [], 0, 500],
    ['in use', 2000, [1], 1, 0],
    ['in use for long', 9000, [1], 1, 0],
    ['no more', 9500, [], 1, 0],
    ['for a while', 9900, [], 1, 400],
    ['used between two looks', 10_000, [], 3, 0],
    ['and no more since', 10_700, [], 3, 700],
    ['in use again by what came before', 10_800, [3], 3, 0],
    ['and not', 10_900, [], 3, 0],
  ];
  for (const [name, now, open, last, ms] of looks) {
    table.clear();
    for (const id of open) table.add(stub(id));
    table.last = last;
    t.equal(table.unusedMs(now), ms, name);
  }
});

/** Streams come and go in any order: of a connection that has few, of one whose numbers leap, beside others that stay long. */
t.test('the table holds what a Map would hold', async () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant('open' as const), gap: fc.constantFrom(1, 1, 1, 1, 2, 16, 32, 64, 1000) }),
    fc.record({ kind: fc.constant('end' as const), which: fc.nat(500) }),
  );
  const property = fc.property(fc.array(step, { minLength: 50, maxLength: 1500, size: 'max' }), (steps) => {
    const table = new StreamTable<Stub>();
    const wanted = new Map<number, Stub>();
    let last = -1;
    for (const one of steps) {
      if (one.kind === 'open') {
        last += 2 * one.gap;
        const stream = stub(last);
        wanted.set(last, stream);
        table.add(stream);
        continue;
      }
      const id = [...wanted.keys()][one.which % Math.max(1, wanted.size)] ?? 1;
      if (table.get(id) !== wanted.get(id) || table.remove(id) !== wanted.delete(id)) throw new Error(`stream ${id}`);
      if (table.get(id) !== undefined || table.isOpen(id)) throw new Error(`stream ${id} is still there`);
    }
    for (const [id, stream] of wanted) if (table.get(id) !== stream) throw new Error(`stream ${id} is lost`);
    if (table.size !== wanted.size) throw new Error(`${table.size} streams of ${wanted.size}`);
    if (String(table.values().map(({ id }) => id)) !== String([...wanted.keys()])) throw new Error('another order');
    if (table.get(last + 2) !== undefined || table.get(0) !== undefined) throw new Error('a stream from nowhere');
  });
  fc.assert(property, { numRuns: 150 });
});
