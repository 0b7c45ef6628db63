import t from 'tap';
import { type BufferBudget, ConnectionHolding } from '../../../../../lib/proxy/fairness/buffer-budget.ts';
import { HpackDecoder } from '../../../../../lib/proxy/http2/hpack/decoder.ts';
import { FloodLedger } from '../../../../../lib/proxy/http2/session/flood-ledger.ts';
import { FlowControl } from '../../../../../lib/proxy/http2/session/flow-control.ts';
import { FrameHandler } from '../../../../../lib/proxy/http2/session/frame-handler.ts';
import type { Output } from '../../../../../lib/proxy/http2/session/output.ts';
import { PeerSettings } from '../../../../../lib/proxy/http2/session/peer-settings.ts';
import { frameHeaderBytes, reasonName } from '../../../../../lib/proxy/http2/session/protocol.ts';
import { SendQueue } from '../../../../../lib/proxy/http2/session/send-queue.ts';
import { Stream } from '../../../../../lib/proxy/http2/session/stream.ts';
import type { StreamState } from '../../../../../lib/proxy/http2/session/stream-state.ts';
import { StreamTable } from '../../../../../lib/proxy/http2/session/stream-table.ts';
import { Work } from '../../../../../lib/proxy/http2/session/work.ts';
import { noKeeper } from '../../../../../lib/proxy/kept.ts';
import {
  dataFrame,
  flag,
  frame,
  type as frameType,
  goawayFrame,
  headerBlock,
  headersFrame,
  numbers,
  resetFrame,
  setting,
  settingsFrame,
  windowFrame,
} from '../../../../support/http2-frames.ts';

const limits = { grownStreamWindow: 1 << 18, connectionWindow: 1 << 20 };

/** A connection without a socket, of a client that has opened streams 1, 3 and 5: it writes down what becomes of a frame. */
class Stage {
  readonly told: string[] = [];
  readonly budget = { hold: () => {} } as unknown as BufferBudget;
  readonly holding = new ConnectionHolding();
  readonly client = null;
  readonly lastAccepted = 0;
  readonly over = false;
  readonly flow = new FlowControl(limits);
  readonly keeper = noKeeper;
  readonly ledger = new FloodLedger(null);
  readonly decoder = new HpackDecoder(4096, 16_384, 100);
  readonly streams = new StreamTable<TestStream>();
  readonly work = new Work(false);
  readonly output = {
    blocked: false,
    buffer: Buffer.alloc(100),
    endLast: (): boolean => this.tell('end') === 1,
    frame: (type: number, flags: number, id: number): number => this.tell(`sent ${type}/${flags} ${id}`) - 1,
    number: (type: number, id: number, value: number): unknown => this.tell(`sent ${type} ${id} ${value}`),
  } as unknown as Output;
  readonly queue = new SendQueue(this.output, this.flow, this.ledger);
  readonly peer = new PeerSettings(1, { shrinkTable: () => this.tell('table shrunk') });
  readonly frames: FrameHandler<TestStream>;

  constructor(state: StreamState = 'open', awaitsHead = false, hasSettings = true) {
    this.frames = new FrameHandler<TestStream>(this, this, 16_384);
    this.peer.haveCome = hasSettings;
    this.streams.last = 5;
    const stream = new TestStream(this, awaitsHead);
    stream.happened('HEADERS');
    if (state === 'half-closed (remote)') stream.happened('END_STREAM received');
    if (state === 'half-closed (local)') stream.happened('END_STREAM sent');
    this.streams.add(stream);
    this.streams.rememberReset(5, 0);
  }

  tell(text: string): 1 {
    this.told.push(text);
    return 1;
  }

  send(...frames: readonly Buffer[]): void {
    for (const bytes of frames) {
      const [type = 0, flags = 0] = [bytes[3], bytes[4]];
      this.frames.frame(type, flags, bytes.readUInt32BE(5), bytes, frameHeaderBytes, bytes.length);
    }
  }

  countReset(): void {
    this.tell('reset counted');
  }
  streamError(stream: Stream, code: number): void {
    this.tell(`stream ${stream.id}: ${reasonName(code)}`);
  }
  fail(code: number): void {
    this.tell(`failed: ${reasonName(code)}`);
  }
  refuseStream(): void {
    this.tell('refused');
  }
  headers(id: number, stream: Stream | undefined, bytes: Buffer, from: number, to: number, end: boolean): void {
    this.tell(`block of ${id}${stream === undefined ? ', not open' : ''}, ${to - from} bytes${end ? ', end' : ''}`);
    if (stream === this.streams.get(3)) this.frames.trailers(id, this.streams.get(3), bytes, from, to, end);
  }
  ready(): void {
    this.tell('ready');
  }
  roomGiven(): void {
    this.tell('room');
  }
  goingAway(last: number): void {
    this.tell(`going away above ${last}`);
  }
  limitReached(limit: string): void {
    this.tell(`limit ${limit}`);
  }
  noPreface(): void {}
  brokenProtocol(): void {}
  ending(): void {}
  destroy(): void {}
}

/** Stream 3. */
class TestStream extends Stream {
  readonly awaitsHead: boolean;
  readonly isTimed = false;
  readonly #stage: Stage;

  constructor(stage: Stage, awaitsHead: boolean) {
    super(stage, 3, 65_535, 1000);
    this.#stage = stage;
    this.awaitsHead = awaitsHead;
  }
  received(bytes: Buffer, from: number, to: number): void {
    this.#stage.tell(`got ${bytes.toString('latin1', from, to)}`);
  }
  ended(): void {
    this.#stage.tell(`ended${this.trailers.isEmpty ? '' : ` with ${this.trailers.fields}`}`);
  }
  broken(code: number): void {
    this.#stage.tell(`broken: ${reasonName(code)}`);
  }
  removed(): void {
    this.#stage.tell('removed');
  }
}

const trailers = headersFrame(3, [['x', 'y']]);
const padded = (id: number, padding: number, text: string): Buffer =>
  frame(frameType.data, flag.padded, id, Buffer.concat([Buffer.of(padding), Buffer.from(text), Buffer.alloc(padding)]));

/** One frame, or several, of which the first ones open a block. Of stream 3 unless the row says otherwise. */
const rows: readonly (readonly [
  name: string,
  state: StreamState,
  frames: readonly Buffer[],
  told: readonly string[],
])[] = [
  ['DATA', 'open', [dataFrame(3, 'abc')], ['got abc']],
  ['DATA that ends the message', 'open', [dataFrame(3, 'abc', true)], ['got abc', 'ended']],
  ['and the stream', 'half-closed (local)', [dataFrame(3, 'abc', true)], ['got abc', 'ended', 'removed']],
  ['an empty end', 'open', [dataFrame(3, '', true)], ['ended']],
  ['an empty piece', 'open', [dataFrame(3, '')], []],
  ['padding', 'open', [padded(3, 5, 'abc')], ['got abc']],
  [
    'much padding, given back',
    'half-closed (local)',
    [padded(3, 255, 'a'), padded(3, 255, 'b')],
    ['got a', 'sent 8 3 261656', 'got b'],
  ],
  [
    'padding longer than the rest',
    'open',
    [frame(frameType.data, flag.padded, 3, Buffer.of(5, 1))],
    ['failed: PROTOCOL_ERROR'],
  ],
  ['padding without its length', 'open', [frame(frameType.data, flag.padded, 3)], ['failed: PROTOCOL_ERROR']],
  ['DATA beyond the window', 'open', [dataFrame(3, 'a'.repeat(1001))], ['stream 3: FLOW_CONTROL_ERROR']],
  ['DATA behind the end', 'half-closed (remote)', [dataFrame(3, 'a')], ['stream 3: STREAM_CLOSED']],
  ['DATA of a stream that is over', 'open', [dataFrame(1, 'a')], ['failed: STREAM_CLOSED']],
  [
    'DATA of one that we have reset',
    'open',
    [dataFrame(5, 'a'), dataFrame(5, 'a', true), dataFrame(5, 'a')],
    ['failed: STREAM_CLOSED'],
  ],
  ['DATA of one that never was', 'open', [dataFrame(7, 'a')], ['failed: PROTOCOL_ERROR']],
  ['trailers', 'open', [trailers], ['block of 3, 5 bytes, end', 'ended with x,y']],
  [
    'trailers without an end',
    'open',
    [headersFrame(3, [['x', 'y']], false)],
    ['block of 3, 5 bytes', 'stream 3: PROTOCOL_ERROR'],
  ],
  [
    'pseudo-headers behind the head',
    'open',
    [headersFrame(3, [[':status', '200']])],
    ['block of 3, 13 bytes, end', 'stream 3: PROTOCOL_ERROR'],
  ],
  [
    'trailers behind the end',
    'half-closed (remote)',
    [trailers],
    ['block of 3, 5 bytes, end', 'stream 3: STREAM_CLOSED'],
  ],
  [
    'trailers that cannot be read',
    'open',
    [frame(frameType.headers, flag.endHeaders, 3, Buffer.of(0x80))],
    ['block of 3, 1 bytes', 'failed: COMPRESSION_ERROR'],
  ],
  ['a head', 'open', [headersFrame(7, [['x', 'y']])], ['block of 7, not open, 5 bytes, end']],
  [
    'a head in two frames',
    'open',
    [frame(frameType.headers, 0, 7, Buffer.of(0)), frame(frameType.continuation, flag.endHeaders, 7, Buffer.of(1))],
    ['block of 7, not open, 2 bytes'],
  ],
  [
    'something in between',
    'open',
    [frame(frameType.headers, 0, 7, Buffer.of(0)), dataFrame(3, 'a')],
    ['failed: PROTOCOL_ERROR'],
  ],
  ['CONTINUATION of nothing', 'open', [frame(frameType.continuation, flag.endHeaders, 3)], ['failed: PROTOCOL_ERROR']],
  ['WINDOW_UPDATE of the connection', 'open', [windowFrame(0, 5)], ['room']],
  ['too much room', 'open', [windowFrame(0, 2 ** 31 - 1)], ['failed: FLOW_CONTROL_ERROR']],
  ['no room', 'open', [windowFrame(0, 0)], ['failed: PROTOCOL_ERROR']],
  ['WINDOW_UPDATE of a stream', 'half-closed (remote)', [windowFrame(3, 5)], []],
  ['too much room on a stream', 'open', [windowFrame(3, 2 ** 31 - 1)], ['stream 3: FLOW_CONTROL_ERROR']],
  ['no room on a stream', 'open', [windowFrame(3, 0)], ['stream 3: PROTOCOL_ERROR']],
  ['room on one that is over', 'open', [windowFrame(1, 5), windowFrame(5, 5)], []],
  ['room on one that never was', 'open', [windowFrame(7, 5)], ['failed: PROTOCOL_ERROR']],
  ['RST_STREAM', 'open', [resetFrame(3, 8)], ['removed', 'broken: CANCEL', 'reset counted']],
  ['twice', 'open', [resetFrame(3, 8), resetFrame(3, 8)], ['removed', 'broken: CANCEL', 'reset counted']],
  ['of one that never was', 'open', [resetFrame(7, 8)], ['failed: PROTOCOL_ERROR']],
  ['SETTINGS', 'open', [settingsFrame([[setting.maxConcurrentStreams, 7]])], ['sent 4/1 0', 'ready']],
  ['a smaller table', 'open', [settingsFrame([[setting.headerTableSize, 0]])], ['table shrunk', 'sent 4/1 0', 'ready']],
  ['SETTINGS that may not be', 'open', [settingsFrame([[setting.enablePush, 2]])], ['failed: PROTOCOL_ERROR']],
  [
    'a window that cannot be',
    'open',
    [settingsFrame([[setting.initialWindowSize, 2 ** 31 - 1]]), windowFrame(3, 1)],
    ['sent 4/1 0', 'ready', 'stream 3: FLOW_CONTROL_ERROR'],
  ],
  ['ACK', 'open', [frame(frameType.settings, flag.ack, 0)], []],
  [
    'ACK of what never was',
    'open',
    [frame(frameType.settings, flag.ack, 0), frame(frameType.settings, flag.ack, 0)],
    ['failed: PROTOCOL_ERROR'],
  ],
  ['PING', 'open', [frame(frameType.ping, 0, 0, Buffer.alloc(8))], ['sent 6/1 0']],
  ['its ACK', 'open', [frame(frameType.ping, flag.ack, 0, Buffer.alloc(8))], []],
  ['GOAWAY', 'open', [goawayFrame(3)], ['going away above 3']],
  ['PRIORITY', 'open', [frame(frameType.priority, 0, 3, Buffer.concat([numbers(1), Buffer.of(1)]))], []],
  [
    'on itself',
    'open',
    [frame(frameType.priority, 0, 3, Buffer.concat([numbers(3), Buffer.of(1)]))],
    ['failed: PROTOCOL_ERROR'],
  ],
  ['PUSH_PROMISE', 'open', [frame(frameType.pushPromise, flag.endHeaders, 3, numbers(2))], ['failed: PROTOCOL_ERROR']],
  ['an extension', 'open', [frame(0xfa, 0xff, 3, Buffer.alloc(3))], []],
];

t.test('what becomes of a frame', async (t) => {
  for (const [name, state, frames, told] of rows) {
    const stage = new Stage(state);
    stage.send(...frames);
    t.same(stage.told, told, name);
  }
});

t.test('before the first SETTINGS there is nothing else', async (t) => {
  for (const [name, bytes, told] of [
    ['SETTINGS', settingsFrame([]), ['sent 4/1 0', 'ready']],
    ['PING', frame(frameType.ping, 0, 0, Buffer.alloc(8)), ['failed: PROTOCOL_ERROR']],
    ['a head', headersFrame(7, [['x', 'y']]), ['failed: PROTOCOL_ERROR']],
    ['an extension', frame(0xfa, 0, 0), ['failed: PROTOCOL_ERROR']],
    ['an ACK', frame(frameType.settings, flag.ack, 0), ['failed: PROTOCOL_ERROR']],
  ] as const) {
    const stage = new Stage('open', false, false);
    t.notOk(stage.frames.isBetweenMessages);
    stage.send(bytes);
    t.same(stage.told, told, name);
    t.equal(stage.frames.isBetweenMessages, name === 'SETTINGS', name);
  }
});

t.test('content before the head, or another length than announced, is malformed', async (t) => {
  for (const [name, awaitsHead, expected, bytes, told] of [
    ['before the head', true, -1, dataFrame(3, 'a'), ['stream 3: PROTOCOL_ERROR']],
    ['an empty piece before the head', true, -1, dataFrame(3, ''), ['stream 3: PROTOCOL_ERROR']],
    ['as announced', false, 3, dataFrame(3, 'abc', true), ['got abc', 'ended']],
    ['too much', false, 2, dataFrame(3, 'abc'), ['stream 3: PROTOCOL_ERROR']],
    ['too little', false, 4, dataFrame(3, 'abc', true), ['stream 3: PROTOCOL_ERROR']],
    ['trailers too early', false, 4, trailers, ['block of 3, 5 bytes, end', 'stream 3: PROTOCOL_ERROR']],
  ] as const) {
    const stage = new Stage('open', awaitsHead);
    const stream = stage.streams.get(3);
    if (stream !== undefined) stream.expected = expected;
    stage.send(bytes);
    t.same(stage.told, told, name);
  }
});

t.test("a peer's SETTINGS change the windows of the streams that are open", async (t) => {
  const stage = new Stage();
  for (const [size, window] of [
    [100, 100],
    [0, 0],
    [70_000, 70_000],
  ] as const) {
    stage.send(settingsFrame([[setting.initialWindowSize, size]]));
    t.equal(stage.streams.get(3)?.windows.send, window);
  }
  stage.told.length = 0;
  stage.send(windowFrame(3, 2 ** 31 - 1 - 70_000), settingsFrame([[setting.initialWindowSize, 70_001]]));
  t.same(stage.told, ['failed: FLOW_CONTROL_ERROR'], 'one would be larger than any may be');
});

const cheap: readonly (readonly [name: string, bytes: Buffer])[] = [
  ['PING', frame(frameType.ping, flag.ack, 0, Buffer.alloc(8))],
  ['SETTINGS', settingsFrame([])],
  ['empty DATA', dataFrame(3, '')],
  ['WINDOW_UPDATE', windowFrame(3, 1)],
  ['PRIORITY', frame(frameType.priority, 0, 3, Buffer.concat([numbers(1), Buffer.of(1)]))],
  ['GOAWAY', goawayFrame(3)],
  ['an extension', frame(0xfa, 0, 0)],
  ['RST_STREAM of what is over', resetFrame(5, 8)],
  ['DATA of what we have reset', dataFrame(5, 'a')],
];

t.test('frames that do no work have an end', async (t) => {
  for (const [name, bytes] of cheap) {
    const stage = new Stage();
    let sent = 0;
    while (sent < 50_000 && !stage.told.includes('limit http2_overhead')) {
      stage.send(bytes);
      // The peer that reset the stream once may reset it again.
      if (name.startsWith('DATA of')) stage.streams.rememberReset(5, 0);
      sent++;
    }
    t.ok(sent > 5000 && sent < 50_000, `${name}: ${sent}`);
    t.ok(stage.told.includes('failed: ENHANCE_YOUR_CALM'), name);
  }
});

t.test('content of a stream that was reset costs nothing, as far as the window of the stream went', async (t) => {
  const stage = new Stage();
  stage.streams.rememberReset(5, 20_000);
  for (let sent = 0; sent < 20_000; sent++) stage.send(dataFrame(5, 'a'));
  t.same(stage.told, []);
  let more = 0;
  for (; more < 50_000 && stage.told.length === 0; more++) stage.send(dataFrame(5, 'a'));
  t.ok(more > 5000 && more < 50_000, `${more} more`);
  t.same(stage.told, ['limit http2_overhead', 'failed: ENHANCE_YOUR_CALM']);
});

t.test('who has written what had to wait hears that it has left, also where the end is behind it', async (t) => {
  const stage = new Stage();
  const stream = stage.streams.get(3) as TestStream;
  t.notOk(stream.write(Buffer.alloc(70_000)));
  stream.onDrain(() => stage.tell('drained'));
  stream.finish(null);
  stage.told.length = 0;
  stage.send(windowFrame(0, 10_000), windowFrame(3, 10_000));
  stage.queue.pumpNewRoom();
  t.same(stage.told, ['room', 'sent 0/0 3', 'drained', 'end']);
});

t.test('the connection gets its room back as it is used, and no more than that', async (t) => {
  const stage = new Stage();
  const other = dataFrame(5, Buffer.alloc(16_384));
  for (let n = 0; n < 31; n++) stage.send(other);
  t.same(stage.told, []);
  stage.send(other);
  t.same(stage.told, [`sent 8 0 ${32 * 16_384}`], 'of streams that are over, too');
  t.equal(headerBlock([['x', 'y']]).length, 5, 'as the rows above count');
});
