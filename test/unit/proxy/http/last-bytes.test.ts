import { once } from 'node:events';
import t from 'tap';
import { turn } from '../../../../lib/proxy/fairness/turn.ts';
import { endAfterLastBytes } from '../../../../lib/proxy/http/last-bytes.ts';
import { connectedPair, megabyte } from '../../../support/lane-stage.ts';
import { until } from '../../../support/until.ts';

const rows: readonly (readonly [
  name: string,
  patience: 'patient' | 'impatient',
  peerEnds: boolean,
  isPaused: boolean,
])[] = [
  ['a peer that ends', 'patient', true, false],
  ['one that was not read for a while', 'patient', true, true],
  ['a peer that does not end', 'patient', false, false],
  ['one that broke the rules, and ends', 'impatient', true, false],
  ['one that broke the rules, and does not end', 'impatient', false, true],
];

t.test('a connection is over once its peer has read the last bytes, or has had the time for it', async (t) => {
  for (const [name, patience, peerEnds, isPaused] of rows) {
    const { client, socket } = await connectedPair(t);
    const peer = client.socket;
    socket.on('data', () => {});
    if (isPaused) socket.pause();
    const ended = once(peer, 'end');
    socket.write('last');
    const began = performance.now();
    endAfterLastBytes(socket, patience);
    // It still sends: unread, that would be a reset, and the last bytes would be lost.
    peer.write(Buffer.alloc(100_000));
    await ended;
    t.equal(client.received.toString(), 'last', `${name}: all is read`);
    if (peerEnds) peer.end();
    await until(`${name}: its end`, () => socket.destroyed);
    if (!peerEnds) t.ok(performance.now() - began >= 900, `${name}: it has a second for that`);
    peer.destroy();
  }
});

t.test('what is read away counts among large transfers, and goes on in its next turn', async (t) => {
  const { client, socket } = await connectedPair(t);
  const { take } = turn;
  t.teardown(() => Object.assign(turn, { take }));
  let asked = 0;
  turn.take = (_bytes, reader) => {
    asked++;
    setImmediate(() => reader.nextTurn());
    return false;
  };
  endAfterLastBytes(socket, 'impatient');
  client.send(Buffer.alloc(4 * megabyte));
  client.halfClose();
  await until('all of it', () => socket.destroyed);
  t.equal(socket.bytesRead, 4 * megabyte);
  t.ok(asked >= 16, `asked ${asked} times`);
});
