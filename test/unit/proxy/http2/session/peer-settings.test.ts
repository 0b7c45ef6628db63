import t from 'tap';
import { PeerSettings } from '../../../../../lib/proxy/http2/session/peer-settings.ts';
import { errorCode, maxWindow, setting } from '../../../../../lib/proxy/http2/session/protocol.ts';

function settingsOf(maxEnablePush: 0 | 1): { readonly peer: PeerSettings; readonly shrunk: () => number } {
  let shrunk = 0;
  return { peer: new PeerSettings(maxEnablePush, { shrinkTable: () => shrunk++ }), shrunk: () => shrunk };
}

/** RFC 9113 6.5.2, RFC 8441 3, RFC 9218 2.1. */
const rows: readonly (readonly [name: string, id: number, value: number, ofClient: number, ofApp: number])[] = [
  ['a table of none', setting.headerTableSize, 0, 0, 0],
  ['pushes off', setting.enablePush, 0, 0, 0],
  ['pushes on: a client may', setting.enablePush, 1, 0, errorCode.protocolError],
  ['pushes beyond on', setting.enablePush, 2, errorCode.protocolError, errorCode.protocolError],
  ['no streams', setting.maxConcurrentStreams, 0, 0, 0],
  ['the largest window', setting.initialWindowSize, maxWindow, 0, 0],
  ['a larger one', setting.initialWindowSize, maxWindow + 1, errorCode.flowControlError, errorCode.flowControlError],
  ['the smallest frames', setting.maxFrameSize, 16_384, 0, 0],
  ['smaller ones', setting.maxFrameSize, 16_383, errorCode.protocolError, errorCode.protocolError],
  ['the largest frames', setting.maxFrameSize, 2 ** 24 - 1, 0, 0],
  ['larger ones', setting.maxFrameSize, 2 ** 24, errorCode.protocolError, errorCode.protocolError],
  ['lists of none', setting.maxHeaderListSize, 0, 0, 0],
  ['CONNECT with a protocol', setting.enableConnectProtocol, 1, 0, 0],
  ['more than a switch', setting.enableConnectProtocol, 2, errorCode.protocolError, errorCode.protocolError],
  ['no priorities', setting.noRfc7540Priorities, 1, 0, 0],
  ['more of none', setting.noRfc7540Priorities, 2, errorCode.protocolError, errorCode.protocolError],
  ['nothing known', 0, 2 ** 32 - 1, 0, 0],
  ['a number that nobody has yet', 0xffff, 2 ** 32 - 1, 0, 0],
];

t.test('each setting is in its bounds, or ends the connection', async (t) => {
  for (const [name, id, value, ofClient, ofApp] of rows) {
    t.equal(settingsOf(1).peer.set(id, value), ofClient, `${name}, of a client`);
    t.equal(settingsOf(0).peer.set(id, value), ofApp, `${name}, of the app`);
  }
});

t.test('what is asked for last counts, and what is refused does not', async (t) => {
  const { peer } = settingsOf(0);
  t.match(peer, {
    maxStreams: Number.POSITIVE_INFINITY,
    initialWindow: 65_535,
    maxListBytes: Number.POSITIVE_INFINITY,
  });
  for (const value of [7, 5]) {
    peer.set(setting.maxConcurrentStreams, value);
    peer.set(setting.initialWindowSize, 10 * value);
    peer.set(setting.maxHeaderListSize, 100 * value);
  }
  peer.set(setting.initialWindowSize, maxWindow + 1);
  t.match(peer, { maxStreams: 5, initialWindow: 50, maxListBytes: 500 });
});

t.test('a smaller table must be announced, also one that grows again at once (RFC 7541 4.2)', async (t) => {
  for (const [sizes, times] of [
    [[4096], 0],
    [[8192], 0],
    [[4095], 1],
    [[0, 4096], 1],
    [[8192, 4096], 1],
    [[100, 10], 2],
  ] as const) {
    const { peer, shrunk } = settingsOf(1);
    for (const size of sizes) peer.set(setting.headerTableSize, size);
    t.equal(shrunk(), times, sizes.join(', '));
  }
});

t.test('our one SETTINGS is acknowledged once', async (t) => {
  const { peer } = settingsOf(1);
  t.equal(peer.acknowledged(), errorCode.protocolError, 'no acknowledgement is the end of a preface (RFC 9113 3.4)');
  peer.haveCome = true;
  t.equal(peer.acknowledged(), errorCode.noError);
  t.equal(peer.acknowledged(), errorCode.protocolError);
});
