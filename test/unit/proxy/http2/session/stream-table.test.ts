import t from 'tap';
import type { StreamState } from '../../../../../lib/proxy/http2/session/stream-state.ts';
import { StreamTable } from '../../../../../lib/proxy/http2/session/stream-table.ts';

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
  table.rememberReset(7);
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
  for (let id = 1; id <= 2003; id += 2) table.rememberReset(id);
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
