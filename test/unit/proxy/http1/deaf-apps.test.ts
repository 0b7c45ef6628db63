import type { Socket } from 'node:net';
import t from 'tap';
import { engines, startLane } from '../../../support/lanes.ts';
import { startRawApp } from '../../../support/raw-app.ts';
import { latin1, RawClient } from '../../../support/raw-http.ts';
import { until } from '../../../support/until.ts';

/*
 * An app that agrees to a tunnel and then reads nothing. Its client says more than any buffer holds and is gone; that is
 * seen by nobody, since its end is behind what waits, which is counted. When the tunnel has been idle for too long nothing stays
 * behind.
 */

const ways: readonly (readonly [title: string, leave: (client: RawClient) => void])[] = [
  ['closes', (client) => client.destroy()],
  ['resets', (client) => client.socket.resetAndDestroy()],
];

t.setTimeout(600_000);

for (const engine of engines) {
  for (const protocol of ['websocket', 'other']) {
    for (const [way, leave] of ways) {
      t.test(`${engine}, ${protocol}: a client that ${way}`, async (t) => {
        const sockets: Socket[] = [];
        const app = await startRawApp(t, {
          raw: ({ socket }) => {
            sockets.push(socket);
            socket.pause();
            socket.write(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n\r\n`);
          },
        });
        t.teardown(() => {
          for (const socket of sockets) socket.destroy();
        });
        const lane = await startLane(t, { engine, app: app.port, limits: { tunnelIdleTimeoutMs: 3000 } });
        const client = await RawClient.open({ port: lane.port });
        t.teardown(() => client.destroy());
        client.send(
          latin1(
            `GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n`,
          ),
        );
        await until('the switch', () => client.received.includes('101 '));
        t.equal(lane.counts.destinations, 1);
        const chunk = Buffer.alloc(1 << 20);
        let sent = 0;
        const fill = (): void => {
          while (sent < 64 && client.socket.write(chunk)) sent++;
        };
        client.socket.on('drain', fill);
        fill();
        let last = -1;
        // The kernel still moves some when both sides have stopped, and a reset is seen by whoever reads on for that.
        let looksStill = 0;
        await until(
          'nothing to move any more',
          () => {
            const now = client.socket.bytesWritten - client.socket.writableLength;
            looksStill = now === last && client.socket.writableNeedDrain ? looksStill + 1 : 0;
            last = now;
            return looksStill === 6;
          },
          { everyMs: 50 },
        );
        await until('what waits to be counted', () => lane.heldBytes() > 0, { timeoutMs: 2000 });
        leave(client);
        await until('the app to be let go', () => lane.counts.destinations === 0, { timeoutMs: 20_000 });
        t.equal(lane.live.size, 0);
        t.same(lane.counts.limits, ['tunnel_idle_timeout']);
        await until('what waited to be forgotten', () => lane.heldBytes() === 0);
      });
    }
  }
}
