import t from 'tap';
import { turn } from '../../../../../lib/proxy/fairness/turn.ts';
import { SlicedFeed } from '../../../../../lib/proxy/http1/library/sliced-feed.ts';
import { halfOpenMs } from '../../../../../lib/proxy/http1/limits.ts';
import { noKeeper } from '../../../../../lib/proxy/kept.ts';
import { connectedPair, megabyte, still } from '../../../../support/lane-stage.ts';
import { until } from '../../../../support/until.ts';

t.test('who has ended its side, with a request unfed, has its bound whatever Node sets between requests', async (t) => {
  const { client, socket } = await connectedPair(t);
  let handedOver = 0;
  let isWaiting = false;
  // As the parser: each piece is a request, and behind the first response Node takes its timeout back.
  socket.on('data', () => {
    handedOver++;
    isWaiting = true;
    socket.setTimeout(0);
  });
  let ended = 0;
  socket.once('end', () => socket.setTimeout(halfOpenMs));
  // The parser's is the last.
  socket.on('end', () => ended++);
  const connection = {
    get handedOver() {
      return handedOver;
    },
    get isWaiting() {
      return isWaiting;
    },
    isBlocked: false,
    fed: () => true,
    fedAll: () => {},
  };
  const feed = new SlicedFeed(socket, connection, noKeeper);
  client.send(Buffer.alloc(2000));
  client.halfClose();
  await until('the first to be fed, and the end', () => handedOver === 1 && socket.readableEnded);
  t.equal(ended, 0, 'the parser is told behind all');
  isWaiting = false;
  feed.resume();
  await until('the second to be fed', () => handedOver === 2);
  t.ok(feed.heldBytes > 0, 'another waits');
  t.equal(socket.timeout, halfOpenMs);
  for (let count = 2; ended === 0; count++) {
    isWaiting = false;
    feed.resume();
    await until('the next to be fed, or the end', () => handedOver > count || ended === 1);
  }
  t.equal(feed.heldBytes, 0);
});

t.test('what waits for its turn stays little, though a body is read meanwhile', async (t) => {
  const { client, socket } = await connectedPair(t);
  let fed = 0;
  socket.on('data', (piece: Buffer) => {
    fed += piece.length;
  });
  const connection = { handedOver: 0, isWaiting: false, isBlocked: false, fed: () => true, fedAll: () => {} };
  const feed = new SlicedFeed(socket, connection, noKeeper);
  const { mayWork, later } = turn;
  const putOff: (() => void)[] = [];
  const restore = (): void => void Object.assign(turn, { mayWork, later });
  t.teardown(restore);
  const slowly: typeof later = (run) => {
    putOff.push(run);
    return { run };
  };
  Object.assign(turn, { mayWork: () => false, later: slowly });
  client.send(Buffer.alloc(16 * megabyte));
  await until('it to wait for its turn', () => feed.isResting);
  // As Node does for the reader of a body that has come before.
  socket.resume();
  const held = await still('what is read', () => feed.heldBytes);
  t.ok(held < megabyte, `${held} bytes`);
  restore();
  t.equal(putOff.length, 1);
  putOff[0]?.();
  await until('all of it', () => fed === 16 * megabyte, { lastSeen: () => `${fed}` });
});
