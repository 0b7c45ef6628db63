import t, { type Test } from 'tap';
import { TlsTermination } from '../../../lib/proxy/tls-termination.ts';
import { workloadCertificate, workloadName } from '../../support/certificates.ts';
import { latin1, parseResponses, RawClient } from '../../support/raw-http.ts';
import { until } from '../../support/until.ts';
import { type Engine, engines, type Lane, type LaneOptions, startLane } from './lanes.ts';
import { ok, type RawApp, type RawAppOptions, startRawApp } from './raw-app.ts';

// One table, two engines: what an HTTP/1.1 client and an app may expect of either lane, over real sockets.

interface Stage {
  readonly lane: Lane;
  readonly app: RawApp;
  /** Ended with the test. */
  open(): Promise<RawClient>;
}

async function stage(
  t: Test,
  engine: Engine,
  app: RawAppOptions = {},
  lane: Partial<LaneOptions> = {},
): Promise<Stage> {
  const started = await startRawApp(t, app);
  const proxy = await startLane(t, { engine, app: started.port, ...lane });
  return {
    lane: proxy,
    app: started,
    open: async () => {
      const client = await RawClient.open({ port: proxy.port });
      t.teardown(() => client.destroy());
      return client;
    },
  };
}

const get = (path: string, more = ''): Buffer => latin1(`GET ${path} HTTP/1.1\r\nHost: a.example\r\n${more}\r\n`);
const post = (path: string, body: string, length = body.length): Buffer =>
  latin1(`POST ${path} HTTP/1.1\r\nHost: a.example\r\nContent-Length: ${length}\r\n\r\n${body}`);

const statuses = (client: RawClient, methods: readonly string[]): number[] =>
  parseResponses(client.received, methods, client.ended).responses.map(({ status }) => status);

/** Whether `value` stays the same for a while: the way to see that something has come to a stop. */
async function still(what: string, value: () => number): Promise<number> {
  let last = -1;
  let since = Date.now();
  return until(
    what,
    () => {
      const now = value();
      if (now !== last) {
        last = now;
        since = Date.now();
      }
      // One, because a probe that yields 0 would count as a miss nowhere else.
      return Date.now() - since > 300 ? now + 1 : undefined;
    },
    { everyMs: 10 },
  ).then((now) => now - 1);
}

const megabyte = 1 << 20;

/** Far above what two kernel buffers and a handful of chunks hold, far below what is sent. */
const bounded = 48 * megabyte;

interface Scenario {
  readonly name: string;
  /** Where the two may legally differ, the scenario asks. */
  run(t: Test, engine: Engine): Promise<void>;
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
    name: 'early hints pass, other interim answers do not, and none declares a body',
    run: async (t, engine) => {
      const { open } = await stage(t, engine, {
        answer: (_request, { socket }) =>
          socket.write(
            'HTTP/1.1 102 Processing\r\n\r\n' +
              'HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\nContent-Length: 0\r\n\r\n' +
              'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
          ),
      });
      const client = await open();
      client.send(get('/'));
      await client.responses(['GET']);
      const stream = parseResponses(client.received, ['GET'], client.ended);
      t.equal(stream.fault, null);
      t.same(statuses(client, ['GET']), [103, 200]);
      t.same(stream.responses[0]?.headers, [['Link', '</a>; rel=preload']]);
    },
  },
  {
    name: "the client's Connection: close ends its connection, not the app's",
    run: async (t, engine) => {
      const { open, app } = await stage(t, engine);
      for (let i = 0; i < 3; i++) {
        const client = await open();
        client.send(get('/', 'Connection: close\r\n'));
        t.ok(await client.ends(2000), 'ended');
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
    name: 'a client that ends its side after a request gets its answers',
    run: async (t, engine) => {
      const { open, app } = await stage(t, engine, {
        answer: (_request, { socket }) => setTimeout(() => socket.write(ok), 50),
      });
      const client = await open();
      client.send(Buffer.concat([get('/1'), get('/2')]));
      client.halfClose();
      t.ok(await client.ends(3000), 'the proxy ends its side, too');
      t.same(statuses(client, ['GET', 'GET']), [200, 200]);
      t.equal(app.requests.length, 2);
    },
  },
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
        t.equal(answer?.body.toString(), 'mine', `${target}: the next client's own answer`);
        t.notMatch(first.received.toString(), /POISON/);
        t.ok(used);
      }
    },
  },
  {
    name: 'an answer before the end of its request leaves no app connection behind',
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
      await until('the first connection to be given up', () => app.sockets[0]?.closed);
      // What is left of the body is never a request.
      early.send(latin1('y'.repeat(99_000)));
      early.send(get('/next'));
      if (await early.reaches(() => statuses(early, ['POST', 'GET']).length === 2, 1000)) {
        t.same(statuses(early, ['POST', 'GET']), [413, 200]);
      } else {
        t.ok(early.ended, 'or the connection is over');
      }
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
      t.ok(await large.ends(3000), 'ended');
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
      await until('the answer to begin', () => written > 0);
      t.ok((await still('the app to be held up', () => written)) < bounded, 'what is under way is bounded');
      client.socket.resume();
      await until('the whole answer', () => received > size, { lastSeen: () => String(received) });
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
        const done = await until('an answer or its delay', () => lane.counts.ended > slowAnswers + quickAnswers, {
          timeoutMs: 500,
          everyMs: 1,
        }).catch(() => false);
        quick.send(get('/quick'));
        quickAnswers++;
        const wanted = quickAnswers * body.length;
        if (!(await quick.reaches(() => quick.receivedLength > wanted, 3000))) t.fail('the quick client waits');
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
      t.same(app.malformed, []);
    },
  },
  {
    name: 'an app that goes away is a 502, or an answer that breaks off',
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
      // undici takes a reset for the end of such an answer, so the library lane cannot tell.
      if (engine === 'fast')
        rows.push(['a body of unknown length, reset', 'HTTP/1.1 200 OK\r\n\r\nhello', 'reset', 200]);
      for (const [name, answer, ends, status] of rows) {
        const { open, app, lane } = await stage(t, engine, {
          answer: (_request, { socket }) => {
            const gone = (): void => {
              if (ends === 'end') socket.end();
              else socket.resetAndDestroy();
            };
            // A reset overtakes what has been written, so the answer gets a head start.
            if (answer === '') gone();
            else socket.write(answer, () => setTimeout(gone, 30));
          },
        });
        const client = await open();
        client.send(post('/', 'x'));
        t.ok(await client.ends(3000), `${name}: the connection ends`);
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
      }
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
      t.equal(second?.status, 502, 'a second loss is an answer');
      t.equal(app.requests.length, 3, 'tried twice');
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
      t.ok(await client.ends(3000));
      t.equal(app.sockets.length, 0);
      t.match(lane.counts, { started: 1, ended: 1, failed: 1, httpErrors: ['i/o'] });
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
    name: 'a drain lets answers finish, says so, and closes who is idle',
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
      t.ok(
        last?.headers.some(([name, value]) => /^connection$/i.test(name) && /close/i.test(value)),
        'told to go',
      );
      lane.http1.closeIdle();
      t.ok(await idle.ends(2000), 'idle: closed');
      t.notOk(waiting.ended || begun.ended, 'busy: not closed');
      for (const release of held) release();
      t.ok(await waiting.ends(2000));
      t.ok(await begun.ends(2000));
      t.same(statuses(waiting, ['GET']), [200]);
      t.same(statuses(begun, ['GET']), [200]);
      await until('nothing to be open', () => lane.live.size === 0);
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
  {
    name: 'inside TLS it is the same, with the identity on it',
    run: async (t, engine) => {
      const own = workloadCertificate('web', 'shop');
      const caller = workloadCertificate('caller', 'shop');
      const name = workloadName('web', 'shop');
      const tls = new TlsTermination({
        names: new Set([name]),
        options: { cert: own.certificatePem, key: own.keyPem, ca: own.trustAnchorsPem },
      });
      const size = 5 * megabyte;
      const app = await startRawApp(t, {
        answer: ({ body }, { socket }) => {
          socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n`);
          socket.write(body);
        },
      });
      const lane = await startLane(t, { engine, app: app.port, tls });
      const client = await RawClient.open({
        port: lane.port,
        tls: {
          servername: name,
          ca: own.trustAnchorsPem,
          cert: caller.certificatePem,
          key: caller.keyPem,
          ALPNProtocols: ['http/1.1'],
        },
      });
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
      t.ok(await client.ends(3000));
      t.same(statuses(client, ['GET', 'POST', 'GET', 'POST', 'GET']), [200, 403, 200, 200, 200]);
    },
  },
  {
    name: 'localhost finds an app on either loopback address',
    run: async (t, engine) => {
      for (const host of ['127.0.0.1', '::1']) {
        const { open } = await stage(t, engine, { host }, { appHost: 'localhost' });
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

t.setTimeout(200_000);

for (const { name, run } of scenarios) {
  await t.test(name, async (t) => {
    for (const engine of engines) await t.test(engine, { timeout: 40_000 }, (t) => run(t, engine));
  });
}
