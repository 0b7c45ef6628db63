import type { Socket } from 'node:net';
import t from 'tap';
import { get, post, runScenarios, type Scenario, stage, statuses } from '../../../support/lane-stage.ts';
import { ok } from '../../../support/raw-app.ts';
import { latin1, parseResponses } from '../../../support/raw-http.ts';
import { until } from '../../../support/until.ts';

// One table, two engines: what an HTTP/1.1 client and an app may expect of either lane, over real sockets. Here:
// what passes, and in which order.

/** Writes so many bytes in each turn, the rest of a long text at once. */
async function trickle(socket: Socket, bytes: Buffer, size: number): Promise<void> {
  const most = 300;
  for (let at = 0; at < bytes.length && at < most; at += size) {
    socket.write(bytes.subarray(at, Math.min(at + size, bytes.length)));
    await new Promise((resolve) => setImmediate(resolve));
  }
  if (size < most && bytes.length > most) socket.write(bytes.subarray(most));
}

const scenarios: Scenario[] = [
  {
    name: 'pipelined requests with refusals among them are answered in order',
    run: async (t, engine) => {
      const { app, open, lane } = await stage(t, engine);
      const client = await open();
      client.send(
        Buffer.concat([
          get('/1'),
          post('/DENIED', 'GET /x HTTP/1.1\r\n\r\n'),
          get('/2'),
          get('/DENIED'),
          post('/3', 'b'),
        ]),
      );
      const answers = await client.responses(['GET', 'POST', 'GET', 'GET', 'POST']);
      t.same(
        answers.map(({ status }) => status),
        [200, 403, 200, 403, 200],
      );
      t.same(
        app.requests.map(({ target, body }) => [target, body.toString()]),
        [
          ['/1', ''],
          ['/2', ''],
          ['/3', 'b'],
        ],
      );
      t.notOk(client.ended, 'the connection is kept');
      t.match(lane.counts, { decided: 5, started: 3, heads: 3, ended: 3, failed: 0 });
    },
  },
  {
    name: 'a client that repeats its requests, or sends others of the same length',
    run: async (t, engine) => {
      const { app, open, lane } = await stage(t, engine);
      const client = await open();
      const sent: (readonly [method: string, path: string, body: string])[] = [
        ['GET', '/a', ''],
        ['GET', '/a', ''],
        ['GET', '/b', ''],
        ['GET', '/b', ''],
        ['POST', '/a', 'one'],
        ['POST', '/a', 'two'],
        ['GET', '/b', ''],
        ['GET', '/DENIED', ''],
        ['GET', '/DENIED', ''],
      ];
      const methods: string[] = [];
      for (const [method, path, body] of sent) {
        const whole = method === 'GET' ? get(path) : post(path, body);
        // Head and body apart, so that a repeated head comes alone.
        client.send(whole.subarray(0, whole.length - body.length));
        if (body !== '') {
          await until('the head to arrive', () => lane.counts.decided > methods.length);
          client.send(latin1(body));
        }
        methods.push(method);
        await client.responses(methods);
      }
      t.same(statuses(client, methods), [200, 200, 200, 200, 200, 200, 200, 403, 403]);
      t.same(
        app.requests.map(({ method, target, body }) => [method, target, body.toString()]),
        sent.slice(0, 7),
      );
    },
  },
  {
    name: 'an app that repeats its responses, or sends others of the same length',
    run: async (t, engine) => {
      const head = (x: string, length = 4): string => `HTTP/1.1 200 OK\r\nX: ${x}\r\nContent-Length: ${length}\r\n\r\n`;
      /** What the app sends, in packets; and what comes of it. */
      const rows: readonly (readonly [method: string, packets: readonly string[], x: string, body: string])[] = [
        ['GET', [`${head('a')}body`], 'a', 'body'],
        ['GET', [`${head('a')}\r\n\r\n`], 'a', '\r\n\r\n'],
        ['GET', [`${head('b')}\r\n\r\n`], 'b', '\r\n\r\n'],
        ['GET', [head('b'), 'body'], 'b', 'body'],
        ['GET', [head('b').slice(0, 20), `${head('b').slice(20)}body`], 'b', 'body'],
        ['GET', [head('b').slice(0, -2), '\r\nbo', 'dy'], 'b', 'body'],
        ['GET', [`HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n${head('b')}body`], 'b', 'body'],
        ['HEAD', [head('b')], 'b', ''],
        ['GET', [`${head('b')}body`], 'b', 'body'],
        ['GET', [`${head('b', 2)}ok`], 'b', 'ok'],
      ];
      const answers = [...rows];
      const { open } = await stage(t, engine, {
        answer: (_request, { socket }) => {
          const [, packets] = answers.shift() ?? rows[0] ?? ['', []];
          void (async () => {
            for (const packet of packets) {
              socket.write(packet, 'latin1');
              await new Promise((resolve) => setTimeout(resolve, 5));
            }
          })();
        },
      });
      const client = await open();
      for (const [at, [method]] of rows.entries()) {
        client.send(latin1(`${method} /${at} HTTP/1.1\r\nHost: a\r\n\r\n`));
        const got = (await client.responses(rows.slice(0, at + 1).map(([each]) => each))).at(-1);
        const [, , x, body] = rows[at] as (typeof rows)[number];
        const field = got?.headers.find(([name]) => name === 'X')?.[1];
        t.same([got?.status, field, got?.body.toString()], [200, x, body], `response ${at}`);
      }
      t.notOk(client.ended, 'the connection is kept');
    },
  },
  {
    name: 'requests that only one lane can serve share a connection with plain ones',
    run: async (t, engine) => {
      const { app, open } = await stage(t, engine);
      const client = await open();
      const chunked = 'POST /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n';
      client.send(Buffer.concat([get('/1'), latin1(chunked), get('/3')]));
      t.same(
        (await client.responses(['GET', 'POST', 'GET'])).map(({ status }) => status),
        [200, 200, 200],
      );
      t.same(
        app.requests.map(({ target, body }) => [target, body.toString()]),
        [
          ['/1', ''],
          ['/2', 'abc'],
          ['/3', ''],
        ],
      );
    },
  },
  {
    name: 'no spelling of the identity header passes',
    run: async (t, engine) => {
      const { app, open } = await stage(t, engine);
      const client = await open();
      client.send(get('/', 'l5d-client-id: a\r\nL5D_Client_Id: b\r\nl5d.client.id: c\r\nl5d-client-idx: kept\r\n'));
      await client.responses(['GET']);
      const names = app.requests[0]?.headers.map(([name]) => name.toLowerCase()).filter((name) => /^l5d/.test(name));
      t.same(names, ['l5d-client-idx']);
    },
  },
  {
    name: 'HEAD, 204 and 304 end with their heads',
    run: async (t, engine) => {
      const { open, app } = await stage(t, engine, {
        answer: ({ target }, { socket }) => {
          if (target === '/204') socket.write('HTTP/1.1 204 No Content\r\n\r\n');
          else if (target === '/304') socket.write('HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n');
          else socket.write('HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n');
        },
      });
      const client = await open();
      client.send(
        Buffer.concat([latin1('HEAD /h HTTP/1.1\r\nHost: a\r\n\r\n'), get('/204'), get('/304'), get('/204')]),
      );
      const answers = await client.responses(['HEAD', 'GET', 'GET', 'GET']);
      t.same(
        answers.map(({ status, body }) => [status, body.length]),
        [
          [200, 0],
          [204, 0],
          [304, 0],
          [204, 0],
        ],
      );
      t.equal(app.requests.length, 4);
    },
  },
  {
    name: 'interim responses pass (RFC 9110 15.2) but for a 100 that nobody asked for, and none declares a body',
    run: async (t, engine) => {
      const { open } = await stage(t, engine, {
        answer: (_request, { socket }) =>
          socket.write(
            'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\nX: \xe9\r\n\r\n' +
              'HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\nContent-Length: 0\r\n\r\n' +
              'HTTP/1.1 104 Upload Resumption Supported\r\nUpload-Offset: 5\r\n\r\nHTTP/1.1 199 \r\n\r\n' +
              'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
            'latin1',
          ),
      });
      const client = await open();
      client.send(get('/'));
      await client.responses(['GET']);
      const stream = parseResponses(client.received, ['GET'], client.ended);
      t.equal(stream.fault, null);
      t.same(statuses(client, ['GET']), [102, 103, 104, 199, 200]);
      t.same(
        stream.responses.slice(0, 4).map(({ headers }) => headers),
        [[['X', '\xe9']], [['Link', '</a>; rel=preload']], [['Upload-Offset', '5']], []],
      );
    },
  },
  {
    // `Expect` is answered here, so that the app is never asked for it.
    name: 'a 100 Continue that nobody asked for is passed over',
    run: async (t, engine) => {
      const chunked = latin1('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n');
      const goOn = 'HTTP/1.1 100 Continue\r\n\r\n';
      const hints = 'HTTP/1.1 103 Early Hints\r\nLink: </HTTP/1.1 100 a>\r\n\r\n';
      const answer = (body: string): string => `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
      const rows: readonly (readonly [name: string, answers: string, statuses: readonly number[], body: string])[] = [
        ['one', goOn + answer('ok'), [200], 'ok'],
        ['three', goOn + goOn + goOn + answer('ok'), [200], 'ok'],
        ['with fields', `HTTP/1.1 100 \r\nA: b\r\n\r\n${answer('ok')}`, [200], 'ok'],
        ['between others', goOn + hints + goOn + answer('ok'), [103, 200], 'ok'],
        ['content that looks like it stays as it is', answer(goOn), [200], goOn],
        ['too many', goOn.repeat(101) + answer('ok'), [502], ''],
      ];
      for (const [name, answers, expected, body] of rows) {
        for (const size of [answers.length, 1]) {
          const { open, app } = await stage(t, engine, {
            answer: (_request, { socket }) => trickle(socket, latin1(answers), size),
          });
          const client = await open();
          // Twice on one connection to the app, where it stays.
          const times = expected.includes(200) ? 2 : 1;
          for (let i = 1; i <= times; i++) {
            client.send(i === 1 ? chunked : post('/', 'x'));
            const all = await client.responses(Array.from({ length: i }, () => 'POST'));
            t.equal(all.at(-1)?.body.toString('latin1'), body, `${name}, ${size} at once`);
          }
          const wanted = Array.from({ length: times }, () => expected).flat();
          t.same(statuses(client, ['POST', 'POST']), wanted, `${name}, ${size} at once`);
          t.ok(app.sockets.length <= 2, `${name}: a lane has one connection`);
        }
      }
    },
  },
  {
    // RFC 9110 9.3.6. Behind a tunnel the client's next request would reach the app undecided.
    name: 'CONNECT that the app refuses makes no tunnel',
    run: async (t, engine) => {
      const rows: readonly (readonly [answer: string, status: number])[] = [
        ['405 Method Not Allowed\r\nContent-Length: 4\r\n\r\nwhy?', 405],
        ['302 Found\r\nContent-Length: 0\r\n\r\n', 302],
        ['102 Processing\r\n\r\n', 502],
        ['100 Continue\r\n\r\n', 502],
      ];
      for (const [answer, status] of rows) {
        let received = '';
        const { open } = await stage(t, engine, {
          raw: ({ socket }, bytes) => {
            received += bytes.toString('latin1');
            socket.write(`HTTP/1.1 ${answer}`);
          },
        });
        const client = await open();
        client.send(latin1('CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\nGET /early HTTP/1.1\r\nHost: a\r\n\r\n'));
        await client.responses(['CONNECT']);
        client.send(latin1('GET /late HTTP/1.1\r\nHost: a\r\nl5d-client-id: root\r\n\r\n'));
        await client.waits(() => client.ended, 500);
        t.equal(statuses(client, ['CONNECT', 'GET', 'GET'])[0], status, answer);
        t.notMatch(received, /l5d-client-id/, `${answer}: the app gets no request that was not decided`);
      }
    },
  },
  {
    name: "the client's Connection: close ends its connection, not the app's",
    run: async (t, engine) => {
      const { open, app } = await stage(t, engine);
      for (let i = 0; i < 3; i++) {
        const client = await open();
        client.send(get('/', 'Connection: close\r\n'));
        t.ok(await until('the end of the connection', () => client.ended), 'ended');
        const [answer] = await client.responses(['GET']);
        t.match(answer?.headers.find(([name]) => name.toLowerCase() === 'connection')?.[1], /^close$/i);
      }
      t.equal(app.sockets.length, 1, 'one connection to the app for all');
    },
  },
  {
    name: "the app's Connection: close ends its connection, not the client's",
    run: async (t, engine) => {
      const { open, app } = await stage(t, engine, {
        answer: (_request, { socket }) =>
          socket.end('HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok'),
      });
      const client = await open();
      for (let i = 1; i <= 3; i++) {
        client.send(get(`/${i}`));
        const answers = await client.responses(Array(i).fill('GET'));
        t.equal(answers.length, i);
        t.notOk(answers[i - 1]?.headers.some(([name, value]) => /^connection$/i.test(name) && /close/i.test(value)));
      }
      t.notOk(client.ended);
      t.equal(app.sockets.length, 3);
    },
  },
  {
    name: 'a client that ends its side after a request gets its responses',
    run: async (t, engine) => {
      const { open, app } = await stage(t, engine, {
        answer: (_request, { socket }) => setTimeout(() => socket.write(ok), 50),
      });
      const client = await open();
      client.send(Buffer.concat([get('/1'), get('/2')]));
      client.halfClose();
      t.ok(await until('the end of the connection', () => client.ended), 'the proxy ends its side, too');
      t.same(statuses(client, ['GET', 'GET']), [200, 200]);
      t.equal(app.requests.length, 2);
    },
  },
  {
    name: 'a route changes headers, and nobody changes the identity',
    run: async (t, engine) => {
      const headerChanges = {
        add: [
          ['x-added', '1'],
          ['l5d-client-id', 'admin'],
        ],
        set: [['x-set', '2']],
        remove: ['x-removed', 'content-length'],
      } as const;
      const { open, app } = await stage(t, engine, {}, { headerChanges });
      const client = await open();
      client.send(
        latin1('POST / HTTP/1.1\r\nHost: a\r\nX-Set: 0\r\nX-Removed: 0\r\nX-Kept: 0\r\nContent-Length: 1\r\n\r\nx'),
      );
      await client.responses(['POST']);
      const seen = app.requests[0]?.headers
        .filter(([name]) => /^(?:x-|l5d)/i.test(name))
        .map(([name, value]) => `${name.toLowerCase()}: ${value}`);
      t.same(seen, ['x-kept: 0', 'x-added: 1', 'x-set: 2']);
      t.equal(app.requests[0]?.body.toString(), 'x');
    },
  },
];

await runScenarios(t, scenarios);
