import t from 'tap';
import { dependsOnItself, formFault } from '../../../../../lib/proxy/http2/session/frame-form.ts';
import { errorCode, flag, frameType } from '../../../../../lib/proxy/http2/session/protocol.ts';

const { noError, protocolError, frameSizeError } = errorCode;

/** RFC 9113 6.1 to 6.10: on the connection, on a stream, and of which length. */
const rows: readonly (readonly [
  name: string,
  type: number,
  flags: number,
  id: number,
  length: number,
  fault: number,
])[] = [
  ['DATA', frameType.data, 0, 1, 0, noError],
  ['DATA of no stream', frameType.data, 0, 0, 0, protocolError],
  ['HEADERS', frameType.headers, 0, 1, 0, noError],
  ['HEADERS of no stream', frameType.headers, 0, 0, 0, protocolError],
  ['CONTINUATION of no stream', frameType.continuation, 0, 0, 0, protocolError],
  ['PRIORITY', frameType.priority, 0, 1, 5, noError],
  ['PRIORITY of no stream', frameType.priority, 0, 0, 5, protocolError],
  ['PRIORITY, too short', frameType.priority, 0, 1, 4, frameSizeError],
  ['PRIORITY, too long', frameType.priority, 0, 1, 6, frameSizeError],
  ['RST_STREAM', frameType.rstStream, 0, 1, 4, noError],
  ['RST_STREAM of no stream', frameType.rstStream, 0, 0, 4, protocolError],
  ['RST_STREAM, too short', frameType.rstStream, 0, 1, 3, frameSizeError],
  ['RST_STREAM, too long', frameType.rstStream, 0, 1, 5, frameSizeError],
  ['WINDOW_UPDATE of a stream', frameType.windowUpdate, 0, 1, 4, noError],
  ['WINDOW_UPDATE of the connection', frameType.windowUpdate, 0, 0, 4, noError],
  ['WINDOW_UPDATE, too short', frameType.windowUpdate, 0, 0, 3, frameSizeError],
  ['WINDOW_UPDATE, too long', frameType.windowUpdate, 0, 1, 5, frameSizeError],
  ['SETTINGS of none', frameType.settings, 0, 0, 0, noError],
  ['SETTINGS of two', frameType.settings, 0, 0, 12, noError],
  ['SETTINGS of one and a half', frameType.settings, 0, 0, 9, frameSizeError],
  ['SETTINGS of a stream', frameType.settings, 0, 1, 0, protocolError],
  ['ACK of SETTINGS', frameType.settings, flag.ack, 0, 0, noError],
  ['ACK of SETTINGS with some', frameType.settings, flag.ack, 0, 6, frameSizeError],
  ['PING', frameType.ping, 0, 0, 8, noError],
  ['PING of a stream', frameType.ping, 0, 1, 8, protocolError],
  ['PING, too short', frameType.ping, 0, 0, 7, frameSizeError],
  ['PING, too long', frameType.ping, flag.ack, 0, 9, frameSizeError],
  ['GOAWAY', frameType.goaway, 0, 0, 8, noError],
  ['GOAWAY that says why', frameType.goaway, 0, 0, 100, noError],
  ['GOAWAY, too short', frameType.goaway, 0, 0, 7, frameSizeError],
  ['GOAWAY of a stream', frameType.goaway, 0, 1, 8, protocolError],
  ['PUSH_PROMISE', frameType.pushPromise, 0, 1, 100, protocolError],
  ['an extension', 0xfa, 0xff, 1, 3, noError],
  ['an extension of no stream', 0xfa, 0xff, 0, 0, noError],
];

t.test('a frame has its place and its length', async (t) => {
  for (const [name, type, flags, id, length, fault] of rows) t.equal(formFault(type, flags, id, length), fault, name);
});

t.test('no stream depends on itself, exclusively or not', async (t) => {
  for (const [hex, isFault] of [
    ['00000003', true],
    ['80000003', true],
    ['00000005', false],
    ['00000000', false],
  ] as const) {
    t.equal(dependsOnItself(3, Buffer.from(`ff${hex}10`, 'hex'), 1), isFault, hex);
  }
});
