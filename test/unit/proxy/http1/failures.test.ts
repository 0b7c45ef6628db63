import t from 'tap';
import { get, post, runScenarios, type Scenario, stage } from '../../../support/lane-stage.ts';
import { ok } from '../../../support/raw-app.ts';
import { latin1, parseResponses } from '../../../support/raw-http.ts';
import { until } from '../../../support/until.ts';

// One table, two engines: what an HTTP/1.1 client and an app may expect of either lane, over real sockets. Here:
// clients and apps that go away or say too much.

const scenarios: Scenario[] = [
  {
    name: 'surplus bytes from an app reach no client',
    run: async (t, engine) => {
      const poison = 'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nPOISON';
      const { open, app } = await stage(t, engine, {
        answer: ({ target }, { socket }) => {
          if (target === '/with') socket.write(`${ok}${poison}`);
          else if (target === '/after') socket.write(ok, () => setTimeout(() => socket.write(poison), 20));
          else if (target === '/head') socket.write(`${ok}`);
          else socket.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmine');
        },
      });
      for (const [method, target] of [
        ['GET', '/with'],
        ['GET', '/after'],
        ['HEAD', '/head'],
      ] as const) {
        const before = app.sockets.length;
        const [first, second] = [await open(), await open()];
        first.send(latin1(`${method} ${target} HTTP/1.1\r\nHost: a\r\n\r\n`));
        await first.responses([method]);
        const used = app.sockets[Math.max(before - 1, 0)];
        if (target === '/after') await until('the app connection to be given up', () => app.sockets.at(-1)?.closed);
        second.send(get('/mine'));
        const [answer] = await second.responses(['GET']);
        t.equal(answer?.body.toString(), 'mine', `${target}: the next client's own response`);
        t.notMatch(first.received.toString(), /POISON/);
        t.ok(used);
      }
    },
  },
  {
    name: 'what an app has said before a request has left is no response to it',
    run: async (t, engine) => {
      const rows: readonly (readonly [title: string, request: Buffer, statuses: readonly number[]])[] = [
        ['GET', get('/mine'), [200]],
        ['DELETE', latin1('DELETE /mine HTTP/1.1\r\nHost: a\r\n\r\n'), [200]],
        // In the library lane it has left by the time that the connection is known to be lost, or not: nobody can tell.
        ['POST without content', post('/mine', ''), [200, 502]],
        ['POST', post('/mine', 'hello'), [200, 502]],
      ];
      const { open, app } = await stage(t, engine, {
        answer: ({ target }, { socket }) => {
          socket.write(target === '/mine' ? 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmine' : ok);
        },
      });
      for (const [title, request, statuses] of rows) {
        for (let round = 0; round < 5; round++) {
          const client = await open();
          client.send(get('/first'));
          await client.responses(['GET']);
          const used = app.sockets.findLast(({ closed }) => !closed);
          // Both are read in one turn: the request first, which takes the connection that is idle.
          client.send(request);
          used?.socket.write('HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nPOISON');
          const [, answer] = await client.responses(['GET', 'GET']);
          t.ok(statuses.includes(answer?.status ?? 0), `${title}: ${answer?.status}`);
          t.equal(answer?.body.toString(), answer?.status === 200 ? 'mine' : '', title);
          client.destroy();
        }
      }
    },
  },
  {
    name: 'a client that goes away takes its request with it',
    run: async (t, engine) => {
      const answered = new Set<string>();
      const { open, app, lane } = await stage(t, engine, {
        answer: ({ target }, { socket }) => {
          answered.add(target);
          if (target === '/answering') {
            socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nbegin');
          }
        },
      });
      for (const [target, bytes, begun] of [
        ['/head', latin1('GET /head HTTP/1.1\r\nHost: a'), () => true],
        ['/body', post('/body', 'half', 8), () => app.sockets.some(({ pending }) => pending.includes('/body'))],
        ['/waiting', get('/waiting'), () => answered.has('/waiting')],
        ['/answering', get('/answering'), () => answered.has('/answering')],
      ] as const) {
        const client = await open();
        client.send(bytes);
        await until(`${target} to be under way`, begun);
        client.reset();
        await until(`${target} to be over`, () => app.sockets.every(({ closed }) => closed) && lane.live.size === 0);
        t.equal(lane.counts.started, lane.counts.ended, `${target} is counted out`);
      }
      t.equal(lane.counts.started, 3);
      t.same(lane.counts.broken, [], 'no response has broken off that nobody waits for');
      t.same(app.malformed, []);
    },
  },
  {
    name: 'an app that goes away is a 502, or a response that breaks off',
    run: async (t, engine) => {
      const chunks = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n';
      const rows: [name: string, answer: string, ends: 'end' | 'reset', status: number][] = [
        ['nothing', '', 'end', 502],
        ['nothing, reset', '', 'reset', 502],
        ['half a status line', 'HTTP/1.1 20', 'end', 502],
        ['half a head', 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n', 'end', 502],
        ['interim only', 'HTTP/1.1 100 Continue\r\n\r\n', 'end', 502],
        ['half a body', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello', 'end', 200],
        ['half a body, reset', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello', 'reset', 200],
        ['chunks without the last', chunks, 'end', 200],
        ['chunks without the last, reset', chunks, 'reset', 200],
      ];
      // undici takes a reset for the end of such a response, so the library lane cannot tell.
      if (engine === 'fast')
        rows.push(['a body of unknown length, reset', 'HTTP/1.1 200 OK\r\n\r\nhello', 'reset', 200]);
      for (const [name, answer, ends, status] of rows) {
        let leave = (): void => {};
        const { open, app, lane } = await stage(t, engine, {
          answer: (_request, { socket }) => {
            leave = () => void (ends === 'end' ? socket.end() : socket.resetAndDestroy());
            if (answer === '') leave();
            else socket.write(answer, status === 502 ? leave : undefined);
          },
        });
        const client = await open();
        client.send(post('/', 'x'));
        if (status !== 502) {
          // A reset may overtake what has been written.
          await until(`${name}: the response to begin`, () => client.receivedLength > 0);
          leave();
        }
        t.ok(await until('the end of the connection', () => client.ended), `${name}: the connection ends`);
        const stream = parseResponses(client.received, ['POST'], client.ended && client.error === null);
        if (status === 502) {
          t.same(
            stream.responses.map((response) => response.status),
            [502],
            name,
          );
        } else {
          t.same(stream, { responses: [], fault: null, incomplete: true }, `${name}: visibly incomplete`);
        }
        t.equal(app.sockets.length, 1, `${name}: a POST is sent once`);
        t.match(lane.counts, { started: 1, ended: 1 }, name);
        t.same(lane.counts.broken, status === 502 ? [] : ['ERR_SALLYPORT_APP_CLOSED'], `${name}: said once`);
        t.equal(lane.counts.httpErrors.length, status === 502 ? 1 : 0, `${name}: as a failure, or as that`);
      }
    },
  },
  {
    name: 'a chunk that is none is a response that breaks off',
    run: async (t, engine) => {
      const { open, lane } = await stage(t, engine, {
        answer: (_request, { socket }) =>
          void socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nno chunk\r\n'),
      });
      const client = await open();
      client.send(get('/'));
      t.ok(await until('the end of the connection', () => client.ended));
      t.same(lane.counts.broken, ['ERR_SALLYPORT_BAD_RESPONSE']);
    },
  },
  {
    name: 'a lost idle connection is made good once, and only where nothing can happen twice',
    run: async (t, engine) => {
      const rows: readonly (readonly [name: string, request: Buffer, status: number, connections: number])[] = [
        ['GET', get('/'), 200, 2],
        ['DELETE', latin1('DELETE / HTTP/1.1\r\nHost: a\r\n\r\n'), 200, 2],
        ['POST', post('/', ''), 502, 1],
        ['PATCH', latin1('PATCH / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n'), 502, 1],
        ['PUT with a body', latin1('PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx'), 502, 1],
      ];
      for (const [name, request, status, connections] of rows) {
        const { open, app } = await stage(t, engine, {
          answer: (_request, { socket, number, requests }) => {
            // The first connection closes on its second request, as an app does whose idle time is just over.
            if (number === 0 && requests === 2) socket.destroy();
            else socket.write(ok);
          },
        });
        const client = await open();
        client.send(get('/first'));
        await client.responses(['GET']);
        client.send(request);
        const [, second] = await client.responses(['GET', 'GET']);
        t.equal(second?.status, status, name);
        t.equal(app.sockets.length, connections, `${name}: connections`);
      }
      const { open, app } = await stage(t, engine, {
        answer: (_request, { socket, requests }) => {
          if (requests === 1 && app.sockets.length === 1) socket.write(ok);
          else socket.destroy();
        },
      });
      const client = await open();
      client.send(get('/first'));
      await client.responses(['GET']);
      client.send(get('/second'));
      const [, second] = await client.responses(['GET', 'GET']);
      t.equal(second?.status, 502, 'a second loss is a response');
      t.equal(app.requests.length, 3, 'tried twice');
    },
  },
  {
    name: 'a response that has begun is never asked for again',
    run: async (t, engine) => {
      for (const beginning of ['HTTP/1.1 2', 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n']) {
        const { open, app } = await stage(t, engine, {
          answer: (_request, { socket, requests }) => {
            if (requests === 1) socket.write(ok);
            else socket.end(beginning);
          },
        });
        const client = await open();
        client.send(get('/first'));
        await client.responses(['GET']);
        client.send(get('/second'));
        await until('the end of the client', () => client.ended);
        t.equal(app.requests.length, 2, JSON.stringify(beginning));
      }
    },
  },
  {
    name: 'an app connection is not used up to the moment at which the app closes it',
    run: async (t, engine) => {
      const { open, app } = await stage(t, engine, {
        answer: (_request, { socket }) =>
          socket.write('HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 0\r\n\r\n'),
      });
      const client = await open();
      for (let i = 1; i <= 3; i++) {
        client.send(post('/', 'x'));
        await client.responses(Array(i).fill('POST'));
      }
      t.equal(app.sockets.length, 3);
    },
  },
  {
    name: 'an app that nobody runs is a 502',
    run: async (t, engine) => {
      const { app, lane, open } = await stage(t, engine, {}, { app: 1 });
      const client = await open();
      client.send(post('/', 'x', 1000));
      t.same(
        (await client.responses(['POST'])).map(({ status }) => status),
        [502],
      );
      t.ok(await until('the end of the connection', () => client.ended));
      t.equal(app.sockets.length, 0);
      t.match(lane.counts, { started: 1, ended: 1, failed: 1, httpErrors: ['i/o'] });
    },
  },
  {
    name: 'localhost finds an app on either loopback address',
    run: async (t, engine) => {
      for (const [host, appHost] of [
        ['127.0.0.1', 'localhost'],
        ['::1', 'localhost'],
        ['127.0.0.1', 'localhost.'],
        ['::1', 'LOCALHOST'],
      ] as const) {
        const { open } = await stage(t, engine, { host }, { appHost });
        const client = await open();
        client.send(Buffer.concat([get('/1'), get('/2')]));
        t.same(
          (await client.responses(['GET', 'GET'])).map(({ status }) => status),
          [200, 200],
          host,
        );
      }
    },
  },
];

await runScenarios(t, scenarios);
