import t from 'tap';
import { onInternalFault } from '../../../../../lib/proxy/guard.ts';
import { type Queued, SendQueue } from '../../../../../lib/proxy/http2/session/send-queue.ts';

const takes = { blocked: false };

interface Told extends Queued {
  ended: boolean;
}

/** One that says what happens to it. */
function stream(name: string, told: string[], pump: () => boolean, closed = false): Told {
  return {
    queued: false,
    closed,
    ended: false,
    pump() {
      told.push(name);
      return pump();
    },
    destroy() {
      this.ended = true;
    },
  };
}

t.test('everyone has a turn, in their order, until nothing waits', async (t) => {
  const told: string[] = [];
  const queue = new SendQueue();
  let left = 2;
  const long = stream('long', told, () => --left === 0);
  for (const one of [long, stream('short', told, () => true), long]) queue.add(one);
  queue.pump(takes);
  t.same(told.splice(0), ['long', 'short']);
  t.ok(long.queued);
  queue.pump(takes);
  queue.pump(takes);
  t.same(told, ['long']);
  t.notOk(long.queued);
});

t.test('whoever is closed or removed has none', async (t) => {
  const told: string[] = [];
  const queue = new SendQueue();
  const gone = stream('gone', told, () => true);
  queue.add(gone);
  queue.add(stream('closed', told, () => true, true));
  queue.remove(gone);
  queue.pump(takes);
  t.same(told, []);
});

t.test('while the output is blocked they wait, and a pump within a pump changes nothing', async (t) => {
  const told: string[] = [];
  const queue = new SendQueue();
  const output = { blocked: false };
  const first = stream('first', told, () => {
    queue.pump(output);
    output.blocked = true;
    return true;
  });
  const second = stream('second', told, () => true);
  queue.add(first);
  queue.add(second);
  queue.pump(output);
  t.same(told.splice(0), ['first']);
  t.ok(second.queued);
  output.blocked = false;
  queue.pump(output);
  t.same(told, ['second']);
});

t.test('a fault ends whose turn it is, and nobody else', async (t) => {
  const faults: string[] = [];
  t.teardown(onInternalFault(({ where }) => faults.push(where)));
  const told: string[] = [];
  const queue = new SendQueue();
  const faulty = stream('faulty', told, () => {
    throw new Error('a fault');
  });
  queue.add(faulty);
  queue.add(stream('sound', told, () => true));
  queue.pump(takes);
  t.same(told, ['faulty', 'sound']);
  t.ok(faulty.ended);
  t.same(faults, ['an HTTP/2 stream that has room again']);
});
