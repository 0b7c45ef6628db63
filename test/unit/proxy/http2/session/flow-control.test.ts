import t from 'tap';
import { FlowControl, StreamWindows } from '../../../../../lib/proxy/http2/session/flow-control.ts';
import { defaultWindow, errorCode, maxPayload, maxWindow } from '../../../../../lib/proxy/http2/session/protocol.ts';

const limits = { grownStreamWindow: 4000, connectionWindow: 10_000 };

t.test('a frame holds what both windows allow, and no more than a frame may', async (t) => {
  const rows: readonly (readonly [name: string, sentBefore: number, window: number, bytes: number, room: number])[] = [
    ['all of it', 0, 1000, 500, 500],
    ['as much as the stream takes', 0, 1000, 5000, 1000],
    ['as much as the connection takes', defaultWindow - 300, 1000, 5000, 300],
    ['one frame', 0, 50_000, 50_000, maxPayload],
    ['nothing on a full stream', 0, 0, 1, 0],
    ['nothing on a full connection', defaultWindow, 1000, 1, 0],
    ['less than nothing once the peer has shrunk its window', 0, -5, 1, -5],
  ];
  for (const [name, sentBefore, window, bytes, room] of rows) {
    const flow = new FlowControl(limits);
    flow.sent(new StreamWindows(sentBefore, 0), sentBefore);
    t.equal(flow.roomFor(new StreamWindows(window, 0), bytes), room, name);
  }
});

t.test('what is sent comes off both windows, and is progress', async (t) => {
  const flow = new FlowControl(limits);
  const stream = new StreamWindows(1000, 0);
  flow.sent(stream, 400);
  t.equal(flow.sendRoom, defaultWindow - 400);
  t.match(stream, { send: 600, moved: 400 });
});

t.test('WINDOW_UPDATE widens by 1 up to the largest window (RFC 9113 6.9.1)', async (t) => {
  const rows: readonly (readonly [name: string, before: number, increment: number, fault: number])[] = [
    ['by something', 10, 1, errorCode.noError],
    ['from below 0', -10, 5, errorCode.noError],
    ['by nothing', 10, 0, errorCode.protocolError],
    ['to the largest', 10, maxWindow - 10, errorCode.noError],
    ['beyond the largest', 10, maxWindow - 9, errorCode.flowControlError],
  ];
  for (const [name, before, increment, fault] of rows) {
    const stream = new StreamWindows(before, 0);
    t.equal(new FlowControl(limits).widen(stream, increment), fault, `a stream's: ${name}`);
    if (fault === errorCode.noError) t.equal(stream.send, before + increment, name);
    const flow = new FlowControl(limits);
    flow.sent(new StreamWindows(0, 0), defaultWindow - before);
    t.equal(flow.widen(null, increment), fault, `the connection's: ${name}`);
    if (fault === errorCode.noError) t.equal(flow.sendRoom, before + increment, name);
  }
});

t.test('a change of the initial window moves open streams, below 0 if need be (RFC 9113 6.9.2)', async (t) => {
  const rows: readonly (readonly [before: number, change: number, after: number, isSound: boolean])[] = [
    [1000, -1000, 0, true],
    [1000, -3000, -2000, true],
    [0, maxWindow, maxWindow, true],
    [1, maxWindow, maxWindow + 1, false],
  ];
  for (const [before, change, after, isSound] of rows) {
    const stream = new StreamWindows(before, 0);
    t.equal(new FlowControl(limits).resize(stream, change), isSound, `${before} + ${change}`);
    t.equal(stream.send, after);
  }
});

t.test("the connection's window is given back by halves, also where nobody reads", async (t) => {
  const flow = new FlowControl(limits);
  t.same(
    [4999, 1, 5001, 4000, 1000].map((bytes) => flow.arrived(bytes)),
    [0, 5000, 5001, 0, 5000],
  );
  t.equal(flow.arrived(10_000), 10_000, 'all that it has');
  t.equal(flow.arrived(10_001), -1, 'more than it has');
});

t.test("a stream's window bounds what may arrive on it", async (t) => {
  const flow = new FlowControl(limits);
  const stream = new StreamWindows(0, 1000);
  t.ok(flow.arrivedOn(stream, 1000));
  t.notOk(flow.arrivedOn(stream, 1));
});

/** `bytes` arrive, and are consumed. */
function read(flow: FlowControl, stream: StreamWindows, bytes: number, wantsMore = true): number {
  flow.arrivedOn(stream, bytes);
  flow.hold(stream, bytes);
  return flow.consumed(stream, bytes, wantsMore);
}

t.test("a stream's window is given back by halves once it is read, and grows", async (t) => {
  const flow = new FlowControl(limits);
  const stream = new StreamWindows(0, 1000);
  t.equal(read(flow, stream, 499), 0);
  t.equal(read(flow, stream, 1), 500 + 3000, 'what was read, and what it grows by');
  t.match(stream, { full: 4000, receive: 4000, unconsumed: 0, unannounced: 0, moved: 500 });
  t.equal(read(flow, stream, 1999), 0);
  t.equal(read(flow, stream, 1), 2000, 'it has grown');
  t.equal(read(flow, stream, 3000, false), 0, 'none for a peer that has ended its message');
});

t.test('windows do not grow while much is held for others, until that is settled', async (t) => {
  const flow = new FlowControl(limits);
  const held = new StreamWindows(0, 20_000);
  const stream = new StreamWindows(0, 1000);
  flow.hold(held, 10_000);
  t.equal(read(flow, stream, 500), 500);
  flow.settle(held);
  t.equal(read(flow, stream, 500), 500 + 3000);
});
