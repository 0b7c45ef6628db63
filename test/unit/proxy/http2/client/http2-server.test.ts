import t, { type Test } from 'tap';
import { reasonName } from '../../../../../lib/proxy/http2/session/protocol.ts';
import {
  dataFrame,
  type Fields,
  flag,
  frame,
  type as frameType,
  goawayFrame,
  headerBlock,
  headersFrame,
  numbers,
  requestFields,
  resetFrame,
  setting,
  settingsFrame,
  windowFrame,
} from '../../../../support/http2-frames.ts';
import {
  type FrameApp,
  type FramePeer,
  okFields,
  openClient,
  type PeerOptions,
  startFrameApp,
} from '../../../../support/http2-peers.ts';
import { type Engine, engines, type Lane, startLane } from '../../../../support/lanes.ts';
import { until } from '../../../../support/until.ts';

/*
 * The engine as a server, held to RFC 9113 by frames that no library would send. Where the RFC leaves no choice both
 * engines must do the same; a row says so where they rightly differ.
 */

interface Stage {
  readonly lane: Lane;
  readonly app: FrameApp;
}

interface Row {
  /** Section of RFC 9113, and what is wrong or unusual. */
  readonly title: string;
  readonly settings?: PeerOptions['settings'];
  readonly consumes?: boolean;
  /** Sent after the client's preface and SETTINGS. */
  readonly send?: readonly Buffer[];
  /** Instead of `send`. */
  readonly run?: (client: FramePeer, stage: Stage) => Promise<void>;
  /**
   * `GOAWAY <code>`: the connection ends with it. Otherwise what becomes of streams, `1: 200, 3: STREAM_CLOSED`, and the
   * connection lives.
   */
  readonly expect: string;
  /** Where node:http2 does something else, most of it within its rights; null where it has a fault, and is not asked. */
  readonly library?: string | null;
}

const get = (id: number, path = '/', more: Fields = []): Buffer => headersFrame(id, requestFields(path, more));
const post = (id: number, path = '/', more: Fields = []): Buffer =>
  headersFrame(id, requestFields(path, more, 'POST'), false);
const block = (path = '/', more: Fields = [], method = 'GET'): Buffer => headerBlock(requestFields(path, more, method));
const ping = frame(frameType.ping, 0, 0, Buffer.alloc(8));
const priority = (id: number, on: number): Buffer =>
  frame(frameType.priority, 0, id, Buffer.concat([numbers(on), Buffer.of(16)]));
const pushPromise = (id: number): Buffer =>
  frame(frameType.pushPromise, flag.endHeaders, id, Buffer.concat([numbers(2), block()]));
const endBoth = flag.endHeaders | flag.endStream;

/** Brings a stream into a state of RFC 9113 5.1. */
const states = {
  idle: async () => {},
  open: async (client: FramePeer) => client.send(post(1, '/hold')),
  'half-closed (remote)': async (client: FramePeer) => client.send(get(1, '/hold')),
  'half-closed (local)': async (client: FramePeer) => {
    client.send(post(1, '/early'));
    await client.over(1);
  },
  'closed by END_STREAM': async (client: FramePeer) => {
    client.send(get(1));
    await client.over(1);
  },
  'closed by our RST_STREAM': async (client: FramePeer) => {
    client.send(post(1, '/hold', [['connection', 'close']]));
    await client.over(1);
  },
  'closed by their RST_STREAM': async (client: FramePeer) => client.send(post(1, '/hold'), resetFrame(1, 8)),
} satisfies Record<string, (client: FramePeer) => Promise<void>>;

type State = keyof typeof states;

const frames = {
  DATA: dataFrame(1, 'x'),
  'DATA with END_STREAM': dataFrame(1, 'x', true),
  HEADERS: headersFrame(1, [['x', 'y']], true),
  PRIORITY: priority(1, 3),
  RST_STREAM: resetFrame(1, 8),
  WINDOW_UPDATE: windowFrame(1, 1),
  CONTINUATION: frame(frameType.continuation, flag.endHeaders, 1, block()),
  PUSH_PROMISE: pushPromise(1),
} as const;

type FrameName = keyof typeof frames;

const fatal = 'GOAWAY PROTOCOL_ERROR';
const everywhere = { CONTINUATION: fatal, PUSH_PROMISE: fatal } as const;
const closedByUs = '1: PROTOCOL_ERROR, 3: 200';

/**
 * Every state and every frame. A stream of its own is asked for afterwards, 3, to see that the connection is of use.
 * `library` is for what node:http2 does otherwise.
 */
const transitions: Readonly<
  Record<State, Readonly<Record<FrameName, string | readonly [fast: string, library: string]>>>
> = {
  idle: {
    DATA: fatal,
    'DATA with END_STREAM': fatal,
    // No request: it has no pseudo-headers.
    HEADERS: '1: PROTOCOL_ERROR, 3: 200',
    PRIORITY: '3: 200',
    RST_STREAM: fatal,
    WINDOW_UPDATE: fatal,
    ...everywhere,
  },
  open: {
    DATA: '1: nothing, 3: 200',
    'DATA with END_STREAM': '1: nothing, 3: 200',
    HEADERS: '1: nothing, 3: 200',
    PRIORITY: '1: nothing, 3: 200',
    RST_STREAM: '1: nothing, 3: 200',
    WINDOW_UPDATE: '1: nothing, 3: 200',
    ...everywhere,
  },
  'half-closed (remote)': {
    DATA: ['1: STREAM_CLOSED, 3: 200', 'GOAWAY STREAM_CLOSED'],
    'DATA with END_STREAM': ['1: STREAM_CLOSED, 3: 200', 'GOAWAY STREAM_CLOSED'],
    HEADERS: ['1: STREAM_CLOSED, 3: 200', 'GOAWAY STREAM_CLOSED'],
    PRIORITY: '1: nothing, 3: 200',
    RST_STREAM: '1: nothing, 3: 200',
    WINDOW_UPDATE: '1: nothing, 3: 200',
    ...everywhere,
  },
  'half-closed (local)': {
    DATA: '1: 200, 3: 200',
    'DATA with END_STREAM': '1: 200, 3: 200',
    HEADERS: '1: 200, 3: 200',
    PRIORITY: '1: 200, 3: 200',
    RST_STREAM: '1: 200, 3: 200',
    WINDOW_UPDATE: '1: 200, 3: 200',
    ...everywhere,
  },
  'closed by END_STREAM': {
    DATA: ['GOAWAY STREAM_CLOSED', '1: 200, 3: 200'],
    'DATA with END_STREAM': ['GOAWAY STREAM_CLOSED', '1: 200, 3: 200'],
    HEADERS: ['GOAWAY STREAM_CLOSED', '1: 200, 3: 200'],
    PRIORITY: '1: 200, 3: 200',
    RST_STREAM: '1: 200, 3: 200',
    WINDOW_UPDATE: '1: 200, 3: 200',
    ...everywhere,
  },
  'closed by our RST_STREAM': {
    // They may have been on their way.
    DATA: closedByUs,
    'DATA with END_STREAM': closedByUs,
    HEADERS: closedByUs,
    PRIORITY: closedByUs,
    RST_STREAM: closedByUs,
    WINDOW_UPDATE: closedByUs,
    ...everywhere,
  },
  'closed by their RST_STREAM': {
    DATA: ['GOAWAY STREAM_CLOSED', '1: nothing, 3: 200'],
    'DATA with END_STREAM': ['GOAWAY STREAM_CLOSED', '1: nothing, 3: 200'],
    HEADERS: ['GOAWAY STREAM_CLOSED', '1: nothing, 3: 200'],
    PRIORITY: '1: nothing, 3: 200',
    RST_STREAM: '1: nothing, 3: 200',
    WINDOW_UPDATE: '1: nothing, 3: 200',
    ...everywhere,
  },
};

const rowsOfStates: readonly Row[] = (Object.keys(states) as State[]).flatMap((state) =>
  (Object.keys(frames) as FrameName[]).map((name): Row => {
    const wanted = transitions[state][name];
    const [fast, library] = typeof wanted === 'string' ? [wanted, wanted] : wanted;
    return {
      title: `5.1 ${state}: ${name}`,
      run: async (client) => {
        await states[state](client);
        client.send(frames[name], get(3));
      },
      expect: fast,
      library,
    };
  }),
);

const rows: readonly Row[] = [
  // 3.4
  { title: '3.4 the preface alone', send: [], expect: '' },
  { title: '3.4 SETTINGS must come first', settings: null, send: [get(1)], expect: fatal },
  {
    title: '3.4 an acknowledgement is no first SETTINGS',
    settings: null,
    send: [frame(frameType.settings, flag.ack, 0)],
    expect: fatal,
  },
  // 4.1
  { title: '4.1 a frame of an unknown type', send: [frame(0xf0, 0xff, 0, Buffer.alloc(8)), get(1)], expect: '1: 200' },
  { title: '4.1 and one on an idle stream', send: [frame(0xf0, 0xff, 1, Buffer.alloc(8)), get(1)], expect: '1: 200' },
  {
    title: '4.1 flags that are not defined',
    send: [frame(frameType.ping, 0x16, 0, Buffer.alloc(8)), frame(frameType.headers, endBoth | 0xd2, 1, block())],
    expect: '1: 200',
  },
  {
    title: '4.1 the reserved bit of the stream identifier',
    send: [frame(frameType.headers, endBoth, 0x80000001, block())],
    expect: '1: 200',
  },
  // 4.2
  { title: '4.2 DATA of 16,384 bytes', send: [post(1), dataFrame(1, Buffer.alloc(16_384), true)], expect: '1: 200' },
  {
    title: '4.2 DATA of 16,385 bytes',
    send: [post(1), dataFrame(1, Buffer.alloc(16_385), true)],
    expect: 'GOAWAY FRAME_SIZE_ERROR',
  },
  {
    title: '4.2 HEADERS of 16,385 bytes',
    send: [frame(frameType.headers, endBoth, 1, Buffer.concat([block(), Buffer.alloc(16_385)]).subarray(0, 16_385))],
    expect: 'GOAWAY FRAME_SIZE_ERROR',
  },
  {
    title: '4.2 an unknown frame of 16,385 bytes',
    send: [frame(0xf0, 0, 0, Buffer.alloc(16_385))],
    expect: 'GOAWAY FRAME_SIZE_ERROR',
  },
  // 4.3
  {
    title: '4.3 a block that cannot be decompressed',
    send: [frame(frameType.headers, endBoth, 1, Buffer.of(0xff, 0xff, 0xff, 0xff, 0xff))],
    expect: 'GOAWAY COMPRESSION_ERROR',
  },
  {
    title: '4.3 in trailers',
    send: [post(1, '/hold'), frame(frameType.headers, endBoth, 1, Buffer.of(0x80))],
    expect: 'GOAWAY COMPRESSION_ERROR',
  },
  {
    title: '4.3 on a stream that is refused for something else',
    send: [frame(frameType.headers, endBoth, 2, Buffer.of(0x80))],
    expect: 'GOAWAY COMPRESSION_ERROR',
    library: fatal,
  },
  {
    title: '4.3 PING inside a header block',
    send: [frame(frameType.headers, flag.endStream, 1, block()), ping],
    expect: fatal,
  },
  {
    title: '4.3 PRIORITY inside a header block',
    send: [frame(frameType.headers, flag.endStream, 1, block()), priority(1, 0)],
    expect: fatal,
  },
  {
    title: '4.3 an unknown frame inside a header block',
    send: [frame(frameType.headers, flag.endStream, 1, block()), frame(0xf0, 0, 1)],
    expect: fatal,
  },
  {
    title: '4.3 HEADERS of another stream inside a header block',
    send: [frame(frameType.headers, flag.endStream, 1, block()), get(3)],
    expect: fatal,
  },
  {
    title: '4.3 CONTINUATION of another stream',
    send: [
      frame(frameType.headers, flag.endStream, 1, block()),
      frame(frameType.continuation, flag.endHeaders, 3, block()),
    ],
    expect: fatal,
  },
  {
    title: '4.3 a table of no bytes is acknowledged by a size update',
    settings: [[setting.headerTableSize, 0]],
    run: sizeUpdate,
    expect: '1: 200',
  },
  // 5.1.1
  { title: '5.1.1 a client uses odd numbers', send: [get(2)], expect: fatal },
  {
    title: '5.1.1 numbers go up',
    send: [get(5, '/hold'), get(3)],
    expect: 'GOAWAY STREAM_CLOSED',
    library: '3: nothing, 5: nothing',
  },
  { title: '5.1.1 numbers may be left out', send: [get(7), get(2 ** 31 - 1)], expect: `7: 200, ${2 ** 31 - 1}: 200` },
  // 5.1.2
  {
    title: '5.1.2 256 streams at a time',
    run: concurrency,
    expect: '511: nothing, 513: REFUSED_STREAM, 515: 200',
    library: '511: nothing, 513: REFUSED_STREAM, 515: ENHANCE_YOUR_CALM',
  },
  // 5.3.1
  {
    title: '5.3.1 HEADERS that depend on themselves',
    send: [frame(frameType.headers, endBoth | flag.priority, 1, Buffer.concat([numbers(1), Buffer.of(1), block()]))],
    expect: fatal,
  },
  { title: '5.3.1 PRIORITY that depends on itself', send: [priority(1, 1)], expect: fatal, library: '' },
  {
    title: '5.3 priorities are not used',
    send: [
      priority(9, 1),
      frame(
        frameType.headers,
        endBoth | flag.priority,
        1,
        Buffer.concat([numbers(0x80000003), Buffer.of(255), block()]),
      ),
      priority(1, 5),
    ],
    expect: '1: 200',
  },
  // 6.1
  { title: '6.1 DATA on stream 0', send: [dataFrame(0, 'x')], expect: fatal },
  {
    title: '6.1 padding',
    send: [
      post(1, '/echo'),
      frame(frameType.data, flag.padded | flag.endStream, 1, Buffer.from('\x03abc\0\0\0', 'latin1')),
    ],
    expect: '1: 200',
  },
  {
    title: '6.1 nothing but padding',
    send: [
      post(1, '/echo'),
      frame(frameType.data, flag.padded | flag.endStream, 1, Buffer.from('\x03\0\0\0', 'latin1')),
    ],
    expect: '1: 200',
    library: null,
  },
  {
    title: '6.1 padding as long as the frame',
    send: [post(1, '/hold'), frame(frameType.data, flag.padded | flag.endStream, 1, Buffer.from('\x04abc', 'latin1'))],
    expect: fatal,
  },
  {
    title: '6.1 padding without its length',
    send: [post(1, '/hold'), frame(frameType.data, flag.padded | flag.endStream, 1)],
    expect: fatal,
  },
  // 6.2
  { title: '6.2 HEADERS on stream 0', send: [get(0)], expect: fatal },
  {
    title: '6.2 padding and priority',
    send: [
      frame(
        frameType.headers,
        endBoth | flag.padded | flag.priority,
        1,
        Buffer.concat([Buffer.of(4), numbers(0), Buffer.of(15), block(), Buffer.alloc(4)]),
      ),
    ],
    expect: '1: 200',
  },
  {
    title: '6.2 more padding than there is',
    send: [frame(frameType.headers, endBoth | flag.padded, 1, Buffer.concat([Buffer.of(200), block()]))],
    expect: fatal,
  },
  {
    title: '6.2 padding without its length',
    send: [frame(frameType.headers, endBoth | flag.padded, 1)],
    expect: 'GOAWAY FRAME_SIZE_ERROR',
    library: fatal,
  },
  {
    title: '6.2 half a priority',
    send: [frame(frameType.headers, endBoth | flag.priority, 1, Buffer.alloc(4))],
    expect: 'GOAWAY FRAME_SIZE_ERROR',
  },
  {
    title: '6.2 an empty block',
    send: [frame(frameType.headers, endBoth, 1), get(3)],
    expect: '1: PROTOCOL_ERROR, 3: 200',
  },
  // 6.3
  { title: '6.3 PRIORITY on stream 0', send: [priority(0, 1)], expect: fatal, library: '' },
  {
    title: '6.3 PRIORITY of 4 bytes',
    send: [frame(frameType.priority, 0, 1, Buffer.alloc(4))],
    expect: 'GOAWAY FRAME_SIZE_ERROR',
  },
  // 6.4
  { title: '6.4 RST_STREAM on stream 0', send: [resetFrame(0, 8)], expect: fatal },
  {
    title: '6.4 RST_STREAM of 3 bytes',
    send: [get(1, '/hold'), frame(frameType.rstStream, 0, 1, Buffer.alloc(3))],
    expect: 'GOAWAY FRAME_SIZE_ERROR',
  },
  {
    title: '6.4 an unknown code',
    send: [get(1, '/hold'), resetFrame(1, 0xffffffff), get(3)],
    expect: '1: nothing, 3: 200',
  },
  // 6.5
  { title: '6.5 SETTINGS on a stream', send: [frame(frameType.settings, 0, 1)], expect: fatal },
  {
    title: '6.5 an acknowledgement with a payload',
    send: [frame(frameType.settings, flag.ack, 0, Buffer.alloc(6))],
    expect: 'GOAWAY FRAME_SIZE_ERROR',
  },
  {
    title: '6.5 SETTINGS of 5 bytes',
    send: [frame(frameType.settings, 0, 0, Buffer.alloc(5))],
    expect: 'GOAWAY FRAME_SIZE_ERROR',
  },
  {
    title: '6.5 two acknowledgements of one SETTINGS',
    send: [
      frame(frameType.settings, flag.ack, 0),
      frame(frameType.settings, flag.ack, 0),
      frame(frameType.settings, flag.ack, 0),
    ],
    expect: fatal,
  },
  { title: '6.5.2 ENABLE_PUSH 2', send: [settingsFrame([[setting.enablePush, 2]])], expect: fatal },
  {
    title: '6.5.2 INITIAL_WINDOW_SIZE 2^31',
    send: [settingsFrame([[setting.initialWindowSize, 2 ** 31]])],
    expect: 'GOAWAY FLOW_CONTROL_ERROR',
  },
  { title: '6.5.2 MAX_FRAME_SIZE 16,383', send: [settingsFrame([[setting.maxFrameSize, 16_383]])], expect: fatal },
  { title: '6.5.2 MAX_FRAME_SIZE 2^24', send: [settingsFrame([[setting.maxFrameSize, 2 ** 24]])], expect: fatal },
  {
    title: '6.5.2 MAX_FRAME_SIZE 2^24 - 1',
    send: [settingsFrame([[setting.maxFrameSize, 2 ** 24 - 1]]), get(1, '/body')],
    expect: '1: 200',
  },
  {
    title: '6.5.2 unknown settings',
    send: [
      settingsFrame([
        [0xff, 1],
        [0, 0],
      ]),
      get(1),
    ],
    expect: '1: 200',
  },
  { title: '6.5.3 every SETTINGS is acknowledged, after the one before', run: acknowledged, expect: '' },
  // 6.6, 8.4
  { title: '6.6 PUSH_PROMISE on stream 0', send: [pushPromise(0)], expect: fatal },
  // 6.7
  { title: '6.7 PING is answered with its payload', run: pinged, expect: '' },
  {
    title: '6.7 an acknowledgement that nobody asked for',
    send: [frame(frameType.ping, flag.ack, 0, Buffer.alloc(8))],
    expect: '',
    library: 'GOAWAY INTERNAL_ERROR',
  },
  { title: '6.7 PING on a stream', send: [frame(frameType.ping, 0, 1, Buffer.alloc(8))], expect: fatal },
  {
    title: '6.7 PING of 7 bytes',
    send: [frame(frameType.ping, 0, 0, Buffer.alloc(7))],
    expect: 'GOAWAY FRAME_SIZE_ERROR',
  },
  // 6.8
  { title: '6.8 GOAWAY on a stream', send: [frame(frameType.goaway, 0, 1, numbers(0, 0))], expect: fatal },
  {
    title: '6.8 GOAWAY of 7 bytes',
    send: [frame(frameType.goaway, 0, 0, Buffer.alloc(7))],
    expect: 'GOAWAY FRAME_SIZE_ERROR',
  },
  { title: '6.8 a client that goes away still gets its responses', run: goingAway, expect: '1: 200', library: null },
  // 6.9
  { title: '6.9 WINDOW_UPDATE of 0 on the connection', send: [windowFrame(0, 0)], expect: fatal },
  {
    title: '6.9 WINDOW_UPDATE of 0 on a stream',
    send: [get(1, '/hold'), windowFrame(1, 0), get(3)],
    expect: '1: PROTOCOL_ERROR, 3: 200',
    library: fatal,
  },
  { title: '6.9 the reserved bit of an increment', send: [windowFrame(0, 0x80000001), get(1)], expect: '1: 200' },
  {
    title: '6.9 WINDOW_UPDATE of 3 bytes',
    send: [frame(frameType.windowUpdate, 0, 0, Buffer.alloc(3))],
    expect: 'GOAWAY FRAME_SIZE_ERROR',
  },
  {
    title: "6.9.1 a connection's window above 2^31 - 1",
    send: [windowFrame(0, 2 ** 31 - 1)],
    expect: 'GOAWAY FLOW_CONTROL_ERROR',
  },
  {
    title: "6.9.1 a stream's window above 2^31 - 1",
    send: [get(1, '/hold'), windowFrame(1, 2 ** 31 - 1), get(3)],
    expect: '1: FLOW_CONTROL_ERROR, 3: 200',
    library: 'GOAWAY FLOW_CONTROL_ERROR',
  },
  {
    title: '6.9.1 DATA beyond the window of the stream',
    run: beyondStream,
    expect: '1: FLOW_CONTROL_ERROR, 3: 200',
    library: 'GOAWAY FLOW_CONTROL_ERROR',
  },
  {
    title: '6.9.1 DATA beyond the window of the connection',
    run: beyondConnection,
    // What has come has its room back at once, so that nobody can be beyond it; each stream has its own bound.
    expect: '1: FLOW_CONTROL_ERROR, 3: FLOW_CONTROL_ERROR',
    library: 'GOAWAY FLOW_CONTROL_ERROR',
  },
  {
    title: '6.9.2 INITIAL_WINDOW_SIZE that brings a window above 2^31 - 1',
    send: [get(1, '/hold'), windowFrame(1, 2 ** 31 - 1 - 65_535), settingsFrame([[setting.initialWindowSize, 65_536]])],
    expect: 'GOAWAY FLOW_CONTROL_ERROR',
  },
  { title: '6.9.2 a window becomes negative while data waits', consumes: false, run: negative, expect: '1: 200' },
  {
    title: '6.9.2 INITIAL_WINDOW_SIZE 0, then room one byte at a time',
    settings: [[setting.initialWindowSize, 0]],
    consumes: false,
    run: byteByByte,
    expect: '1: 200',
    library: null,
  },
  {
    title: '6.9.1 the window of the connection holds all streams',
    consumes: false,
    run: sharedWindow,
    expect: '1: 200, 3: 200',
    library: '1: 200 NO_ERROR, 3: 200',
  },
  {
    title: '6.9 an empty DATA frame with END_STREAM needs no room',
    settings: [[setting.initialWindowSize, 0]],
    send: [get(1, '/empty')],
    expect: '1: 200',
    library: null,
  },
  // 6.10
  {
    title: '6.10 CONTINUATION after a complete block',
    send: [get(1, '/hold'), frame(frameType.continuation, flag.endHeaders, 1)],
    expect: fatal,
  },
  { title: '6.10 CONTINUATION on stream 0', send: [frame(frameType.continuation, flag.endHeaders, 0)], expect: fatal },
  {
    title: '6.10 a block in many pieces, some of them empty',
    run: pieces,
    expect: '1: 200',
    library: 'GOAWAY INTERNAL_ERROR',
  },
  // 8.1
  {
    title: '8.1 trailers',
    send: [post(1, '/echo'), dataFrame(1, 'abc'), headersFrame(1, [['x', 'y']])],
    expect: '1: 200',
  },
  {
    title: '8.1 trailers without END_STREAM',
    send: [post(1, '/hold'), headersFrame(1, [['x', 'y']], false), get(3)],
    expect: '1: PROTOCOL_ERROR, 3: 200',
  },
  {
    title: '8.1 trailers with a pseudo-header',
    send: [post(1, '/hold'), headersFrame(1, [[':path', '/x']]), get(3)],
    expect: '1: PROTOCOL_ERROR, 3: 200',
  },
  {
    title: '8.1 trailers with a field of a connection',
    send: [post(1, '/hold'), headersFrame(1, [['connection', 'x']]), get(3)],
    expect: '1: PROTOCOL_ERROR, 3: 200',
  },
  {
    title: '8.1.1 content as long as announced',
    send: [post(1, '/', [['content-length', '3']]), dataFrame(1, 'ab'), dataFrame(1, 'c', true)],
    expect: '1: 200',
  },
  {
    title: '8.1.1 less content than announced',
    send: [post(1, '/hold', [['content-length', '3']]), dataFrame(1, 'ab', true), get(3)],
    expect: '1: PROTOCOL_ERROR, 3: 200',
  },
  {
    title: '8.1.1 less content than announced, then trailers',
    send: [post(1, '/hold', [['content-length', '3']]), dataFrame(1, 'ab'), headersFrame(1, [['x', 'y']]), get(3)],
    expect: '1: PROTOCOL_ERROR, 3: 200',
  },
  {
    title: '8.1.1 more content than announced',
    send: [post(1, '/hold', [['content-length', '3']]), dataFrame(1, 'abcd'), get(3)],
    expect: '1: PROTOCOL_ERROR, 3: 200',
    library: 'GOAWAY INTERNAL_ERROR',
  },
  {
    title: '8.1.1 no content where some was announced',
    send: [get(1, '/hold', [['content-length', '3']]), get(3)],
    expect: '1: PROTOCOL_ERROR, 3: 200',
  },
  {
    title: '8.1.1 a Content-Length that is none',
    send: [post(1, '/hold', [['content-length', '3x']]), get(3)],
    expect: '1: PROTOCOL_ERROR, 3: 200',
  },
  {
    title: '8.1.1 the same Content-Length twice',
    send: [
      post(1, '/hold', [
        ['content-length', '3'],
        ['content-length', '3'],
      ]),
      get(3),
    ],
    expect: '1: PROTOCOL_ERROR, 3: 200',
  },
  {
    title: '8.1 a response before the request is complete, which is then stopped',
    run: stopped,
    expect: '1: 200 NO_ERROR, 3: 200',
  },
  // 8.2, 8.3
  ...malformed([
    ['8.2 capitals in a name', [['X', 'y']]],
    ['8.2.2 Connection', [['connection', 'x']]],
    ['8.2.2 Proxy-Connection', [['proxy-connection', 'keep-alive']]],
    ['8.2.2 Transfer-Encoding', [['transfer-encoding', 'chunked']]],
    ['8.2.2 TE other than trailers', [['te', 'trailers, deflate']]],
    ['8.3 an unknown pseudo-header', [[':x', 'y']]],
    [
      '8.3 a pseudo-header behind fields',
      [
        ['x', 'y'],
        [':authority', 'web'],
      ],
    ],
    ['8.3.1 a second :method', [[':method', 'GET']]],
  ]),
  ...unlike(['8.2.1 a line end in a value', [['x', 'a\nb']]], ['8.2.1 a blank before a value', [['x', ' a']]]),
  { title: '8.2.2 TE: trailers', send: [get(1, '/', [['te', 'trailers']])], expect: '1: 200' },
  {
    title: '8.3.1 no :path',
    send: [
      headersFrame(
        1,
        requestFields('/').filter(([name]) => name !== ':path'),
      ),
      get(3),
    ],
    expect: '1: PROTOCOL_ERROR, 3: 200',
  },
  { title: '8.3.1 an empty :path', send: [get(1, ''), get(3)], expect: '1: PROTOCOL_ERROR, 3: 200' },
  { title: '8.3.1 OPTIONS *', send: [headersFrame(1, requestFields('*', [], 'OPTIONS'))], expect: '1: 200' },
  {
    title: '8.5 CONNECT is not for us',
    send: [
      headersFrame(1, [
        [':method', 'CONNECT'],
        [':authority', 'web:80'],
      ]),
      get(3),
    ],
    expect: '1: 405, 3: 200',
  },
  {
    title: '8.3.2 :status in a request',
    send: [get(1, '/', [[':status', '200']]), get(3)],
    expect: '1: PROTOCOL_ERROR, 3: 200',
  },
  // 10.5
  {
    title: '10.5 a header list of more than 64 KiB',
    send: [bigRequest(1), get(3)],
    expect: '1: 431, 3: 200',
    library: '1: REFUSED_STREAM, 3: 200',
  },
  {
    title: '10.5 and its content, which is read away',
    send: [bigRequest(1, false), dataFrame(1, 'x'), dataFrame(1, 'y', true), get(3)],
    expect: '1: 431 NO_ERROR, 3: 200',
    library: '1: REFUSED_STREAM, 3: 200',
  },
];

function malformed(list: readonly (readonly [title: string, fields: Fields])[]): Row[] {
  return list.map(([title, fields]) => ({
    title,
    send: [get(1, '/', fields), get(3)],
    expect: '1: PROTOCOL_ERROR, 3: 200',
  }));
}

/** nghttp2 drops such a field alone, and leaves the rest. */
function unlike(...list: readonly (readonly [title: string, fields: Fields])[]): Row[] {
  return malformed(list).map((row) => ({ ...row, library: '1: 200, 3: 200' }));
}

/** More than 64 KiB of fields, in one HEADERS and as many CONTINUATIONs as it takes. */
function bigRequest(id: number, endStream = true): Buffer {
  const all = block(
    '/',
    Array.from({ length: 70 }, (_, i) => [`x-${i}`, 'a'.repeat(1000)] as const),
  );
  return inPieces(id, all, 16_000, endStream);
}

function inPieces(id: number, all: Buffer, size: number, endStream: boolean): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < all.length; at += size) {
    const last = at + size >= all.length ? flag.endHeaders : 0;
    const payload = all.subarray(at, at + size);
    parts.push(
      at === 0
        ? frame(frameType.headers, last | (endStream ? flag.endStream : 0), id, payload)
        : frame(frameType.continuation, last, id, payload),
    );
  }
  return Buffer.concat(parts);
}

/** RFC 9113 4.3.1: who promises a smaller table may insist on a size update in the next block (nghttp2 does). */
async function sizeUpdate(client: FramePeer): Promise<void> {
  client.send(get(1));
  await client.over(1);
  const first = client.frames.find(({ type }) => type === frameType.headers)?.payload[0] ?? 0;
  if ((first & 0xe0) !== 0x20) throw new Error(`the block begins with ${first.toString(16)}`);
}

async function concurrency(client: FramePeer): Promise<void> {
  for (let id = 1; id <= 513; id += 2) client.send(get(id, '/hold'));
  await client.over(513);
  client.send(resetFrame(1, 8), get(515));
}

async function acknowledged(client: FramePeer): Promise<void> {
  for (let i = 0; i < 3; i++) client.send(settingsFrame([[setting.initialWindowSize, 70_000 + i]]));
  const answers = (): number =>
    client.frames.filter(({ type, flags }) => type === frameType.settings && flags === flag.ack).length;
  await client.until('four acknowledgements', () => answers() === 4);
}

async function pinged(client: FramePeer): Promise<void> {
  const payload = Buffer.from('payload!');
  client.send(frame(frameType.ping, 0, 0, payload));
  await client.until('the response', () =>
    client.frames.some((got) => got.type === frameType.ping && got.flags === flag.ack && got.payload.equals(payload)),
  );
}

async function goingAway(client: FramePeer, { app }: Stage): Promise<void> {
  client.send(get(1, '/hold'));
  await client.lives();
  await until('the app to be asked', () => app.requests.length > 0 || client.ended);
  client.send(goawayFrame(0));
  await client.lives();
  const request = app.requests[0];
  request?.connection.send(headersFrame(request.id, okFields));
}

async function beyondStream(client: FramePeer): Promise<void> {
  client.send(post(1, '/unread'));
  for (let sent = 0; sent <= 256 * 1024; sent += 16_384) client.send(dataFrame(1, Buffer.alloc(16_384)));
  client.send(get(3));
}

async function beyondConnection(client: FramePeer): Promise<void> {
  for (let id = 1; id <= 9; id += 2) {
    client.send(post(id, '/unread'));
    for (let sent = 0; sent < 256 * 1024; sent += 16_384) client.send(dataFrame(id, Buffer.alloc(16_384)));
  }
}

async function negative(client: FramePeer): Promise<void> {
  // The response is 40,000 bytes. 30,000 of room, of which the app's response takes all; then it is 20,000 less than none.
  client.send(settingsFrame([[setting.initialWindowSize, 30_000]]), get(1, '/40000'));
  await client.until('30,000 bytes', () => client.message(1).bytes === 30_000);
  client.send(settingsFrame([[setting.initialWindowSize, 10_000]]));
  await client.lives();
  client.send(windowFrame(1, 20_000));
  await client.lives();
  if (client.message(1).bytes !== 30_000) throw new Error(`${client.message(1).bytes} bytes without room`);
  client.send(windowFrame(1, 1));
  await client.until('one byte', () => client.message(1).bytes === 30_001);
  client.send(settingsFrame([[setting.initialWindowSize, 20_000]]));
  await client.over(1);
}

async function byteByByte(client: FramePeer): Promise<void> {
  client.send(get(1, '/body'));
  await client.until('the head', () => client.status(1) === 200);
  for (let i = 1; i <= 5; i++) {
    await client.lives();
    if (client.message(1).bytes !== i - 1) throw new Error(`${client.message(1).bytes} bytes, not ${i - 1}`);
    client.send(windowFrame(1, 1));
    await client.until(`byte ${i}`, () => client.message(1).bytes === i);
  }
  await client.over(1);
  if (client.content(1) !== 'hello') throw new Error(client.content(1));
}

async function sharedWindow(client: FramePeer): Promise<void> {
  client.send(get(1, '/40000'), get(3, '/40000'));
  const received = (): number => client.message(1).bytes + client.message(3).bytes;
  await client.until('65,535 bytes', () => received() === 65_535);
  await client.lives();
  client.send(windowFrame(0, 100));
  await client.until('100 more', () => received() === 65_635);
  await client.lives();
  if (received() !== 65_635) throw new Error(`${received()} bytes`);
  client.send(windowFrame(0, 100_000));
  await client.over(1);
  await client.over(3);
}

async function pieces(client: FramePeer): Promise<void> {
  const bytes = inPieces(1, block('/pieces'), 7, true);
  const at = bytes.readUIntBE(0, 3) + 9;
  // An empty one behind the first.
  client.send(bytes.subarray(0, at), frame(frameType.continuation, 0, 1), bytes.subarray(at));
}

async function stopped(client: FramePeer): Promise<void> {
  client.send(post(1, '/early'));
  await client.until('the rest to be refused', () => client.message(1).reset !== null);
  client.send(dataFrame(1, 'late'), get(3));
}

/** What it has come to, in the words of `expect`. */
function seen(client: FramePeer, expect: string): string {
  const { goaway } = client;
  if (goaway !== null && goaway.code !== 0) return `GOAWAY ${reasonName(goaway.code)}`;
  if (client.ended) return 'ended';
  return [...expect.matchAll(/(\d+): /g)].map(([, id]) => `${id}: ${client.outcome(Number(id))}`).join(', ');
}

async function answer(t: Test): Promise<FrameApp> {
  return startFrameApp(t, {
    onRequest: ({ connection, id, path }) => {
      if (path === '/early') connection.send(headersFrame(id, okFields));
    },
    onEnd: ({ connection, id, path, message }) => {
      const number = Number(path.slice(1));
      const content = path === '/body' ? 'hello' : Buffer.concat(message.parts);
      if (path === '/hold' || path === '/early') return;
      if (path === '/empty') {
        connection.send(headersFrame(id, okFields, false), dataFrame(id, '', true));
      } else if (number > 0) {
        connection.send(headersFrame(id, okFields, false));
        for (let left = number; left > 0; left -= 10_000)
          connection.send(dataFrame(id, Buffer.alloc(10_000), left === 10_000));
      } else if (content.length === 0) {
        connection.send(headersFrame(id, okFields));
      } else {
        connection.send(headersFrame(id, okFields, false), dataFrame(id, content, true));
      }
    },
  });
}

async function play(t: Test, engine: Engine, row: Row): Promise<void> {
  const app = await answer(t);
  const lane = await startLane(t, { engine: 'fast', http2Engine: engine, protocol: 'http2', app: app.port });
  const { settings = [], consumes = true } = row;
  const client = await openClient(t, lane.port, { settings, consumes });
  if (row.send !== undefined) client.send(...row.send);
  const expect = engine === 'library' ? (row.library ?? row.expect) : row.expect;
  await row.run?.(client, { lane, app });
  const ends = expect.startsWith('GOAWAY') || expect === 'ended';
  await client.until(expect, () => client.ended || (!ends && seen(client, expect) === expect), 2000).catch(() => {});
  const lives = !client.ended && (await client.lives());
  t.equal(seen(client, expect), expect);
  t.equal(lives, !ends, ends ? 'the connection has ended' : 'the connection lives');
  t.equal(client.fault, null);
}

t.setTimeout(600_000);

for (const engine of engines) {
  await t.test(engine, { timeout: 300_000 }, async (t) => {
    const asked = [...rows, ...rowsOfStates].filter(({ library }) => engine === 'fast' || library !== null);
    for (const row of asked) await t.test(row.title, (t) => play(t, engine, row));
  });
}
