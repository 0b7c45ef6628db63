import t from 'tap';
import { stage } from '../../../support/lane-stage.ts';
import { type Engine, engines } from '../../../support/lanes.ts';
import { latin1 } from '../../../support/raw-http.ts';
import { until } from '../../../support/until.ts';

/*
 * What is recorded of a request (its decision, the line of the access log, what is counted) and what its client gets are
 * the same whichever lane has it.
 */

const answers = {
  '/length': 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: 1\r\n\r\nhello',
  '/chunks': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n5\r\nhello\r\n0\r\nT: 1\r\n\r\n',
  '/nothing': 'HTTP/1.1 204 No Content\r\n\r\n',
  '/same': 'HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n',
  '/hints': 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
  '/bad': 'HTTP/1.1 2000 OK\r\n\r\n',
} as const;

const kept = 'Connection: keep-alive\r\n';
const spoken = 'User-Agent: test\r\nx-request-id: 7\r\n';

const requests: readonly string[] = [
  ...Object.keys(answers).flatMap((path) => [
    `GET ${path} HTTP/1.0\r\n\r\n`,
    `GET ${path}?q HTTP/1.0\r\nHost: a.example\r\n${kept}${spoken}\r\n`,
    `GET http://b.example:80${path} HTTP/1.1\r\nHost: a.example\r\n\r\n`,
    `GET http://b.example${path} HTTP/1.0\r\n${kept}\r\n`,
  ]),
  ...['1.0', '1.1'].flatMap((version) => [
    `HEAD /length HTTP/${version}\r\nHost: a.example\r\n${kept}\r\n`,
    `HEAD /nothing HTTP/${version}\r\nHost: a.example\r\n${kept}\r\n`,
    `HEAD /chunks HTTP/${version}\r\nHost: a.example\r\n${kept}\r\n`,
    `HEAD /length HTTP/${version}\r\nHost: a.example\r\nConnection: close\r\n\r\n`,
    `POST /length HTTP/${version}\r\nHost: a.example\r\n${kept}Content-Length: 5\r\n\r\nhello`,
    `GET /DENIED HTTP/${version}\r\nHost: a.example\r\n${kept}\r\n`,
    `POST /DENIED HTTP/${version}\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello`,
    `GET http://b.example/DENIED HTTP/${version}\r\nHost: a.example\r\n${kept}\r\n`,
    `GET /length HTTP/${version}\r\nHost: a.example\r\nCookie: ${'a=b; '.repeat(6000)}c=d\r\n${kept}\r\n`,
  ]),
  'OPTIONS * HTTP/1.1\r\nHost: a.example\r\n\r\n',
  `GET /length HTTP/1.1\r\nHost: a.example\r\n${spoken}TE: trailers\r\nConnection: TE, x-request-id, user-agent\r\n\r\n`,
];

/** undici announces lengths in its own way, and tells HTTP/1.1 nothing of its connection. */
const incidental = new Set(['content-length', 'transfer-encoding', 'trailer', 'keep-alive', 'connection']);

async function records(t: Parameters<typeof stage>[0], engine: Engine, request: string): Promise<object> {
  const decided: string[] = [];
  const lines: object[] = [];
  const { open, app, lane } = await stage(
    t,
    engine,
    {
      answer: ({ target, method }, { socket }) => {
        const [head = '', body = ''] = (answers[target.replace(/\?.*/, '') as '/length'] ?? answers['/nothing']).split(
          /(?<=\r\n\r\n)(?!HTTP)/,
        );
        socket.write(method === 'HEAD' ? head : head + body);
      },
    },
    {
      onDecided: (asked) => void decided.push(asked),
      access: (_connection, { totalMs: _total, processingMs: _processing, ...line }) => void lines.push(line),
    },
  );
  const client = await open();
  client.send(latin1(request));
  const method = request.slice(0, request.indexOf(' '));
  const isOld = request.includes(' HTTP/1.0\r\n');
  const [answer] = await client.responses([method]);
  await until('it to be counted out', () => lane.counts.ended === lane.counts.started);
  // Whether it stays open, its next request tells.
  client.send(latin1('GET /nothing HTTP/1.1\r\nHost: next\r\n\r\n'));
  await client.responses([method, 'GET']).catch(() => client.ends(3000));
  const { started, heads, ended, failed, badRequests, httpErrors, limits } = lane.counts;
  const fields = (answer?.headers ?? []).map(([name, value]) => `${name.toLowerCase()}: ${value}`);
  if (engine === 'fast') t.equal(lane.counts.handedOver, 0, 'it is the fast lane that is looked at');
  return {
    decided,

    lines,
    counts: { started, heads, ended, failed, badRequests, httpErrors, limits },
    status: answer?.status,
    fields: fields.filter((line) => isOld || !incidental.has(line.slice(0, line.indexOf(':')))).sort(),
    body: answer?.body.toString('latin1'),
    asked: app.requests.map(({ method, target, headers }) => [
      method,
      target,
      headers.filter(([name]) => /^(?:host|te|user-agent|x-request-id|cookie)$/i.test(name)).map(([, value]) => value),
    ]),
  };
}

t.test('a request is recorded alike on both lanes', async (t) => {
  for (const request of requests) {
    const [fast, library] = await Promise.all(engines.map((engine) => records(t, engine, request)));
    t.same(fast, library, JSON.stringify(request.slice(0, 120)));
  }
});
