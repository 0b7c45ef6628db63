import t from 'tap';
import { get, stage } from '../../../../support/lane-stage.ts';
import type { AppSocket } from '../../../../support/raw-app.ts';
import { latin1, type RawClient, webSocketLines } from '../../../../support/raw-http.ts';
import { turns, until } from '../../../../support/until.ts';

/* A client that has said all it has to say to a tunnel, and ended its side, before the app agrees to one. */

t.setTimeout(300_000);

const chat = 'Connection: Upgrade\r\nUpgrade: chat/1\r\n';
const switched = (protocol: string): string =>
  `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n\r\n`;

const asks = [
  ['CONNECT', latin1('CONNECT a.example:80 HTTP/1.1\r\nHost: a.example:80\r\n\r\n'), 'HTTP/1.1 200 OK\r\n\r\n'],
  ['Upgrade', get('/tunnel', chat), switched('chat/1')],
  ['WebSocket', get('/tunnel', webSocketLines), switched('websocket')],
] as const;

/** The end of the client's side has been read. */
async function endsSide(client: RawClient): Promise<void> {
  client.halfClose();
  await until('the end to be sent', () => client.socket.writableFinished);
  await turns(10);
}

for (const [title, ask, agreement] of asks) {
  for (const early of ['', 'SSH-2.0-x\r\n']) {
    t.test(`${title}, ${early === '' ? 'no' : 'early'} bytes behind it`, async (t) => {
      const tunnels: AppSocket[] = [];
      const raw = (connection: AppSocket, chunk: Buffer): void => {
        if (connection.pending.length === 0) tunnels.push(connection);
        connection.pending = Buffer.concat([connection.pending, chunk]);
      };
      const { open, lane } = await stage(t, 'library', { raw });
      const client = await open();
      client.send(Buffer.concat([ask, latin1(early)]));
      await until('the app to be asked', () => tunnels.length === 1);
      await endsSide(client);
      tunnels[0]?.socket.write(agreement);
      await until('the app to be told of the end', () => tunnels[0]?.ended === true || client.ended);
      t.equal(tunnels[0]?.ended, true, 'the app sees the end');
      const text = tunnels[0]?.pending.toString('latin1') ?? '';
      t.equal(text.slice(text.indexOf('\r\n\r\n') + 4), early, 'behind all that came before it');
      await until('the end of the connection', () => client.ended);
      t.match(client.received.toString('latin1'), /HTTP\/1\.1 (101|200) [^\r]*\r\n(?!Content-Length)/);
      t.equal(client.error, null);
      await until('all to be over', () => lane.live.size === 0 && lane.counts.ended === lane.counts.started);
      t.same(lane.counts.badRequests, []);
    });
  }
}

t.test('CONNECT: half a request is refused at the end that came early', async (t) => {
  const answers: (() => void)[] = [];
  const heads: string[] = [];
  const raw = ({ socket }: AppSocket, chunk: Buffer): void => {
    heads.push(chunk.toString('latin1'));
    answers.push(() => socket.write('HTTP/1.1 200 OK\r\n\r\n'));
  };
  const { open, lane } = await stage(t, 'library', { raw });
  const client = await open();
  const [, connect] = asks[0];
  client.send(Buffer.concat([connect, latin1('GET /admin')]));
  await until('the app to be asked', () => answers.length === 1);
  await endsSide(client);
  answers[0]?.();
  await until('the end of the connection', () => client.ended);
  t.match(lane.counts.badRequests, [/tunnel/]);
  t.equal(heads.length, 1, 'and the app never gets it');
});
