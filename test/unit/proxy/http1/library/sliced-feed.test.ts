import t from 'tap';
import { SlicedFeed } from '../../../../../lib/proxy/http1/library/sliced-feed.ts';
import { halfOpenMs } from '../../../../../lib/proxy/http1/limits.ts';
import { connectedPair } from '../../../../support/lane-stage.ts';
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
  const feed = new SlicedFeed(socket, connection);
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
