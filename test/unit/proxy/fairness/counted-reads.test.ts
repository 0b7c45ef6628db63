import t from 'tap';
import { turn } from '../../../../lib/proxy/fairness/turn.ts';
import { megabyte, stage } from '../../../support/lane-stage.ts';
import { meshed } from '../../../support/mesh.ts';
import { latin1 } from '../../../support/raw-http.ts';
import { until } from '../../../support/until.ts';

/* A record of TLS is never large, however much comes: what a client with TLS moves counts all the same. */

const upgrade = 'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';
const switching = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';

const rows: readonly (readonly [name: string, head: string, answer: Buffer | string])[] = [
  ['content', `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${4 * megabyte}\r\n\r\n`, ''],
  ['a tunnel', upgrade, switching],
];

for (const [name, head, answer] of rows) {
  t.test(`${name} over TLS has its turn`, async (t) => {
    let counted = 0;
    const { take } = turn;
    t.teardown(() => Object.assign(turn, { take }));
    const mesh = meshed('http/1.1');
    let came = 0;
    const raw = ({ socket }: { readonly socket: { write(bytes: Buffer | string): unknown } }, chunk: Buffer): void => {
      if (came === 0 && answer !== '') socket.write(answer);
      came += chunk.length;
    };
    const { open } = await stage(t, 'fast', { raw }, { tls: mesh.termination }, mesh.client);
    const client = await open();
    client.send(latin1(head));
    await until('its head to come', () => came > 0 && (answer === '' || client.received.length > 0));
    const before = came;
    let stopped = 0;
    turn.take = (bytes, reader) => {
      counted += bytes;
      if (counted < 512 * 1024 * (stopped + 1)) return take.call(turn, bytes, reader);
      stopped++;
      setImmediate(() => reader.nextTurn());
      return false;
    };
    client.send(Buffer.alloc(4 * megabyte));
    await until('all of it', () => came - before === 4 * megabyte, { lastSeen: () => `${came - before}` });
    t.ok(counted > 3 * megabyte, `${counted} bytes counted`);
    t.ok(stopped >= 6, `${stopped} times it had had its turn`);
  });
}
