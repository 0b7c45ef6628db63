import type { Socket } from 'node:net';
import t from 'tap';
import { HeldHeads } from '../../../../lib/proxy/http/held-heads.ts';
import { engines, startLane } from '../../../support/lanes.ts';
import { startRawApp } from '../../../support/raw-app.ts';
import { latin1, RawClient } from '../../../support/raw-http.ts';
import { until } from '../../../support/until.ts';

t.test('room for heads', async (t) => {
  const heads = new HeldHeads(100, 30);
  const rows: readonly (readonly [bytes: number, held: number | undefined, taken: boolean, after: number])[] = [
    [90, undefined, true, 90],
    [11, undefined, false, 90],
    [10, undefined, true, 100],
    [1, undefined, false, 100],
    [30, 0, true, 130],
    [1, 30, false, 130],
    [0, undefined, false, 130],
  ];
  for (const [bytes, held, taken, after] of rows) {
    t.equal(heads.take(bytes, held), taken, `${bytes} beside ${held}`);
    t.equal(heads.bytes, after);
  }
  heads.release(130);
  t.equal(heads.take(100), true, 'what was given back');
});

t.setTimeout(360_000);

const maxBufferedBytes = 1024 * 1024;

interface Row {
  readonly title: string;
  /** Bytes of padding in each head; and what a head may take of the bound at most, as received and as sent. */
  readonly padding: number;
  readonly fields: string;
  readonly clients: number;
}

const rows: readonly Row[] = [
  { title: 'heads that both lanes take', padding: 14 * 1024, fields: '', clients: 60 },
  { title: 'the largest', padding: 60 * 1024, fields: '', clients: 20 },
  {
    title: 'fields that do not go on',
    padding: 60 * 1024,
    fields: 'Connection: close\r\nL5d_Client_Id: x\r\n',
    clients: 20,
  },
  {
    title: 'upgrades',
    padding: 60 * 1024,
    fields:
      'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n',
    clients: 20,
  },
];

for (const engine of engines) {
  for (const { title, padding, fields, clients } of rows) {
    t.test(`${engine}: ${title}, while the app takes its time`, async (t) => {
      const waiting: Socket[] = [];
      const answer = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';
      const app = await startRawApp(t, {
        answer: ({ target }, { socket }) => {
          if (target === '/large') waiting.push(socket);
          else socket.write(answer);
        },
      });
      const lane = await startLane(t, { engine, app: app.port, limits: { maxBufferedBytes } });
      const head = latin1(`GET /large HTTP/1.1\r\nHost: a\r\n${fields}X-Pad: ${'p'.repeat(padding)}\r\n\r\n`);
      const open: RawClient[] = [];
      const ask = async (): Promise<RawClient> => {
        const client = await RawClient.open({ port: lane.port });
        t.teardown(() => client.destroy());
        client.send(head);
        open.push(client);
        return client;
      };
      const refused = (): number => open.filter(({ received }) => received.includes('HTTP/1.1 503 ')).length;
      // One after the other: of many at once, those whose heads have not come whole are cut off for want of room.
      for (let i = 1; i <= clients; i++) {
        await ask();
        await until('each to be sent on or refused', () => waiting.length + refused() === i, { everyMs: 1 });
      }
      // The other half is for what waits.
      const most = Math.floor(maxBufferedBytes / 2 / (2 * padding));
      t.ok(waiting.length <= most && waiting.length >= most - 1, `${waiting.length} of ${most} in flight`);
      t.equal(lane.counts.started, waiting.length, 'and the others were never begun');
      t.equal(lane.counts.limits.filter((limit) => limit === 'max_buffered_bytes').length, clients - waiting.length);
      t.ok(lane.counts.httpErrors.every((label) => label === 'loadshed'));

      const small = await RawClient.open({ port: lane.port });
      t.teardown(() => small.destroy());
      small.send(latin1('GET /small HTTP/1.1\r\nHost: a\r\n\r\n'));
      await until('a client of an ordinary head to be served', () => small.received.includes('200 OK'));

      // One goes away, the others are answered: all of it is there again.
      const inFlight = waiting.length;
      open.find(({ received }) => received.length === 0)?.destroy();
      for (const socket of waiting.splice(0)) if (!socket.destroyed) socket.write(answer);
      await until('all to have ended', () => lane.counts.ended === lane.counts.started);
      open.length = 0;
      for (let i = 0; i < inFlight; i++) await ask();
      await until('as many again', () => waiting.length === inFlight);
      t.equal(refused(), 0);
    });
  }
}
