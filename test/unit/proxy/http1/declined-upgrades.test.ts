import type { Test } from 'tap';
import t from 'tap';
import { get, megabyte, runScenarios, type Scenario, type Stage, stage, still } from '../../../support/lane-stage.ts';
import type { Engine, LaneOptions } from '../../../support/lanes.ts';
import { type AppSocket, ok } from '../../../support/raw-app.ts';
import { latin1, oddLines, parseResponses, type RawClient, webSocketLines } from '../../../support/raw-http.ts';
import { until } from '../../../support/until.ts';

/*
 * An app that answers a request to switch as if it had asked for nothing: its response arrives like any other, however
 * long it is and however slowly it is read.
 */

const large = Buffer.alloc(8 * megabyte, 'x');
const chat = 'Connection: Upgrade\r\nUpgrade: chat/1\r\n';

const connect = latin1('CONNECT a.example:80 HTTP/1.1\r\nHost: a.example:80\r\n\r\n');
const switched = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: chat/1\r\n\r\n';

const asks: readonly (readonly [title: string, bytes: Buffer])[] = [
  ['Upgrade', get('/', chat)],
  ['WebSocket', get('/', webSocketLines)],
  ['WebSocket in the library lane', get('/', oddLines + webSocketLines)],
];

const answers: readonly (readonly [title: string, head: string])[] = [
  ['200', `HTTP/1.1 200 OK\r\nContent-Length: ${large.length}\r\n\r\n`],
  ['403 up to the end of the connection', 'HTTP/1.1 403 No\r\n\r\n'],
];

function answering(head: string): (request: unknown, connection: AppSocket) => void {
  return (_request, { socket }) => {
    socket.write(head);
    if (head.includes('Content-Length')) socket.write(large);
    else socket.end(large);
  };
}

/** What is read of it by and by, with rests in which nothing is. */
function readSlowly({ socket }: RawClient): void {
  let left = 0;
  socket.on('data', (chunk: Buffer) => {
    left -= chunk.length;
    if (left > 0) return;
    left = megabyte;
    socket.pause();
    setTimeout(() => socket.resume(), 50);
  });
}

async function over({ lane, app }: Stage): Promise<void> {
  await until('no request to be in flight', () => lane.counts.started === lane.counts.ended);
  await until('no connection to be left', () => lane.live.size === 0 && app.sockets.every(({ closed }) => closed));
}

const scenarios: Scenario[] = [];

for (const [asked, request] of asks) {
  for (const [answered, head] of answers) {
    for (const reader of ['quick', 'slow'] as const) {
      scenarios.push({
        name: `${asked}: ${answered}, a client that reads ${reader}ly`,
        run: async (t, engine) => {
          const played = await stage(t, engine, { answer: answering(head) });
          const client = await played.open();
          if (reader === 'slow') readSlowly(client);
          client.send(request);
          await until('all of it', () => client.receivedLength > large.length || client.ended);
          client.halfClose();
          await until('the end of the connection', () => client.ended);
          const { responses, incomplete } = parseResponses(client.received, ['GET'], true);
          t.same(
            responses.map(({ status, body }) => [status, body.length]),
            [[Number(answered.slice(0, 3)), large.length]],
          );
          t.notOk(incomplete);
          await until('no request to be in flight', () => played.lane.counts.started === played.lane.counts.ended);
        },
      });
    }
  }
}

scenarios.push({
  name: 'CONNECT: 403 with content, which is left out',
  run: async (t, engine) => {
    const played = await stage(t, engine, {
      raw: ({ socket }) => {
        socket.write(answers[1]?.[1] ?? '');
        socket.end(large);
      },
    });
    const client = await played.open();
    client.send(connect);
    t.same(
      (await client.responses(['CONNECT'])).map(({ status, body }) => [status, body.length]),
      [[403, 0]],
    );
    client.halfClose();
    await over(played);
  },
});

/** The app's agreement, and what the client gets: what it names, or 502. */
const agreements: readonly (readonly [asked: string, agreed: string, named: string | null])[] = [
  ['chat/1', 'Upgrade: Chat/1', 'Chat/1'],
  ['chat/2, chat/1', 'Upgrade: chat/1', 'chat/1'],
  ['chat/2, chat/1', 'Upgrade: chat/1\r\nUpgrade: chat/2', 'chat/1, chat/2'],
  ['chat/1', 'Upgrade: h2c', null],
  ['chat/1', 'Upgrade: TLS/1.2, HTTP/1.1', null],
  ['chat/1', 'Upgrade: chat/1\r\nUpgrade: h2c', null],
  ['chat/1', 'X-A: 1', null],
];

scenarios.push({
  name: 'an agreement to something else than was asked is none (RFC 9110 7.8)',
  run: async (t, engine) => {
    for (const [asked, agreed, named] of agreements) {
      const played = await stage(t, engine, {
        raw: (connection, chunk) => {
          connection.pending = Buffer.concat([connection.pending, chunk]);
          if (connection.pending.includes('early')) return;
          connection.socket.write(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n${agreed}\r\n\r\n`);
        },
      });
      const client = await played.open();
      client.send(Buffer.concat([get('/', `Connection: Upgrade\r\nUpgrade: ${asked}\r\n`), latin1('early')]));
      await until('the answer', () => client.received.includes('\r\n\r\n'));
      const [line = '', ...fields] = client.received.toString('latin1').split('\r\n');
      t.match(line, named === null ? /^HTTP\/1\.1 502 / : /^HTTP\/1\.1 101 /, `${asked}: ${agreed}`);
      const upgrade = fields.filter((field) => /^upgrade:/i.test(field));
      t.same(upgrade, named === null ? [] : [`Upgrade: ${named}`], 'what the client is told');
      if (named === null) await until('the end of the connection', () => client.ended);
      else await until('what was early', () => played.app.sockets[0]?.pending.includes('early'));
      client.destroy();
      await over(played);
      t.equal(played.app.sockets[0]?.pending.includes('early'), named !== null, 'nothing early goes on');
    }
  },
});

/** Fields of requests that are served as if they had asked for no switch, and their content. */
const notAsking: readonly (readonly [fields: string, content: string])[] = [
  ...['h2c', 'h 2c', 'h\t2c', 'chat;h2c', '"h2c"', ''].map((name) => [`Upgrade: ${name}\r\n`, ''] as const),
  ['Upgrade: chat/1\r\nContent-Length: 5\r\n', 'hello'],
  ['Upgrade: websocket\r\nTransfer-Encoding: chunked\r\n', '5\r\nhello\r\n0\r\n\r\n'],
];

scenarios.push({
  name: 'what comes behind one that is served as if it had not asked is served as well',
  run: async (t, engine) => {
    const lines = 'Connection: Upgrade\r\n';
    for (const [fields, content] of notAsking) {
      const played = await stage(t, engine);
      const client = await played.open();
      const asking = latin1(`POST /1 HTTP/1.1\r\nHost: a\r\n${lines}${fields}\r\n${content}`);
      client.send(Buffer.concat([asking, get('/DENIED'), asking, get('/2')]));
      const answers = await client.responses(['POST', 'GET', 'POST', 'GET']);
      t.same(
        answers.map(({ status }) => status),
        [200, 403, 200, 200],
        fields,
      );
      const { requests } = played.app;
      t.same(
        requests.map(({ target, body }) => [target, body.toString()]),
        [
          ['/1', content === '' ? '' : 'hello'],
          ['/1', content === '' ? '' : 'hello'],
          ['/2', ''],
        ],
      );
      t.notOk(requests.some(({ headers }) => headers.some(([name]) => /^upgrade$/i.test(name))));
      client.destroy();
      await until('all to be counted out', () => played.lane.counts.started === played.lane.counts.ended);
    }
  },
});

/** One that waits for its client, who reads nothing. */
async function unread(t: Test, engine: Engine, lane: Partial<LaneOptions>, bytes: Buffer): Promise<[Stage, RawClient]> {
  const played = await stage(t, engine, { answer: answering(answers[0]?.[1] ?? '') }, lane);
  const client = await played.open();
  client.socket.pause();
  client.send(bytes);
  await until('its response', () => played.lane.counts.heads === 1);
  return [played, client];
}

for (const [asked, bytes] of asks) {
  for (const [limit, limits] of [
    ['stall_timeout', { stallTimeoutMs: 500 }],
    ['request_timeout', { requestTimeoutMs: 500 }],
  ] as const) {
    scenarios.push({
      name: `${asked}: a client that reads nothing of the response is cut off (${limit})`,
      run: async (t, engine) => {
        const [played] = await unread(t, engine, { limits }, bytes);
        await over(played);
        t.same(played.lane.counts.limits, [limit], 'counted once');
      },
    });
  }
}

scenarios.push({
  name: 'a client that goes within the response takes the connection to the app along',
  run: async (t, engine) => {
    for (const [asked, bytes] of asks) {
      const [played, client] = await unread(t, engine, {}, bytes);
      await still('what comes to a stop', () => played.lane.counts.ended);
      t.equal(played.lane.counts.ended, 0, asked);
      client.reset();
      await over(played);
      t.same(played.lane.counts.httpErrors, [], asked);
    }
  },
});

scenarios.push({
  name: 'a client that goes before the response does so, too',
  run: async (t, engine) => {
    for (const [asked, bytes] of [['CONNECT', connect] as const, ...asks]) {
      let asking = 0;
      const played = await stage(t, engine, { raw: () => void asking++ });
      const client = await played.open();
      client.send(bytes);
      await until('the app to be asked', () => asking > 0);
      client.reset();
      await over(played);
      t.same(played.lane.counts.httpErrors, [], asked);
    }
  },
});

scenarios.push({
  name: 'one that waits for its app is not idle, nor retired by a drain',
  run: async (t, engine) => {
    for (const before of [0, 1]) {
      let agree = (): void => {};
      const { open, lane } = await stage(
        t,
        engine,
        {
          answer: ({ target }, { socket }) => {
            if (target === '/plain') socket.write(ok);
            else agree = () => socket.write(switched);
          },
        },
        { limits: { http1IdleTimeoutMs: 300 } },
      );
      const client = await open();
      client.send(Buffer.concat([...Array(before).fill(get('/plain', oddLines)), get('/up', chat)]));
      await until('the app to be asked', () => lane.counts.started === before + 1);
      const idle = await open();
      idle.send(get('/plain', oddLines));
      await until('one that is idle to be closed', () => idle.ended);
      lane.http1.drain();
      lane.http1.closeIdle();
      t.notOk(client.ended, `behind ${before} others`);
      agree();
      await until('the switch', () => client.received.includes('101 Switching'));
      client.destroy();
    }
  },
});

scenarios.push({
  name: 'bytes behind the request wait for the switch, whatever was pipelined before it',
  run: async (t, engine) => {
    for (const before of [0, 1, 2, 3]) {
      let got = '';
      let agree = (): void => {};
      const { open, lane } = await stage(t, engine, {
        raw: ({ socket }, chunk) => {
          const text = chunk.toString('latin1');
          if (text.startsWith('GET /plain')) socket.write(ok);
          else if (!text.startsWith('GET /up')) got += text;
          else agree = () => socket.write(switched);
        },
      });
      const client = await open();
      client.send(Buffer.concat([...Array(before).fill(get('/plain', oddLines)), get('/up', chat), latin1('early ')]));
      await until('the app to be asked', () => lane.counts.started === before + 1);
      client.send(latin1('late'));
      await still('what has come', () => client.receivedLength);
      t.equal(got, '', 'nothing before the app agrees');
      agree();
      await until('all of it', () => got.length >= 'early late'.length, { lastSeen: () => got });
      t.equal(got, 'early late', `behind ${before} others`);
      client.destroy();
    }
  },
});

await runScenarios(t, scenarios);
