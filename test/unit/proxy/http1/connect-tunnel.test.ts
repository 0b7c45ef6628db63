import t from 'tap';
import { onInternalFault } from '../../../../lib/proxy/guard.ts';
import { noKeeper } from '../../../../lib/proxy/kept.ts';
import { carryGuarded } from '../../../../lib/proxy/tcp/guarded-opening.ts';
import { connectedPair, stage } from '../../../support/lane-stage.ts';
import type { AppSocket } from '../../../support/raw-app.ts';
import { latin1 } from '../../../support/raw-http.ts';
import { until } from '../../../support/until.ts';

/*
 * An app that answers 200 to CONNECT as to any method, and goes on reading requests: what follows in the tunnel would be
 * requests that nobody has decided, with whatever identity the client makes up.
 */

t.setTimeout(180_000);

const connect = 'CONNECT a.example:80 HTTP/1.1\r\nHost: a.example:80\r\n\r\n';
const forged = 'GET /admin HTTP/1.1\r\nHost: a\r\nl5d-client-id: root\r\n\r\n';
/** Such an app, and all that it got behind its response. */
function keepsHttp(content: string): {
  readonly got: () => string;
  readonly raw: (c: AppSocket, chunk: Buffer) => void;
} {
  let got = '';
  const raw = (connection: AppSocket, chunk: Buffer): void => {
    const { socket } = connection;
    connection.pending = Buffer.concat([connection.pending, chunk]);
    const text = connection.pending.toString('latin1');
    const end = text.indexOf('\r\n\r\n');
    if (end === -1) return;
    if (got === '' && !socket.writableLength && connection.pending.length === chunk.length) {
      socket.write(`HTTP/1.1 200 OK\r\n\r\n${content}`);
    }
    got = text.slice(end + 4);
  };
  return { got: () => got, raw };
}

for (const [title, content] of [
  ['an empty answer', ''],
  ['content behind it', 'hello'],
] as const) {
  t.test(`requests behind ${title}`, async (t) => {
    const rows: readonly (readonly [name: string, early: string, late: readonly string[]])[] = [
      ['in one piece', '', [forged]],
      ['with the head of CONNECT', forged, []],
      ['byte by byte', '', [...forged]],
      ['behind empty lines', '', [`\r\n\r\n${forged}`]],
      ['without a version, and the end', '', ['GET /admin']],
      ['HTTP/2', '', ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n']],
    ];
    for (const [name, early, late] of rows) {
      const app = keepsHttp(content);
      const { open, lane } = await stage(t, 'fast', { raw: app.raw });
      const client = await open();
      client.send(latin1(connect + early));
      await client.reaches(() => client.received.includes('\r\n\r\n') || client.ended, 10_000);
      for (const piece of late) {
        if (client.ended) break;
        client.send(latin1(piece));
        await new Promise((resolve) => setImmediate(resolve));
      }
      client.halfClose();
      t.ok(await until('the end of the connection', () => client.ended), `${name}: the connection ends`);
      t.notMatch(app.got(), /GET \S+ HTTP|GET \/admin$|PRI \*/, 'and the app never gets it');
      t.match(lane.counts.badRequests.at(-1), /tunnel/, 'which is said');
    }
  });
}

t.test('what is no request goes on', async (t) => {
  const large = Buffer.alloc(700_000, '\0data').toString('latin1');
  for (const bytes of ['SSH-2.0-x\r\n', '\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03', large]) {
    const app = keepsHttp('');
    const { open } = await stage(t, 'fast', { raw: app.raw });
    const client = await open();
    client.send(latin1(connect));
    await client.reaches(() => client.received.includes('\r\n\r\n'), 10_000);
    client.send(latin1(bytes));
    await until('all of it', () => app.got().length === bytes.length);
    t.equal(app.got(), bytes);
    t.notOk(client.ended);
  }
});

t.test('a fault of ours ends the connection that it belongs to', async (t) => {
  for (const [title, ends] of [
    ['within a read', false],
    ['at the end', true],
  ] as const) {
    const faults: string[] = [];
    const unheard = onInternalFault(({ where, error }) => faults.push(`${where}: ${error}`));
    const [{ client, socket }, app] = [await connectedPair(t), await connectedPair(t)];
    carryGuarded(socket, app.socket, Buffer.alloc(0), noKeeper, () => {
      throw new Error('a fault');
    });
    client.send(latin1(ends ? 'GET /' : forged));
    if (ends) client.halfClose();
    await until('the end of the connection', () => client.ended);
    unheard();
    t.same(faults, ['a tunnel of CONNECT: Error: a fault'], title);
  }
});
