import t from 'tap';
import { workloadName } from '../../../support/certificates.ts';
import {
  bounded,
  get,
  megabyte,
  post,
  runScenarios,
  type Scenario,
  stage,
  statuses,
  still,
} from '../../../support/lane-stage.ts';
import { startLane } from '../../../support/lanes.ts';
import { meshed } from '../../../support/mesh.ts';
import { ok, startRawApp } from '../../../support/raw-app.ts';
import { latin1, oddLines, parseResponses, RawClient, saysClose } from '../../../support/raw-http.ts';
import { until } from '../../../support/until.ts';

// One table, two engines: what an HTTP/1.1 client and an app may expect of either lane, over real sockets. Here:
// backpressure, early ends of messages, drain.

const scenarios: Scenario[] = [
  {
    name: 'a response before the end of its request makes its app connection no other one’s',
    run: async (t, engine) => {
      const { open, app } = await stage(t, engine, {
        partial: (connection) => {
          if (connection.requests++ === 0)
            connection.socket.write('HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n');
        },
      });
      const early = await open();
      early.send(post('/up', 'x'.repeat(1000), 100_000));
      t.same(
        (await early.responses(['POST'])).map(({ status }) => status),
        [413],
      );
      const other = await open();
      other.send(get('/other'));
      t.same(
        (await other.responses(['GET'])).map(({ status }) => status),
        [200],
      );
      t.equal(app.sockets.length, 2, 'the other request has a connection of its own');
      // The library lane gives it up; the fast one lets the app have the rest, and uses it again.
      if (engine === 'library') await until('the first connection to be given up', () => app.sockets[0]?.closed);
      // What is left of the body is never a request.
      early.send(latin1('y'.repeat(99_000)));
      early.send(get('/next'));
      const answered = (): boolean => statuses(early, ['POST', 'GET']).length === 2;
      await until('a response, or the end of the connection', () => answered() || early.ended);
      if (answered()) t.same(statuses(early, ['POST', 'GET']), [413, 200]);
      t.same(app.malformed, []);
    },
  },
  {
    name: 'a refused body is read away, a large one ends the connection',
    run: async (t, engine) => {
      const { open, app } = await stage(t, engine);
      const small = await open();
      small.send(post('/DENIED', 'x', 1000));
      t.same(
        (await small.responses(['POST'])).map(({ status }) => status),
        [403],
      );
      small.send(latin1('x'.repeat(999)));
      small.send(get('/next'));
      t.same(
        (await small.responses(['POST', 'GET'])).map(({ status }) => status),
        [403, 200],
      );
      const large = await open();
      large.send(post('/DENIED', 'x', 400 * megabyte));
      t.same(
        (await large.responses(['POST'])).map(({ status }) => status),
        [403],
      );
      for (let i = 0; i < 20 && !large.ended; i++) {
        large.send(Buffer.alloc(megabyte));
        await new Promise((resolve) => setImmediate(resolve));
      }
      t.ok(await until('the end of the connection', () => large.ended), 'ended');
      t.equal(app.requests.length, 1);
    },
  },
  {
    name: 'a slow client holds its app up, and 100 MB arrive whole',
    run: async (t, engine) => {
      const size = 100 * megabyte;
      let written = 0;
      const { open } = await stage(t, engine, {
        answer: (_request, { socket }) => {
          socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\n\r\n`);
          const chunk = Buffer.alloc(megabyte, 'x');
          const pump = (): void => {
            while (written < size) {
              written += chunk.length;
              if (!socket.write(chunk)) {
                socket.once('drain', pump);
                return;
              }
            }
          };
          pump();
        },
      });
      const client = await open();
      let received = 0;
      client.socket.removeAllListeners('data');
      client.socket.on('data', (chunk: Buffer) => {
        received += chunk.length;
      });
      client.socket.pause();
      client.send(get('/big'));
      await until('the response to begin', () => written > 0);
      t.ok((await still('the app to be held up', () => written)) < bounded, 'what is under way is bounded');
      client.socket.resume();
      await until('the whole response', () => received > size, { lastSeen: () => String(received) });
    },
  },
  {
    name: 'a slow app holds its client up, and 100 MB arrive whole',
    run: async (t, engine) => {
      const size = 100 * megabyte;
      let received = 0;
      const { open, app } = await stage(t, engine, {
        raw: ({ socket }, chunk) => {
          if (received === 0) socket.pause();
          received += chunk.length;
          if (received > size) socket.write(ok);
        },
      });
      const client = await open();
      client.send(latin1(`PUT /up HTTP/1.1\r\nHost: a\r\nContent-Length: ${size}\r\n\r\n`));
      let sent = 0;
      const chunk = Buffer.alloc(megabyte, 'x');
      const pump = (): void => {
        while (sent < size) {
          sent += chunk.length;
          if (!client.socket.write(chunk)) {
            client.socket.once('drain', pump);
            return;
          }
        }
      };
      pump();
      await until('the request to begin', () => app.sockets.length > 0 && received > 0);
      t.ok((await still('the client to be held up', () => sent)) < bounded, 'what is under way is bounded');
      app.sockets[0]?.socket.resume();
      t.same(
        (await client.responses(['PUT'], 10_000)).map(({ status }) => status),
        [200],
      );
    },
  },
  {
    name: 'an app connection that served a slow client serves the next one',
    run: async (t, engine) => {
      const body = Buffer.alloc(60 * 1024, 'x');
      const { open, lane } = await stage(t, engine, {
        answer: (_request, { socket }) =>
          socket.write(Buffer.concat([latin1(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n`), body])),
      });
      const slow = await open();
      slow.socket.pause();
      const quick = await open();
      let quickAnswers = 0;
      // Until no buffer between the app and the slow client takes more. The quick client then has the connection to the
      // app on which the last answer to the slow one came.
      for (let slowAnswers = 0; slowAnswers < 300; slowAnswers++) {
        slow.send(get('/slow'));
        const done = await until('a response or its delay', () => lane.counts.ended > slowAnswers + quickAnswers, {
          timeoutMs: 500,
          everyMs: 1,
        }).catch(() => false);
        quick.send(get('/quick'));
        quickAnswers++;
        const wanted = quickAnswers * body.length;
        await until('the quick client to be served', () => quick.receivedLength > wanted, { everyMs: 1 });
        if (!done) break;
      }
      t.ok(quickAnswers > 20);
    },
  },
  {
    name: 'a client that pipelines without reading gets no more work done than it has buffers for',
    run: async (t, engine) => {
      const body = Buffer.alloc(60 * 1024, 'x');
      const { open, app } = await stage(t, engine, {
        answer: (_request, { socket }) =>
          socket.write(Buffer.concat([latin1(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n`), body])),
      });
      const client = await open();
      client.socket.pause();
      const many = 2000;
      client.send(Buffer.concat(Array.from({ length: many }, (_, i) => get(`/${i}`))));
      const served = await still('the proxy to wait', () => app.requests.length);
      t.ok(served * body.length < bounded, `${served} answers wait`);
      client.destroy();
    },
  },
  {
    name: 'a large response arrives whole though an upgrade waits behind it',
    run: async (t, engine) => {
      const large = Buffer.alloc(8 * megabyte, 'x');
      const { open } = await stage(t, engine, {
        answer: ({ target }, { socket }) => {
          if (target !== '/large') socket.write(ok);
          else
            socket.write(Buffer.concat([latin1(`HTTP/1.1 200 OK\r\nContent-Length: ${large.length}\r\n\r\n`), large]));
        },
      });
      const client = await open();
      // It is the library lane's; with the upgrade in one packet, Node has both at once.
      client.send(Buffer.concat([get('/large', oddLines), get('/up', 'Connection: upgrade\r\nUpgrade: x\r\n')]));
      const answers = await client.responses(['GET', 'GET'], 20_000);
      t.same(
        answers.map(({ status, body }) => [status, body.length]),
        [
          [200, large.length],
          [200, 2],
        ],
      );
    },
  },
  {
    name: 'a client that ends within the content of a request that waits for its turn is let go',
    run: async (t, engine) => {
      let release = (): void => {};
      const { open, app, lane } = await stage(t, engine, {
        answer: (_request, { socket }) => {
          release = () => socket.write(ok);
        },
      });
      const client = await open();
      client.send(Buffer.concat([get('/first'), post('/second', 'ab', 5)]));
      await until('the first request', () => app.requests.length === 1);
      client.halfClose();
      // So that the end has come before the second request has its turn.
      await still('what has come', () => lane.counts.decided);
      release();
      t.equal((await client.responses(['GET']))[0]?.status, 200);
      await until('the connection to be over', () => lane.live.size === 0, { timeoutMs: 10_000 });
      t.equal(app.requests.length, 1);
      await until('no request to be in flight', () => lane.counts.started === lane.counts.ended);
    },
  },
  {
    name: 'more requests than are allowed at one time are a 503',
    run: async (t, engine) => {
      const { open, app, lane } = await stage(t, engine, { answer: () => {} }, { maxInFlight: 1 });
      const first = await open();
      first.send(get('/1'));
      await until('the first to be under way', () => app.requests.length === 1);
      const second = await open();
      second.send(get('/2'));
      t.same(
        (await second.responses(['GET'])).map(({ status }) => status),
        [503],
      );
      t.match(lane.counts, { started: 1, httpErrors: ['loadshed'] });
    },
  },
  {
    name: 'a drain lets responses finish, says so, and closes who is idle',
    run: async (t, engine) => {
      const held: (() => void)[] = [];
      const { open, lane, app } = await stage(t, engine, {
        answer: ({ target }, { socket }) => {
          if (target === '/begun') socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no');
          held.push(() => socket.write(target === '/begun' ? 'k' : ok));
        },
      });
      const [idle, waiting, begun, late] = [await open(), await open(), await open(), await open()];
      idle.send(get('/DENIED'));
      late.send(get('/DENIED'));
      await idle.responses(['GET']);
      await late.responses(['GET']);
      waiting.send(get('/waiting'));
      begun.send(get('/begun'));
      await until('two requests to be under way', () => held.length === 2 && begun.receivedLength > 0);
      lane.http1.drain();
      late.send(get('/DENIED'));
      const [, last] = await late.responses(['GET', 'GET']);
      t.ok(last !== undefined && saysClose(last), 'told to go');
      lane.http1.closeIdle();
      t.ok(await until('the end of the connection', () => idle.ended), 'idle: closed');
      t.notOk(waiting.ended || begun.ended, 'busy: not closed');
      for (const release of held) release();
      t.ok(await until('the end of the connection', () => waiting.ended));
      t.ok(await until('the end of the connection', () => begun.ended));
      const [told] = await waiting.responses(['GET']);
      t.equal(told?.status, 200);
      t.ok(told !== undefined && saysClose(told), 'told to go by what had not begun yet');
      t.same(statuses(begun, ['GET']), [200]);
      await until('nothing to be open', () => lane.live.size === 0);
      t.equal(app.requests.length, 2);
    },
  },
  {
    name: 'a drain tells who has pipelined requests, whatever they wait for',
    run: async (t, engine) => {
      const rows: readonly (readonly [title: string, path: string, isRead: boolean, count: number])[] = [
        ['their turn', '/DENIED', true, 1000],
        ['room for their responses', '/', false, 400],
      ];
      for (const [title, path, isRead, count] of rows) {
        const body = 'x'.repeat(32 * 1024);
        const { open, lane } = await stage(t, engine, {
          answer: (_request, { socket }) =>
            socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`),
        });
        const client = await open();
        if (!isRead) client.socket.pause();
        client.send(latin1(get(path).toString().repeat(count)));
        if (isRead) await until('some of them', () => lane.counts.decided >= 20, { everyMs: 0 });
        else await still('what is decided', () => lane.counts.decided);
        t.ok(lane.counts.decided < count, `${title}: some wait`);
        lane.http1.drain();
        lane.http1.closeIdle();
        client.socket.resume();
        await until('the end of the connection', () => client.ended);
        const { responses } = parseResponses(client.received, new Array(count).fill('GET'), true);
        const last = responses.at(-1);
        t.ok(last !== undefined && saysClose(last), `${title}: the last response says that it is`);
        t.equal(responses.length, lane.counts.decided, title);
      }
    },
  },
  {
    name: 'a drain answers who waits behind a response that has begun',
    run: async (t, engine) => {
      let release = (): void => {};
      const { open, lane } = await stage(t, engine, {
        answer: ({ target }, { socket }) => {
          if (target !== '/begun') return void socket.write(ok);
          socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no');
          release = () => socket.write('k');
        },
      });
      const client = await open();
      client.send(Buffer.concat([get('/begun'), get('/behind')]));
      await until('the response to begin', () => client.receivedLength > 0);
      lane.http1.drain();
      release();
      const responses = await client.responses(['GET', 'GET']);
      t.same(responses.map(saysClose), [false, true]);
      t.ok(await until('the end of the connection', () => client.ended));
      await until('nothing to be open', () => lane.live.size === 0);
    },
  },
  {
    name: 'inside TLS it is the same, with the identity on it',
    run: async (t, engine) => {
      const { termination: tls, client: mesh } = meshed('http/1.1');
      const size = 5 * megabyte;
      const app = await startRawApp(t, {
        answer: ({ body }, { socket }) => {
          socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n`);
          socket.write(body);
        },
      });
      const lane = await startLane(t, { engine, app: app.port, tls });
      const client = await RawClient.open({ port: lane.port, tls: mesh });
      t.teardown(() => client.destroy());
      client.send(Buffer.concat([get('/1'), post('/DENIED', 'x'), get('/2', 'l5d-client-id: admin\r\n')]));
      await client.responses(['GET', 'POST', 'GET']);
      t.same(statuses(client, ['GET', 'POST', 'GET']), [200, 403, 200]);
      client.send(post('/echo', 'x'.repeat(size)));
      t.ok(await client.reaches(() => client.receivedLength > size, 10_000), 'a large body, there and back');
      for (const { headers } of app.requests) {
        const ids = headers.filter(([field]) => field.toLowerCase() === 'l5d-client-id');
        t.same(
          ids.map(([, id]) => id),
          [workloadName('caller', 'shop')],
        );
      }
      client.send(get('/last', 'Connection: close\r\n'));
      t.ok(await until('the end of the connection', () => client.ended));
      t.same(statuses(client, ['GET', 'POST', 'GET', 'POST', 'GET']), [200, 403, 200, 200, 200]);
    },
  },
];

await runScenarios(t, scenarios);
