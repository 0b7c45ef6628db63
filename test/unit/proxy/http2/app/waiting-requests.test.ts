import t from 'tap';
import { onInternalFault } from '../../../../../lib/proxy/guard.ts';
import { type Waiting, WaitingRequests } from '../../../../../lib/proxy/http2/app/waiting-requests.ts';
import { until } from '../../../../support/until.ts';
import { waitingRequest } from '../../../../support/waiting.ts';

const [alice, bob] = [{ name: 'alice' }, { name: 'bob' }];
const gone = new Error('no session');

/** Writes down its name when it is told that it has waited in vain. */
function request(owner: object, room: number, told: string[] = [], name = '', isAlone = false): Waiting {
  return waitingRequest({
    owner,
    isAlone,
    room,
    lost: () => told.push(name),
    destroy: () => told.push(`${name} ended`),
  });
}

t.test('those who want room wait behind their own client, the others behind everybody', async (t) => {
  const waiting = new WaitingRequests();
  const [first, second, third] = [request(alice, 10), request(alice, 10), request(bob, 10)];
  const plain = [request(alice, 0), request(alice, 0)];
  const before = performance.now();
  t.same(
    [first, second, third, ...plain].map((one) => waiting.add(one)),
    [true, false, true, true, true],
    'who asks for a session',
  );
  t.ok(first.waitsSince >= before);
  t.same([...waiting.forStreams], plain);
  t.same([...waiting.uploaders], [alice, bob]);
  t.equal(waiting.firstUpload(alice), first);
  waiting.remove(first);
  t.equal(waiting.firstUpload(alice), second);
  waiting.remove(second);
  t.equal(waiting.firstUpload(alice), null);
  t.notOk(waiting.wantRoom(alice));
  t.ok(waiting.wantRoom(bob));
  t.ok(waiting.wantRoom());
  waiting.remove(third);
  t.notOk(waiting.wantRoom());
  waiting.remove(third);
});

t.test('whether any is alone on its connection', async (t) => {
  const waiting = new WaitingRequests();
  t.notOk(waiting.isAnyAlone);
  waiting.add(request(alice, 0));
  waiting.add(request(alice, 10));
  t.notOk(waiting.isAnyAlone);
  const alone = request(bob, 10, [], '', true);
  waiting.add(alone);
  t.ok(waiting.isAnyAlone);
  waiting.remove(alone);
  t.notOk(waiting.isAnyAlone);
});

t.test('who is meant is told, and the others go on waiting', async (t) => {
  const told: string[] = [];
  const waiting = new WaitingRequests();
  for (const name of ['a', 'b', 'c']) waiting.add(request(alice, name === 'b' ? 10 : 0, told, name, name === 'c'));
  waiting.giveUp(({ isAlone }) => !isAlone, gone);
  t.same(told, ['a', 'b']);
  t.equal(waiting.forStreams.size, 1);
  t.notOk(waiting.wantRoom());
});

t.test('many are told a few in a turn, except those who have given up meanwhile', async (t) => {
  const told: string[] = [];
  const waiting = new WaitingRequests();
  const all = Array.from({ length: 200 }, (_, i) => request(alice, i % 2, told, String(i)));
  for (const one of all) waiting.add(one);
  waiting.giveUp(() => true, gone);
  t.equal(told.length, 64, 'at once');
  for (const one of all.slice(-10)) waiting.remove(one);
  await until('the rest to be told', () => told.length === 190);
  t.equal(new Set(told).size, 190, 'each once');
});

t.test('a fault of one is not the next one to be told', async (t) => {
  const told: string[] = [];
  const faults: string[] = [];
  t.teardown(onInternalFault(({ where }) => faults.push(where)));
  const waiting = new WaitingRequests();
  const faulty = request(alice, 0, told, 'faulty');
  const lost = (): void => {
    throw new Error('a fault');
  };
  waiting.add({ ...faulty, lost });
  waiting.add(request(bob, 0, told, 'sound'));
  waiting.giveUp(() => true, gone);
  t.same(told, ['faulty ended', 'sound']);
  t.same(faults, ['a request without a session']);
});
