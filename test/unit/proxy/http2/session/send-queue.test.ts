import t from 'tap';
import { onInternalFault } from '../../../../../lib/proxy/guard.ts';
import { FlowControl, StreamWindows } from '../../../../../lib/proxy/http2/session/flow-control.ts';
import { maxPayload } from '../../../../../lib/proxy/http2/session/protocol.ts';
import { type Queued, SendQueue } from '../../../../../lib/proxy/http2/session/send-queue.ts';

const limits = { grownStreamWindow: 1 << 18, connectionWindow: 1 << 20 };

/** What leaves is written down: `stream: bytes`. */
class Frames {
  blocked = false;
  readonly sent: string[] = [];
  readonly buffer = Buffer.alloc(maxPayload);
  /** Bytes of DATA that the socket takes. */
  room = Number.POSITIVE_INFINITY;

  frame(type: number, flags: number, streamId: number, length: number): number {
    this.sent.push(`${type}/${flags} ${streamId}: ${length}`);
    this.room -= length;
    if (this.room <= 0) this.blocked = true;
    return 0;
  }
}

interface Parts {
  readonly queue: SendQueue;
  readonly output: Frames;
  readonly flow: FlowControl;
  readonly earned: number[];
}

function parts(): Parts {
  const [output, flow, earned] = [new Frames(), new FlowControl(limits), [] as number[]];
  return { queue: new SendQueue(output, flow, { earn: (bytes) => earned.push(bytes) }), output, flow, earned };
}

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
  const { queue } = parts();
  let left = 2;
  const long = stream('long', told, () => --left === 0);
  for (const one of [long, stream('short', told, () => true), long]) queue.add(one);
  queue.pump();
  t.same(told.splice(0), ['long', 'short']);
  t.ok(long.queued);
  queue.pump();
  queue.pump();
  t.same(told, ['long']);
  t.notOk(long.queued);
});

t.test('a stream that is closed or removed has none', async (t) => {
  const told: string[] = [];
  const { queue } = parts();
  const gone = stream('gone', told, () => true);
  queue.add(gone);
  queue.add(stream('closed', told, () => true, true));
  queue.remove(gone);
  queue.pump();
  t.same(told, []);
});

t.test('while the output is blocked they wait, and a pump within a pump changes nothing', async (t) => {
  const told: string[] = [];
  const { queue, output } = parts();
  const first = stream('first', told, () => {
    queue.pump();
    output.blocked = true;
    return true;
  });
  const second = stream('second', told, () => true);
  queue.add(first);
  queue.add(second);
  queue.pump();
  t.same(told.splice(0), ['first']);
  t.ok(second.queued);
  output.blocked = false;
  queue.pump();
  t.same(told, ['second']);
});

t.test('a fault ends whose turn it is, and nobody else', async (t) => {
  const faults: string[] = [];
  t.teardown(onInternalFault(({ where }) => faults.push(where)));
  const told: string[] = [];
  const { queue } = parts();
  const faulty = stream('faulty', told, () => {
    throw new Error('a fault');
  });
  queue.add(faulty);
  queue.add(stream('sound', told, () => true));
  queue.pump();
  t.same(told, ['faulty', 'sound']);
  t.ok(faulty.ended);
  t.same(faults, ['an HTTP/2 stream that has room again']);
});

const sends: readonly (readonly [
  name: string,
  bytes: number,
  window: number,
  socket: number,
  stopped: number,
  frames: readonly string[],
])[] = [
  ['all at once', 5, 100, Number.POSITIVE_INFINITY, 5, ['0/0 3: 5']],
  ['nothing', 0, 100, Number.POSITIVE_INFINITY, 0, []],
  [
    'in two frames',
    maxPayload + 1,
    65_535,
    Number.POSITIVE_INFINITY,
    maxPayload + 1,
    [`0/0 3: ${maxPayload}`, '0/0 3: 1'],
  ],
  ["as far as the stream's window", 10, 4, Number.POSITIVE_INFINITY, 4, ['0/0 3: 4']],
  ['without a window', 10, 0, Number.POSITIVE_INFINITY, 0, []],
  ['with a window below zero', 10, -5, Number.POSITIVE_INFINITY, 0, []],
  [
    "as far as the connection's window",
    70_000,
    80_000,
    Number.POSITIVE_INFINITY,
    65_535,
    ['16384', '16384', '16384', '16383'].map((size) => `0/0 3: ${size}`),
  ],
  ['until the socket is full', 3 * maxPayload, 65_535, maxPayload, maxPayload, [`0/0 3: ${maxPayload}`]],
];

t.test('DATA leaves as far as windows and socket have room, and earns what gives room back', async (t) => {
  for (const [name, bytes, window, socket, stopped, frames] of sends) {
    const { queue, output, flow, earned } = parts();
    output.room = socket;
    const windows = new StreamWindows(window, 0);
    t.equal(queue.send({ id: 3, windows }, Buffer.alloc(bytes), 0, bytes), stopped, name);
    t.same(output.sent, frames, name);
    t.equal(windows.send, window - stopped, name);
    t.equal(flow.sendRoom, 65_535 - stopped, name);
    t.equal(
      earned.reduce((sum, one) => sum + one, 0),
      stopped,
      name,
    );
  }
});

t.test('room is used once for all that was given at once', async (t) => {
  const told: string[] = [];
  const { queue } = parts();
  const waiting = stream('waiting', told, () => false);
  queue.add(waiting);
  queue.pumpNewRoom();
  t.same(told.splice(0), [], 'there is none');
  queue.roomGiven();
  queue.roomGiven();
  t.same(told.splice(0), [], 'more may come');
  queue.pumpNewRoom();
  queue.pumpNewRoom();
  t.same(told, ['waiting']);
});
