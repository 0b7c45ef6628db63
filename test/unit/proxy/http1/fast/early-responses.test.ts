import t, { type Test } from 'tap';
import { get, type Stage, stage } from '../../../../support/lane-stage.ts';
import { engines } from '../../../../support/lanes.ts';
import type { AppSocket } from '../../../../support/raw-app.ts';
import { latin1, type RawClient } from '../../../../support/raw-http.ts';
import { turns, until } from '../../../../support/until.ts';

/*
 * An app that answers before it has all of a request, and what becomes of its connection: it gets the rest and serves
 * others, or it is given up. The client sees neither.
 */

const early = (more = ''): string => `HTTP/1.1 413 Too Large\r\nContent-Length: 1\r\n${more}\r\n!`;
const head = (more: string): Buffer => latin1(`POST /early HTTP/1.1\r\nHost: a.example\r\n${more}\r\n`);
const sized = (length: number): Buffer => head(`Content-Length: ${length}\r\n`);
const chunked = head('Transfer-Encoding: chunked\r\n');
const goOn = 'HTTP/1.1 100 Continue\r\n\r\n';
const expecting = head('Content-Length: 5\r\nExpect: 100-continue\r\n');

/**
 * @param answer to a request to /early of which only some has come; any that is whole is answered 200, where it had none.
 * @param whole called when the rest of one that was answered has come.
 */
async function stageEarly(
  t: Test,
  answer: (connection: AppSocket) => void,
  whole: (connection: AppSocket) => void = () => {},
): Promise<Stage> {
  const answered = new Set<AppSocket>();
  return stage(t, 'fast', {
    partial: (connection) => {
      if (answered.has(connection)) return;
      answered.add(connection);
      answer(connection);
    },
    answer: (_request, connection) => {
      if (answered.delete(connection)) whole(connection);
      else connection.socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
    },
  });
}

const answer = (connection: AppSocket): void => void connection.socket.write(early());

async function finals(client: RawClient, count: number): Promise<number[]> {
  const found = await client.responses(Array(count).fill('POST'));
  return found.map(({ status }) => status);
}

/** @param count how often it has been told to go on. */
async function sendAsked(client: RawClient, content: Buffer, count: number): Promise<void> {
  await until('100 Continue', () => client.received.toString('latin1').split(goOn).length > count);
  client.send(content);
}

/** What the client sends behind the response, and whether others are then served on the connection that it was for. */
interface Row {
  readonly name: string;
  readonly head: Buffer;
  /** What the client sends when it has been told to go on: with that the app gets the request. */
  readonly asked?: Buffer;
  readonly answer?: (connection: AppSocket) => void;
  readonly rest: readonly Buffer[];
  readonly isKept: boolean;
}

const rows: readonly Row[] = [
  { name: 'the rest at once', head: sized(5), rest: [latin1('hello')], isKept: true },
  { name: 'the rest byte by byte', head: sized(5), rest: [...'hello'].map(latin1), isKept: true },
  { name: 'chunks', head: chunked, rest: ['5\r\nhel', 'lo\r', '\n0\r\n', '\r\n'].map(latin1), isKept: true },
  { name: 'content that was asked for', head: expecting, asked: latin1('h'), rest: [latin1('ello')], isKept: true },
  { name: '200 KB', head: sized(200_000), rest: [Buffer.alloc(200_000, 'x')], isKept: true },
  {
    name: 'a response in pieces',
    head: sized(5),
    answer: ({ socket }) => {
      socket.write(early().slice(0, -1));
      setImmediate(() => socket.write('!'));
    },
    rest: [latin1('hello')],
    isKept: true,
  },
  {
    name: 'an app that says that it closes',
    head: sized(5),
    answer: ({ socket }) => void socket.write(early('Connection: close\r\n')),
    rest: [latin1('hello')],
    isKept: false,
  },
  {
    name: 'an app that closes',
    head: sized(5),
    answer: ({ socket }) => void socket.end(early()),
    rest: [latin1('hello')],
    isKept: false,
  },
  {
    name: 'an app that resets its connection',
    head: sized(5),
    answer: ({ socket }) => socket.write(early(), () => socket.resetAndDestroy()),
    rest: [latin1('hello')],
    isKept: false,
  },
  {
    name: 'an app that says more than was asked for',
    head: sized(5),
    answer: ({ socket }) => {
      socket.write(early());
      setImmediate(() => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison'));
    },
    rest: [latin1('hello')],
    isKept: false,
  },
];

for (const row of rows) {
  t.test(row.name, async (t) => {
    const { open, app } = await stageEarly(t, row.answer ?? answer);
    const client = await open();
    client.send(row.head);
    if (row.asked !== undefined) await sendAsked(client, row.asked, 1);
    t.same(await finals(client, 1), [413]);
    if (!row.isKept) await until('the connection to be given up', () => app.sockets[0]?.closed);
    // Others do not get it before it has all.
    const other = await open();
    other.send(get('/other'));
    t.same(await finals(other, 1), [200]);
    t.equal(app.sockets.length, 2, 'another has a connection of its own');
    other.destroy();
    for (const part of row.rest) {
      client.send(part);
      await turns(1);
    }
    if (row.isKept) await until('all of it at the app', () => app.sockets[0]?.requests === 1);
    // It is looked at before others get it.
    await turns(4);
    client.send(get('/next'));
    t.same(await finals(client, 2), [413, 200]);
    t.notMatch(client.received.toString('latin1'), 'poison');
    t.equal(app.sockets[0]?.requests, row.isKept ? 2 : 0, 'requests that it served');
    t.same(app.malformed, []);
  });
}

t.test('many in turn take one connection', async (t) => {
  const { open, app } = await stageEarly(t, answer);
  const client = await open();
  for (let i = 1; i <= 20; i++) {
    client.send(expecting);
    await sendAsked(client, latin1('h'), i);
    t.same(await finals(client, i), Array(i).fill(413));
    client.send(latin1('ello'));
    await until('all of it at the app', () => app.requests.length === i);
  }
  t.equal(app.sockets.length, 1);
});

t.test('the response and the rest in one turn', async (t) => {
  const { open, app } = await stageEarly(t, ({ socket }) => void socket.write(early()));
  const client = await open();
  for (let i = 1; i <= 200; i++) {
    client.send(sized(5));
    // Sometimes before the response, sometimes with it, sometimes behind it.
    await turns(i % 8);
    client.send(latin1('hello'));
    await finals(client, i);
    await until('all of it at the app', () => app.requests.length === i);
    // It is looked at before others get it.
    await turns(4);
  }
  t.equal(app.sockets.length, 1);
});

const nextPost = 'POST /next HTTP/1.1\r\nHost: a.example\r\nContent-Length: 2\r\n\r\nhi';

t.test('an app that closes behind its response, without saying so, takes no other request with it', async (t) => {
  for (let count = 0; count < 24; count++) {
    for (const end of ['end', 'resetAndDestroy'] as const) {
      const { open, app } = await stageEarly(t, ({ socket }) => {
        socket.write(early());
        void turns(count % 4).then(() => socket[end]());
      });
      const client = await open();
      client.send(sized(5));
      await until('the response', () => (app.sockets[0]?.socket.bytesWritten ?? 0) > 0, { everyMs: 0 });
      await turns(Math.floor(count / 4));
      client.send(latin1(`hello${nextPost}`));
      t.same(await finals(client, 2), [413, 200], `${end} after ${count} turns`);
      client.destroy();
    }
  }
});

t.test('an app that closes when the rest comes takes no other request with it', async (t) => {
  const { open, app } = await stageEarly(t, answer, ({ socket }) => socket.resetAndDestroy());
  const client = await open();
  client.send(sized(5));
  t.same(await finals(client, 1), [413]);
  client.send(latin1(`hello${nextPost}`));
  t.same(await finals(client, 2), [413, 200]);
  t.equal(app.sockets.length, 2);
});

for (const engine of engines) {
  t.test(`an app that answers and closes while content comes has answered: ${engine}`, async (t) => {
    const content = Buffer.alloc(64 << 10);
    const chunk = Buffer.concat([latin1('10000\r\n'), content, latin1('\r\n')]);
    for (const end of ['destroy', 'resetAndDestroy'] as const) {
      for (const [title, head, piece, response, statuses] of [
        ['whole', sized(400 << 20), content, early('Connection: close\r\n'), [413]],
        ['to chunks', chunked, chunk, early('Connection: close\r\n'), [413]],
        ['half a head', sized(400 << 20), content, early().slice(0, 30), [502]],
      ] as const) {
        const { open, lane } = await stage(t, engine, {
          partial: ({ socket, pending }) => {
            const isDue = pending.length > 200_000 && socket.bytesWritten === 0;
            if (isDue) socket.write(response, () => socket[end]());
          },
        });
        for (let count = 1; count <= 10; count++) {
          const client = await open();
          client.send(head);
          // It is under way at any time, so that more of it meets the reset.
          for (; client.receivedLength === 0 && !client.ended; await turns(1)) client.send(piece);
          t.same(await finals(client, 1), statuses, `${end}, ${title}`);
          client.destroy();
          await until('it to be counted out', () => lane.counts.ended === count);
        }
      }
    }
  });
}

t.test('what awaits the rest for as long as a connection may be idle is closed, and its client served', async (t) => {
  const { open, app } = await stageEarly(t, answer);
  const client = await open();
  client.send(sized(5));
  t.same(await finals(client, 1), [413]);
  await until('the connection to be given up', () => app.sockets[0]?.closed, { timeoutMs: 15_000 });
  client.send(latin1('hello'));
  client.send(get('/next'));
  t.same(await finals(client, 2), [413, 200]);
  t.equal(app.sockets.length, 2);
});

t.test('what is too much ends both connections', async (t) => {
  const { open, app } = await stageEarly(t, answer);
  const client = await open();
  client.send(sized(400 << 20));
  t.same(await finals(client, 1), [413]);
  const piece = Buffer.alloc(64 << 10);
  await until('both to end', () => {
    if (!client.ended) client.send(piece);
    return client.ended && app.sockets[0]?.closed === true;
  });
  t.equal(app.requests.length, 0);
});

t.test('a client that goes within the rest takes the connection with it', async (t) => {
  for (const end of ['destroy', 'halfClose'] as const) {
    const { open, app } = await stageEarly(t, answer);
    const client = await open();
    client.send(sized(5));
    t.same(await finals(client, 1), [413]);
    client.send(latin1('hel'));
    client[end]();
    await until(`the connection to be given up after ${end}`, () => app.sockets[0]?.closed);
    t.equal(app.requests.length, 0);
  }
});

t.test('a connection whose last response it is waits for nothing', async (t) => {
  const { open, app } = await stageEarly(t, answer);
  const client = await open();
  client.send(head('Content-Length: 5\r\nConnection: close\r\n'));
  t.same(await finals(client, 1), [413]);
  await until('both to end', () => client.ended && app.sockets[0]?.closed === true);
});

t.test('a client that is told to go on, and does not', async (t) => {
  const { open, app, lane } = await stageEarly(t, answer);
  for (const way of ['goes', 'ends'] as const) {
    const client = await open();
    client.send(expecting);
    await until('100 Continue', () => client.received.toString('latin1') === goOn);
    if (way === 'goes') client.reset();
    else client.halfClose();
    await until('nothing to be left', () => lane.live.size === 0);
    client.destroy();
  }
  t.equal(app.sockets.length, 0, 'the app hears nothing of it');
  t.match(lane.counts, { started: 2, ended: 2 }, 'both requests are over');
});

t.test('content that was asked for comes in pieces', async (t) => {
  const { open, app } = await stage(t, 'fast');
  const client = await open();
  for (const isFirst of [true, false]) {
    client.send(expecting);
    await until('100 Continue', () => client.received.toString('latin1').endsWith(goOn));
    for (const letter of 'hello') {
      client.send(latin1(letter));
      await turns(3);
    }
    t.same(await finals(client, isFirst ? 1 : 2), isFirst ? [200] : [200, 200]);
  }
  t.same(
    app.requests.map(({ body }) => body.toString()),
    ['hello', 'hello'],
  );
  t.equal(app.sockets.length, 1);
});
