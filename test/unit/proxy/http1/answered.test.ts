import t from 'tap';
import { startLane } from '../../../support/lanes.ts';
import { meshed } from '../../../support/mesh.ts';
import { startRawApp } from '../../../support/raw-app.ts';
import { latin1, parseResponses, RawClient } from '../../../support/raw-http.ts';
import { until } from '../../../support/until.ts';

/*
 * A request that is answered before all of its content has come, and then breaks a rule, or off: the connection ends, and
 * the answer must arrive nonetheless.
 */

const plain = 'POST /a HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello';
const denied = 'POST /DENIED HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n';

const rows: readonly (readonly [name: string, behind: string, isEnded: boolean])[] = [
  ['a chunk without its end', '5\r\nhello\r0\r\n\r\n', false],
  ['a chunk size that is none', 'x\r\n', false],
  ['the end of the client within a chunk', '5\r\nhel', true],
  ['the end of the client before any', '', true],
];

for (const engine of ['fast', 'library'] as const) {
  for (const link of ['plain', 'TLS'] as const) {
    t.test(`${engine}, ${link}`, async (t) => {
      const { termination, client: tls } = meshed('http/1.1');
      const app = await startRawApp(t, {
        answer: (_, { socket }) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'),
      });
      const decided: string[] = [];
      const onDecided = (request: string): void => void decided.push(request);
      const lane = await startLane(t, { engine, app: app.port, tls: termination, onDecided });
      for (const [name, behind, isEnded] of rows) {
        const text = plain + denied + behind;
        const least = plain.length + denied.length;
        const found: string[] = [];
        // Where the packets end decides what the proxy knows when it answers.
        for (let cut = plain.length - 5; cut <= text.length; cut += cut < least ? 9 : 1) {
          decided.length = 0;
          const client = await RawClient.open({ port: lane.port, ...(link === 'TLS' ? { tls } : {}) });
          client.send(latin1(text.slice(0, cut)));
          await new Promise((resolve) => setImmediate(resolve));
          client.send(latin1(text.slice(cut)));
          if (isEnded) client.halfClose();
          await until('the end of the connection', () => client.ended, { everyMs: 1 });
          const { responses, incomplete } = parseResponses(client.received, ['POST', 'POST'], true);
          const statuses = responses.map(({ status }) => status);
          // The fault may be seen before the head is decided, and an end before it be taken for no request.
          const second = isEnded && decided.length === 1 ? ['', '400'] : ['400', '403'];
          const isRight = second.some((status) => statuses.join() === ['200', status].filter(Boolean).join());
          if (!isRight || incomplete) found.push(`cut at ${cut}: ${statuses.join()} ${client.error?.code ?? ''}`);
          client.destroy();
        }
        t.same(found, [], name);
      }
    });
  }
}
