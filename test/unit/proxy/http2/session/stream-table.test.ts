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
  t.ok(table.has(one));
  t.ok(table.remove(one));
  t.notOk(table.remove(one));
  t.notOk(table.has(one));
  t.equal(table.get(1), undefined);
  t.equal(table.size, 1);
  t.same(table.clear(), [other]);
  t.equal(table.size, 0);
  t.notOk(table.remove(other));
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
