import t, { type Test } from 'tap';
import { holdStarts } from '../../../support/held-starts.ts';
import { get, post, runScenarios, type Scenario, stage } from '../../../support/lane-stage.ts';
import type { ArrivalKind, Engine } from '../../../support/lanes.ts';
import { meshed } from '../../../support/mesh.ts';
import { type AppSocket, ok } from '../../../support/raw-app.ts';
import { latin1, oddLines, parseResponses, saysClose } from '../../../support/raw-http.ts';
import { until } from '../../../support/until.ts';

/* A client may end its side when it has sent its requests; it gets its responses (RFC 9112 9.6). */

const odd = (path: string, bytes = 300): Buffer => get(path, `${oddLines}X-Fill: ${'x'.repeat(bytes - 90)}\r\n`);
const oddPost = (path: string, length: number, sent = length): Buffer =>
  latin1(`POST ${path} HTTP/1.1\r\nHost: a\r\n${oddLines}Content-Length: ${length}\r\n\r\n${'x'.repeat(sent)}`);
const chunked = (path: string, rest: string): Buffer =>
  latin1(`POST ${path} HTTP/1.1\r\nHost: a\r\n${oddLines}Transfer-Encoding: chunked\r\n\r\n${rest}`);

interface Row {
  readonly title: string;
  readonly sent: readonly Buffer[];
  /** Final responses; the last may be our refusal of what was no whole request. */
  readonly statuses: readonly number[];
  /** Paths of the requests that the app gets whole. */
  readonly whole: readonly string[];
  readonly bad?: readonly string[];
}

const rows: readonly Row[] = [
  {
    title: 'four requests that only the library lane takes',
    sent: [odd('/1'), odd('/2'), odd('/3'), odd('/4')],
    statuses: [200, 200, 200, 200],
    whole: ['/1', '/2', '/3', '/4'],
  },
  {
    title: 'a hundred of them',
    sent: Array.from({ length: 100 }, (_, at) => odd(`/${at}`)),
    statuses: Array(100).fill(200),
    whole: Array.from({ length: 100 }, (_, at) => `/${at}`),
  },
  {
    title: 'content behind one',
    sent: [odd('/1'), oddPost('/2', 5000)],
    statuses: [200, 200],
    whole: ['/1', '/2'],
  },
  {
    title: 'chunks behind one',
    sent: [odd('/1'), chunked('/2', `1388\r\n${'x'.repeat(5000)}\r\n0\r\n\r\n`)],
    statuses: [200, 200],
    whole: ['/1', '/2'],
  },
  {
    title: 'one behind a plain request',
    sent: [get('/1'), odd('/2')],
    statuses: [200, 200],
    whole: ['/1', '/2'],
  },
  {
    title: 'more behind a plain request, which are denied and not',
    sent: [get('/1'), odd('/DENIED'), get('/3'), oddPost('/4', 5000)],
    statuses: [200, 403, 200, 200],
    whole: ['/1', '/3', '/4'],
  },
  {
    title: 'an empty line behind the last',
    sent: [odd('/1'), odd('/2'), latin1('\r\n')],
    statuses: [200, 200],
    whole: ['/1', '/2'],
  },
  {
    title: 'an empty line behind a plain request',
    sent: [get('/1'), latin1('\r\n')],
    statuses: [200],
    whole: ['/1'],
  },
  {
    title: 'a refused head behind a plain request',
    sent: [get('/1'), latin1('GET /2 HTTP/1.1\r\nHost: a\r\nX y: z\r\n\r\n')],
    statuses: [200, 400],
    whole: ['/1'],
    bad: ['HPE_INVALID_HEADER_TOKEN'],
  },
  {
    title: 'a part of a head',
    sent: [odd('/1'), odd('/2'), odd('/3').subarray(0, 200)],
    statuses: [200, 200, 400],
    whole: ['/1', '/2'],
    bad: ['HPE_INVALID_EOF_STATE'],
  },
];

/** What of a row does not depend on how its client connects. */
async function answered(t: Test, engine: Engine, row: Row, arrivals: ArrivalKind, isSecured: boolean): Promise<void> {
  const { termination, client: mesh } = meshed('http/1.1');
  const secured = isSecured ? { tls: termination } : {};
  const { open, app, lane } = await stage(
    t,
    engine,
    { answer: (_request, { socket }) => setTimeout(() => socket.write(ok), 10) },
    { arrivals, ...secured },
    isSecured ? mesh : undefined,
  );
  const client = await open();
  client.send(Buffer.concat(row.sent));
  client.halfClose();
  t.ok(await until('the end of the connection', () => client.ended), 'the proxy ends its side, too');
  const methods = row.sent.map((bytes) => bytes.toString('latin1').split(' ', 1)[0] as string);
  const { responses, incomplete } = parseResponses(client.received, methods, client.ended);
  t.same([responses.map(({ status }) => status), incomplete], [row.statuses, false]);
  t.same(
    app.requests.map(({ target }) => target),
    row.whole,
    'each once, in their order',
  );
  t.same(lane.counts.badRequests, row.bad ?? []);
  t.equal(lane.counts.decided, row.statuses.filter((status) => status !== 400).length);
  t.ok(await until('its app connections to be left', () => lane.counts.sources === 0));
}

const scenarios: Scenario[] = [];
for (const row of rows) {
  for (const [link, isSecured] of [
    ['', false],
    [' over TLS', true],
  ] as const) {
    for (const arrivals of ['as a stream', 'with bytes'] as const) {
      scenarios.push({
        name: `${row.title}, ${arrivals}${link}`,
        run: (t, engine) => answered(t, engine, row, arrivals, isSecured),
      });
    }
  }
}

/** The app gets the beginning, and sees it break off. */
for (const [title, first] of [
  ['behind one', odd('/1')],
  ['behind a plain request', get('/1')],
] as const) {
  for (const [kind, cut] of [
    ['a length', oddPost('/2', 50_000, 20_000)],
    ['chunks', chunked('/2', `4e20\r\n${'x'.repeat(20_000)}\r\n`)],
  ] as const) {
    scenarios.push({
      name: `content with ${kind} that is cut off ${title}`,
      run: async (t, engine) => {
        const begun: AppSocket[] = [];
        const { open, app, lane } = await stage(t, engine, { partial: (socket) => begun.push(socket) });
        const client = await open();
        client.send(Buffer.concat([first, cut]));
        client.halfClose();
        t.ok(await until('the end of the connection', () => client.ended));
        const { responses } = parseResponses(client.received, ['GET', 'POST'], true);
        t.same(
          responses.map(({ status }) => status),
          [200, 400],
        );
        t.ok(responses[1] !== undefined && saysClose(responses[1]));
        t.ok(await until('the app to see it', () => begun.every(({ closed, ended }) => closed || ended)));
        t.same(
          app.requests.map(({ target }) => target),
          ['/1'],
        );
        t.equal(lane.counts.decided, 2);
      },
    });
  }
}

scenarios.push({
  name: 'an end that comes while a plain request is in flight, and one behind it is not plain',
  run: async (t, engine) => {
    let answer = (): void => {};
    const { open, app, lane } = await stage(t, engine, {
      answer: ({ target }, { socket }) => {
        if (target === '/1') answer = () => socket.write(ok);
        else socket.write(ok);
      },
    });
    const client = await open();
    client.send(Buffer.concat([get('/1'), odd('/2'), post('/3', 'x'.repeat(5000))]));
    await until('the first to be at the app', () => app.requests.length === 1);
    client.halfClose();
    const other = await open();
    other.send(get('/other'));
    await other.responses(['GET']);
    answer();
    t.ok(await until('the end of the connection', () => client.ended));
    const { responses } = parseResponses(client.received, ['GET', 'GET', 'POST'], true);
    t.same(
      responses.map(({ status }) => status),
      [200, 200, 200],
    );
    t.same(
      app.requests.map(({ target }) => target),
      ['/1', '/other', '/2', '/3'],
    );
    t.equal(lane.counts.decided, 4);
  },
});

scenarios.push({
  name: 'a drain meanwhile: the last response says so',
  run: async (t, engine) => {
    let answer = (): void => {};
    const { open, app, lane } = await stage(t, engine, {
      answer: ({ target }, { socket }) => {
        if (target === '/1') answer = () => socket.write(ok);
        else socket.write(ok);
      },
    });
    const client = await open();
    client.send(Buffer.concat([odd('/1'), odd('/2'), odd('/3'), odd('/4')]));
    client.halfClose();
    await until('the first to be at the app', () => app.requests.length === 1);
    lane.http1.drain();
    lane.http1.closeIdle();
    answer();
    t.ok(await until('the end of the connection', () => client.ended));
    const { responses, incomplete } = parseResponses(client.received, Array(4).fill('GET'), true);
    t.notOk(incomplete);
    t.same(responses.slice(0, -1).map(saysClose), Array(responses.length - 1).fill(false));
    t.ok(responses.length > 1 && saysClose(responses.at(-1) as (typeof responses)[0]));
    t.equal(app.requests.length, responses.length, 'none without its response');
  },
});

await runScenarios(t, scenarios);

t.test('an end while the requests wait for their start in the library lane', async (t) => {
  for (const arrivals of ['as a stream', 'with bytes'] as const) {
    const { open, app, lane } = await stage(t, 'fast', {}, { arrivals });
    const clients = await Promise.all(Array.from({ length: 20 }, open));
    const letGo = holdStarts();
    for (const client of clients) {
      client.send(Buffer.concat([oddPost('/1', 5000), odd('/2')]));
      client.halfClose();
    }
    await until('all to wait', () => lane.counts.handedOver === clients.length, { everyMs: 0 });
    t.ok(lane.counts.decided < clients.length, 'some wait');
    letGo();
    for (const client of clients) {
      t.ok(await until('the end of the connection', () => client.ended));
      const { responses } = parseResponses(client.received, ['POST', 'GET'], true);
      t.same(
        responses.map(({ status }) => status),
        [200, 200],
      );
    }
    t.equal(app.requests.length, 2 * clients.length);
  }
});
