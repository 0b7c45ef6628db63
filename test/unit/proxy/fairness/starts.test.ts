import { type AddressInfo, createServer } from 'node:net';
import t from 'tap';
import { FairQueue } from '../../../../lib/proxy/fairness/fair-queue.ts';
import { starts } from '../../../../lib/proxy/fairness/starts.ts';
import type { PutOff } from '../../../../lib/proxy/fairness/turn.ts';
import { onInternalFault } from '../../../../lib/proxy/guard.ts';
import type { Permission } from '../../../../lib/proxy/upstream/permission.ts';
import { Upstreams } from '../../../../lib/proxy/upstream/upstreams.ts';
import { until } from '../../../support/until.ts';

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
/** In one turn. */
const most = 16;

t.test('each asker has its turn, and its requests in the order in which they came', async (t) => {
  const queue = new FairQueue<string>();
  t.equal(queue.take(), null);
  for (const item of ['a1', 'a2', 'a3', 'a4', 'b1', 'c1', 'c2']) queue.add(item.charAt(0), item);
  t.equal(queue.size, 7);
  t.same(
    [1, 2, 3, 4].map(() => queue.take()),
    ['a1', 'b1', 'c1', 'a2'],
  );
  queue.add('b', 'b2');
  t.same(
    [1, 2, 3, 4, 5].map(() => queue.take()),
    ['c2', 'a3', 'b2', 'a4', null],
  );
  t.equal(queue.size, 0);
});

t.test('of a thousand a few begin in one turn, and one of somebody else with the first of these', async (t) => {
  let begun = 0;
  let turnOfOther = -1;
  let turns = 0;
  const unwanted: PutOff[] = [];
  for (let i = 0; i < 1000; i++) starts.begin(1, () => begun++);
  for (let i = 0; i < 500; i++) unwanted.push(starts.begin(1, () => t.fail('it was taken back')));
  for (const each of unwanted) each.run = null;
  starts.begin(2, () => {
    turnOfOther = turns;
  });
  t.equal(begun, most, 'at once');
  for (; begun < 1000; turns++) {
    const before = begun;
    await nextTurn();
    t.ok(begun > before && begun - before <= most, `${begun - before} in one turn`);
  }
  t.equal(turnOfOther, 0, 'the other did not wait for them');
  await nextTurn();
  starts.begin(1, () => begun++);
  t.equal(begun, 1001, 'afterwards at once again');
});

t.test('a fault of one is not that of the others', async (t) => {
  await nextTurn();
  const faults: string[] = [];
  t.teardown(onInternalFault(({ where }) => faults.push(where)));
  let begun = 0;
  for (let i = 0; i < most; i++) starts.begin(1, () => {});
  starts.begin(1, () => {
    throw new Error('boom');
  });
  starts.begin(1, () => begun++);
  await until('the last', () => begun === 1);
  t.same(faults, ['a start that was put off']);
});

t.test(
  'connects: those of one client do not keep another waiting, and one that is cancelled never begins',
  async (t) => {
    await nextTurn();
    const upstreams = new Upstreams({
      connectTimeoutMs: 10_000,
      limits: { maxConnections: 1000, maxPendingConnects: 1000, headerTimeoutMs: 60_000 },
      recorder: { openDestination: () => ({ closed: () => {} }), limitReached: () => {} } as never,
      isOwn: () => false,
    });
    let accepted = 0;
    const server = createServer((socket) => {
      accepted++;
      socket.on('error', () => {});
      socket.resume();
    });
    t.teardown(() => server.close());
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const endpoint = { host: '127.0.0.1', port: (server.address() as AddressInfo).port };
    const order: string[] = [];
    const connect = (asker: string): { cancel(): void } =>
      upstreams.connect({} as Permission, endpoint, asker, (error, socket) => {
        t.equal(error, null);
        order.push(asker);
        socket.destroy();
      });
    const many = Array.from({ length: 300 }, () => connect('many'));
    connect('one');
    for (const each of many.slice(200)) each.cancel();
    await until('all', () => order.length === 201, { lastSeen: () => String(order.length) });
    t.ok(order.indexOf('one') < 3 * most, `the other was number ${order.indexOf('one')}`);
    await until('all to be accepted', () => accepted >= 201);
    t.equal(accepted, 201);
  },
);
