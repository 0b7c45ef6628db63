import t from 'tap';
import { get, stage, statuses } from '../../../../support/lane-stage.ts';
import { latin1 } from '../../../../support/raw-http.ts';
import { until } from '../../../../support/until.ts';

/*
 * Some apps send content in answer to HEAD, and late at that: it would be taken for the beginning of the next response.
 * So a connection to the app that has answered HEAD answers nothing but HEAD of the same client any more.
 */

const head = (path: string, more = ''): Buffer => latin1(`HEAD ${path} HTTP/1.1\r\nHost: a\r\n${more}\r\n`);
const answer = 'HTTP/1.1 200 OK\r\nContent-Length: 44\r\n\r\n';
const poison = 'HTTP/1.1 299 Poison\r\nContent-Length: 0\r\n\r\n';

t.test('each client has connections of its own for HEAD, and keeps them', async (t) => {
  /** By connection to the app. */
  const asked: string[] = [];
  const { open, app, lane } = await stage(t, 'fast', {
    answer: ({ method, target }, { socket, number }) => {
      asked[number] = `${asked[number] ?? ''}${method} ${target} `;
      socket.write(method === 'HEAD' ? answer : 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
    },
  });
  const [a, b] = [await open(), await open()];
  const sent: string[] = [];
  const ask = async (bytes: Buffer): Promise<void> => {
    sent.push(bytes.toString('latin1').split(' ')[0] ?? '');
    a.send(bytes);
    await a.responses(sent);
  };
  await ask(get('/1'));
  await ask(head('/2'));
  await ask(head('/3'));
  await ask(get('/4'));
  await ask(head('/5'));
  t.same(asked, ['GET /1 GET /4 ', 'HEAD /2 HEAD /3 HEAD /5 ']);
  b.send(head('/6'));
  await b.responses(['HEAD']);
  t.same(asked, ['GET /1 GET /4 ', 'HEAD /2 HEAD /3 HEAD /5 ', 'HEAD /6 '], 'another client has another one');
  const fields = app.requests.flatMap(({ headers }) => headers.map(([name]) => name.toLowerCase()));
  t.notOk(fields.includes('connection'), 'the app is not asked to close any of them');
  b.halfClose();
  await until("the other client's to be closed with it", () => app.sockets[2]?.closed === true);
  t.same(
    app.sockets.map(({ closed }) => closed),
    [false, false, true],
  );
  a.destroy();
  await until("the first client's, too", () => app.sockets[1]?.closed === true);
  t.equal(lane.counts.handedOver, 0);
});

t.test('a client whose connection ends with HEAD needs none to be kept', async (t) => {
  const { open, app } = await stage(t, 'fast', { answer: (_request, { socket }) => socket.write(answer) });
  const client = await open();
  client.send(head('/', 'Connection: close\r\n'));
  t.ok(await until('the end of the connection', () => client.ended));
  t.match(app.requests[0]?.headers.find(([name]) => /^connection$/i.test(name))?.[1], /^close$/);
  await until('it to be closed', () => app.sockets[0]?.closed === true);
});

t.test('content in answer to HEAD', async (t) => {
  for (const when of ['with it', 'behind it'] as const) {
    const { open, app, lane } = await stage(t, 'fast', {
      answer: ({ method }, { socket }) => {
        if (method !== 'HEAD') socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
        else socket.write(when === 'with it' ? answer + poison : answer);
      },
    });
    const client = await open();
    client.send(head('/1'));
    await client.responses(['HEAD']);
    if (when === 'behind it') app.sockets[0]?.socket.write(poison);
    await until(`${when}: its connection to be closed`, () => app.sockets[0]?.closed === true);
    client.send(Buffer.concat([get('/2'), head('/3'), get('/4')]));
    const methods = ['HEAD', 'GET', 'HEAD', 'GET'];
    await client.responses(methods);
    t.same(statuses(client, methods), [200, 200, 200, 200], `${when}: it is no answer to anything`);
    t.equal(lane.counts.failed, 0);
  }
});

t.test('they are closed when they have been idle', async (t) => {
  const { open, app } = await stage(t, 'fast', { answer: (_request, { socket }) => socket.write(answer) });
  const client = await open();
  client.send(head('/1'));
  await client.responses(['HEAD']);
  t.notOk(app.sockets[0]?.closed);
  await until('the idle one to be closed', () => app.sockets[0]?.closed === true);
  client.send(head('/2'));
  await client.responses(['HEAD', 'HEAD']);
  t.equal(app.sockets.length, 2);
  t.notOk(client.ended);
});
