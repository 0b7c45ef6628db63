import t from 'tap';
import { get, runScenarios, type Scenario, stage, statuses } from '../../../support/lane-stage.ts';
import { latin1, oddLines } from '../../../support/raw-http.ts';
import { turns, until } from '../../../support/until.ts';

// Messages at the edge of HTTP/1: what they count as, and what they may cost.

const chunked = (path: string): string => `POST ${path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n`;
const chunk = (extension: number): string => `1;${'x'.repeat(extension)}\r\na\r\n`;

const scenarios: Scenario[] = [
  {
    name: 'a request whose body breaks off has been decided, and counts as that alone',
    run: async (t, engine) => {
      const { open, lane } = await stage(t, engine);
      const rows: readonly (readonly [title: string, body: string, end: 'half-close' | 'reset' | 'none'])[] = [
        ['the end of the connection', '5\r\nhel', 'half-close'],
        ['a reset', '5\r\nhel', 'reset'],
        ['what is no chunk', '5\r\nhelloXX', 'none'],
        ['what is no size', 'no size\r\n', 'none'],
      ];
      for (const [i, [title, body, end]] of rows.entries()) {
        const client = await open();
        client.send(latin1(chunked('/upload')));
        await until(`${title}: the decision`, () => lane.counts.decided === i + 1);
        client.send(latin1(body));
        if (end === 'half-close') client.halfClose();
        if (end === 'reset') client.reset();
        await until(`${title}: the end`, () => lane.live.size === 0);
        await until('all to be counted out', () => lane.counts.ended === lane.counts.started);
        t.same(lane.counts.badRequests, [], `${title}: never a malformed request as well`);
      }
      t.equal(lane.counts.started, rows.length);
    },
  },
  {
    name: 'what a request is answered whose content will never be whole is recorded as that',
    run: async (t, engine) => {
      const logged: number[] = [];
      const { open, lane } = await stage(
        t,
        engine,
        { raw: ({ socket }) => void socket.pause() },
        { limits: { stallTimeoutMs: 500 }, access: (_connection, { status }) => void logged.push(status) },
      );
      const rows: readonly (readonly [title: string, body: string, status: number])[] = [
        ['what is no size', 'no size\r\n', 400],
        ['an extension without end', `5;${'x'.repeat(40_000)}`, 431],
        ['content that does not come', '5\r\nhel', 408],
      ];
      for (const [i, [title, body, status]] of rows.entries()) {
        const client = await open();
        client.send(latin1(chunked('/upload')));
        await until(`${title}: the decision`, () => lane.counts.decided === i + 1);
        client.send(latin1(body));
        await until(`${title}: the end`, () => lane.counts.ended === i + 1);
        t.ok(await client.ends(10_000), title);
        t.same(statuses(client, ['POST']), [status], title);
      }
      t.same(lane.counts.httpErrors, []);
      const client = await open();
      client.send(latin1('POST /deaf HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n'));
      const fill = (): void => {
        while (client.socket.write(Buffer.alloc(1 << 18)));
      };
      client.socket.on('drain', fill);
      fill();
      await until('an app that reads nothing to be given up', () => lane.counts.ended === rows.length + 1);
      t.same(lane.counts.refusals, [400, 431, 408, 504]);
      t.same(logged, lane.counts.refusals, 'in the access log, too');
      t.same(lane.counts.httpErrors, ['i/o'], 'an app that does not read has failed');
      t.same(lane.counts.badRequests, [], 'none of them counts as anything else');
    },
  },
  {
    name: 'a response that the request timeout cuts has failed',
    run: async (t, engine) => {
      const { open, lane } = await stage(
        t,
        engine,
        { answer: (_request, { socket }) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe') },
        { limits: { requestTimeoutMs: 500 } },
      );
      const client = await open();
      client.send(latin1('GET / HTTP/1.1\r\nHost: a\r\n\r\n'));
      t.ok(await client.ends(10_000));
      await until('it to be counted out', () => lane.counts.ended === 1);
      t.same(lane.counts.limits, ['request_timeout']);
      t.same(lane.counts.errors, ['unclassified']);
    },
  },
  {
    name: 'content that breaks off behind its response gets no second one, and counts as nothing more',
    run: async (t, engine) => {
      const { open, lane } = await stage(t, engine);
      for (const odd of ['', oddLines]) {
        for (const [body, isEnded] of [
          ['x\r\n', false],
          ['5\r\nhelloXX', false],
          ['5\r\nhel', true],
        ] as const) {
          const client = await open();
          client.send(latin1(`${chunked('/DENIED').slice(0, -2)}${odd}\r\n`));
          await client.responses(['POST']);
          // Whatever follows a response has had its turn.
          await turns(2);
          client.send(latin1(body));
          if (isEnded) client.halfClose();
          await until('the end of the connection', () => client.ended);
          t.same(statuses(client, ['POST', 'POST']), [403], `${odd} ${body}`);
        }
      }
      t.same(lane.counts.badRequests, []);
    },
  },
  {
    name: 'an expectation of HTTP/1.0 is passed over',
    run: async (t, engine) => {
      const { open, app } = await stage(t, engine);
      const client = await open();
      client.send(latin1('POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n'));
      await until('the request to begin', () => app.sockets.length === 1);
      client.send(latin1('hello'));
      await until('the end of the connection', () => client.ended);
      t.same(statuses(client, ['POST']), [200]);
      t.same(
        app.requests.map(({ body }) => body.toString()),
        ['hello'],
      );
    },
  },
  {
    name: 'chunks in HTTP/1.0 are refused, and nothing follows them (RFC 9112 6.1)',
    run: async (t, engine) => {
      for (const target of ['/', '/DENIED']) {
        const { open, app, lane } = await stage(t, engine);
        const client = await open();
        const head = `POST ${target} HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n`;
        client.send(Buffer.concat([latin1(`${head}5\r\nhello\r\n0\r\n\r\n`), get('/2')]));
        client.send(get('/3'));
        await until('the end of the connection', () => client.ended);
        t.same(statuses(client, ['POST', 'GET', 'GET']), [400]);
        t.match(client.received.toString('latin1'), /connection: close/i);
        t.same(app.requests, []);
        t.equal(lane.counts.decided, 0);
      }
    },
  },
  {
    name: 'a connection that is reset says nothing about a message',
    run: async (t, engine) => {
      const { open, lane } = await stage(t, engine);
      for (const bytes of ['', 'GET / HT', 'GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n']) {
        const client = await open();
        client.send(latin1(bytes));
        if (bytes.endsWith('\r\n\r\n')) await client.responses(['GET']);
        client.reset();
        await until('the connection to be over', () => lane.live.size === 0);
      }
      t.same(lane.counts.badRequests, []);
    },
  },
  {
    name: 'chunks that are nearly all extensions',
    run: async (t, engine) => {
      const { open, lane, app } = await stage(t, engine);
      const client = await open();
      client.send(latin1(chunked('/extended')));
      let sent = 0;
      // As fast as it is taken, until the proxy has had enough.
      while (!client.ended && sent < 8 << 20) {
        const piece = latin1(chunk(2000).repeat(16));
        sent += piece.length;
        client.send(piece);
        await new Promise((resolve) => setImmediate(resolve));
      }
      t.ok(sent < 8 << 20, `it ended after ${sent} bytes`);
      await until('the connection to be over', () => lane.live.size === 0);
      await until('the app to see it broken off', () => app.sockets.every(({ closed }) => closed));
      t.same(app.requests, [], 'and never whole');
      t.equal(lane.counts.ended, lane.counts.started);

      const honest = await open();
      honest.send(latin1(`${chunked('/tiny')}${'1\r\na\r\n'.repeat(20_000)}0\r\n\r\n`));
      const [answer] = await honest.responses(['POST']);
      t.equal(answer?.status, 200, 'a body of tiny chunks is none of that');
      t.equal(app.requests.at(-1)?.body.length, 20_000);
      const some = await open();
      some.send(latin1(`${chunked('/some')}${`400;signature=abc\r\n${'a'.repeat(1024)}\r\n`.repeat(1000)}0\r\n\r\n`));
      t.equal((await some.responses(['POST']))[0]?.status, 200, 'nor one that has an extension in each chunk');
    },
  },
  {
    name: 'a request line without a version is answered at once',
    run: async (t, engine) => {
      for (const line of ['GET /\r\n', 'GET /\n', '\r\nGET /secret\r\n', 'GET http://a/ \r\n', 'FOO /\r\n']) {
        const { open, lane, app } = await stage(t, engine);
        const client = await open();
        const startedAt = Date.now();
        client.send(latin1(line));
        t.ok(await client.ends(10_000), JSON.stringify(line));
        t.ok(Date.now() - startedAt < 9_000);
        t.same(statuses(client, ['GET']), [400], JSON.stringify(line));
        t.same(app.sockets, [], 'the app is not called');
        t.equal(lane.counts.badRequests.length, 1);
      }
    },
  },
  {
    name: 'a response has the fields that the app gave it, and says when it is the last',
    run: async (t, engine) => {
      const { open } = await stage(t, engine, {
        answer: (_request, { socket }) =>
          socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: 1\r\nKeep-Alive: timeout=7\r\n\r\nok'),
      });
      const rows: readonly (readonly [request: string, fields: readonly string[]])[] = [
        ['GET / HTTP/1.1\r\nHost: a\r\n\r\n', ['content-length: 2', 'x: 1']],
        ['GET /DENIED HTTP/1.1\r\nHost: a\r\n\r\n', ['content-length: 0']],
        ['GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n', ['content-length: 2', 'x: 1']],
        ['GET http://a/DENIED HTTP/1.1\r\nHost: a\r\n\r\n', ['content-length: 0']],
        ['GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n', ['connection: close', 'content-length: 2', 'x: 1']],
        ['GET / HTTP/1.0\r\n\r\n', ['connection: close', 'content-length: 2', 'x: 1']],
        // HTTP/1.0 must be told (RFC 9112 appendix C.2.2).
        [
          'GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n',
          ['connection: keep-alive', 'content-length: 2', 'keep-alive: timeout=600', 'x: 1'],
        ],
      ];
      for (const [request, fields] of rows) {
        const client = await open();
        client.send(latin1(request));
        const [answer] = await client.responses(['GET']);
        const got = (answer?.headers ?? []).map(([name, value]) => `${name.toLowerCase()}: ${value}`).sort();
        t.same(got, fields, request.replaceAll('\r\n', ' | '));
        client.destroy();
      }
    },
  },
  {
    name: 'an absolute target goes on in origin form, with its authority for Host',
    run: async (t, engine) => {
      const { open, app } = await stage(t, engine);
      for (const [target, origin, host] of [
        ['http://b.example/a?b=%2F', '/a?b=%2F', 'b.example'],
        ['HTTP://b.example:8080?b', '/?b', 'b.example:8080'],
        ['https://b.example', '/', 'b.example'],
        ['http://b.example//c/../d', '//c/../d', 'b.example'],
      ] as const) {
        const client = await open();
        client.send(latin1(`GET ${target} HTTP/1.1\r\nHost: a.example\r\n\r\n`));
        t.equal((await client.responses(['GET']))[0]?.status, 200, target);
        const { target: got, headers = [] } = app.requests.at(-1) ?? {};
        t.equal(got, origin, target);
        t.same(
          headers.filter(([name]) => name.toLowerCase() === 'host').map(([, value]) => value),
          [host],
        );
      }
    },
  },
  {
    name: 'hints of the app that no library would write',
    run: async (t, engine) => {
      for (const link of ['garbage', '<a', '<a>; rel=preload, <b>; rel=preload', '', '<a>; b="c d"']) {
        const { open, lane } = await stage(t, engine, {
          answer: (_request, { socket }) =>
            socket.write(
              `HTTP/1.1 103 Early Hints\r\nLink: ${link}\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok`,
            ),
        });
        const client = await open();
        client.send(latin1('GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n'));
        await client.reaches(() => client.received.includes('\r\n\r\nok'), 10_000);
        t.match(client.received.toString('latin1'), /HTTP\/1\.1 200 OK\r\n/, link);
        t.equal(lane.counts.failed, 0);
      }
    },
  },
  {
    name: 'OPTIONS * is forwarded',
    run: async (t, engine) => {
      const { open, app, lane } = await stage(t, engine);
      for (const [fields, body] of [
        ['', ''],
        ['Content-Length: 5\r\n', 'hello'],
        ['Transfer-Encoding: chunked\r\n', '5\r\nhello\r\n0\r\n\r\n'],
      ] as const) {
        const client = await open();
        client.send(latin1(`OPTIONS * HTTP/1.1\r\nHost: a\r\nX: 1\r\n${fields}\r\n${body}`));
        const [answer] = await client.responses(['OPTIONS']);
        t.equal(answer?.status, 200, fields);
        const { method, target, body: content, headers = [] } = app.requests.at(-1) ?? {};
        const hosts = headers.filter(([name]) => /^(host|x)$/i.test(name)).map(([, value]) => value);
        t.same([method, target, content?.toString(), hosts], ['OPTIONS', '*', body === '' ? '' : 'hello', ['a', '1']]);
      }
      await until('all to be counted out', () => lane.counts.ended === 3);
    },
  },
  {
    name: 'an app that switches protocols on OPTIONS * has sent an invalid response',
    run: async (t, engine) => {
      for (const fields of ['Connection: Upgrade\r\nUpgrade: chat/1\r\n', 'Connection: Upgrade\r\n', '']) {
        const answer = `HTTP/1.1 101 Switching Protocols\r\n${fields}\r\n`;
        const { open, app, lane } = await stage(t, engine, { answer: (_request, { socket }) => socket.write(answer) });
        const client = await open();
        client.send(latin1('OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n'));
        const [response] = await client.responses(['OPTIONS']);
        t.equal(response?.status, 502, fields || 'no field');
        await until('it to be counted out', () => lane.counts.started === 1 && lane.counts.ended === 1);
        t.same(lane.counts.httpErrors, ['i/o']);
        await until('the connection to the app to be over', () => app.sockets.every(({ closed }) => closed));
      }
    },
  },
];

await runScenarios(t, scenarios);
