import t from 'tap';
import { runScenarios, type Scenario, stage, statuses } from '../../../support/lane-stage.ts';
import { latin1 } from '../../../support/raw-http.ts';
import { until } from '../../../support/until.ts';

/*
 * HTTP/1.0 goes on as it came, with no field and no version invented: many a server refuses an HTTP/1.1 without a Host, and
 * takes a load balancer's health check without one.
 */

interface Row {
  readonly title: string;
  readonly sent: string;
  /** What the app gets; the same as was sent where nothing is said. */
  readonly got?: string;
}

const rows: readonly Row[] = [
  { title: 'nothing but a request line', sent: 'GET / HTTP/1.0\r\n\r\n' },
  { title: 'a field, and no Host', sent: 'GET /health HTTP/1.0\r\nUser-Agent: probe\r\n\r\n' },
  { title: 'a Host', sent: 'GET / HTTP/1.0\r\nHost: a\r\n\r\n' },
  { title: 'an empty Host', sent: 'GET / HTTP/1.0\r\nHost: \r\n\r\n' },
  { title: 'OPTIONS, and no Host', sent: 'OPTIONS / HTTP/1.0\r\n\r\n' },
  { title: 'OPTIONS *, and no Host', sent: 'OPTIONS * HTTP/1.0\r\n\r\n' },
  { title: 'HEAD', sent: 'HEAD / HTTP/1.0\r\n\r\n' },
  { title: 'content', sent: 'POST / HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello' },
  {
    title: 'an expectation, which HTTP/1.0 has not',
    sent: 'POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello',
    got: 'POST / HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello',
  },
  {
    title: 'an absolute target, whose authority is the Host (RFC 9112 3.2.2)',
    sent: 'GET http://b/x HTTP/1.0\r\n\r\n',
    got: 'GET /x HTTP/1.0\r\nHost: b\r\n\r\n',
  },
  {
    title: 'a connection to be kept: each has its own Connection field',
    sent: 'GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n',
    got: 'GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n',
  },
  {
    title: 'a connection to be closed: ours need not be',
    sent: 'GET / HTTP/1.0\r\nHost: a\r\nConnection: close\r\n\r\n',
    got: 'GET / HTTP/1.0\r\nHost: a\r\nconnection: keep-alive\r\n\r\n',
  },
  {
    title: 'fields that no fast lane takes',
    sent: 'GET / HTTP/1.0\r\nUpgrade: x\r\n\r\n',
    got: 'GET / HTTP/1.0\r\n\r\n',
  },
];

const scenarios: Scenario[] = [
  {
    name: 'what the app gets',
    run: async (t, engine) => {
      let received = '';
      const { open } = await stage(t, engine, {
        raw: ({ socket }, chunk) => {
          received += chunk.toString('latin1');
          if (received.endsWith('\r\n\r\n') || received.endsWith('hello')) {
            socket.end('HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n');
          }
        },
      });
      for (const { title, sent, got = sent } of rows) {
        received = '';
        const client = await open();
        client.send(latin1(sent));
        await until(`${title}: the end`, () => statuses(client, [sent.split(' ', 1)[0] as string]).length > 0);
        t.equal(received, got, title);
        t.same(statuses(client, ['GET']), [200], title);
        client.destroy();
      }
    },
  },
  {
    name: 'its connection to the app is used again where both have said so, and by nobody else',
    run: async (t, engine) => {
      const answers = ['Connection: keep-alive\r\n', '', 'Connection: close\r\n'];
      for (const [i, answer] of answers.entries()) {
        for (const [j, asked] of ['Connection: keep-alive\r\n', 'Connection: close\r\n', ''].entries()) {
          const { open, app } = await stage(t, engine, {
            answer: (_request, { socket }) => socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 0\r\n${answer}\r\n`),
          });
          for (let n = 0; n < 2; n++) {
            const client = await open();
            client.send(latin1(`GET / HTTP/1.0\r\nHost: a\r\n${asked}\r\n`));
            await client.responses(['GET']);
            client.destroy();
          }
          const isReused = i === 0 && j < 2;
          t.equal(
            app.sockets.length,
            isReused ? 1 : 2,
            `asked ${JSON.stringify(asked)}, told ${JSON.stringify(answer)}`,
          );
        }
      }
    },
  },
  {
    name: 'CONNECT to a forward proxy behind the port (Python, curl --proxy1.0)',
    run: async (t, engine) => {
      const { open, app } = await stage(t, engine, {
        raw: ({ socket }, chunk) => {
          const text = chunk.toString('latin1');
          socket.write(text.startsWith('CONNECT') ? 'HTTP/1.1 200 OK\r\n\r\n' : `echo ${text}`);
        },
      });
      for (const [fields, status] of [
        ['', 200],
        ['Host: 10.0.0.1:443\r\n', 200],
        ['Host: b\r\n', 400],
      ] as const) {
        const client = await open();
        client.send(latin1(`CONNECT 10.0.0.1:443 HTTP/1.0\r\n${fields}\r\n`));
        await until('the response', () => client.received.includes('\r\n\r\n'));
        t.match(client.received.toString('latin1'), new RegExp(`^HTTP/1.1 ${status} `), fields);
        if (status === 200) {
          client.send(latin1('\x16\x03\x01 hello'));
          await until('the tunnel', () => client.received.includes('echo'));
        }
        client.destroy();
      }
      t.equal(app.sockets.length, 2);
    },
  },
  {
    name: 'an expectation that nobody knows (RFC 9110 10.1.1), chunks in HTTP/1.0, and a host with an escape',
    run: async (t, engine) => {
      const { open, app } = await stage(t, engine);
      for (const [text, status] of [
        ['GET / HTTP/1.1\r\nHost: a\r\nExpect: foo\r\n\r\n', 417],
        ['GET / HTTP/1.1\r\nHost: a\r\nExpect: foo\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n', 417],
        ['POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n', 400],
        ['GET / HTTP/1.1\r\nHost: foo%2eexample\r\n\r\n', 400],
        ['GET http://foo%2eexample/ HTTP/1.1\r\nHost: a\r\n\r\n', 400],
      ] as const) {
        const client = await open();
        client.send(latin1(text));
        await until('the end', () => client.ended);
        t.same(statuses(client, ['GET']), [status], text);
        client.destroy();
      }
      t.same(app.requests, []);
    },
  },
];

await runScenarios(t, scenarios);
