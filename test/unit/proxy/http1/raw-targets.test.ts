import { connect as http2Connect } from 'node:http2';
import t, { type Test } from 'tap';
import { type Engine, startLane } from '../../../support/lanes.ts';
import { startRawApp } from '../../../support/raw-app.ts';
import { latin1, parseResponses, RawClient, webSocketLines } from '../../../support/raw-http.ts';
import { until } from '../../../support/until.ts';

/*
 * Targets with raw UTF-8, which curl and many libraries send as it was typed: on to the app as they came, and decided as those
 * bytes. What is no UTF-8 is refused, over HTTP/1 and HTTP/2 alike.
 */

const utf8 = (text: string): string => Buffer.from(text, 'utf8').toString('latin1');

const taken = ['/?message=你好', '/你好/é?ü', '/\u{1f600}', '/\u00a0', '/\u0085x', '/a\ufffd'].map(utf8);
const refused = ['/\xff', '/?x=\xe9', '/\xc3', '/\xc0\xaf', '/\xed\xa0\x80', '/\xf5\x80\x80\x80', '/\x80'];

async function byHttp1(port: number, head: string): Promise<number> {
  const client = await RawClient.open({ port });
  try {
    client.send(latin1(head));
    const final = (): number | undefined => parseResponses(client.received, ['GET'], client.ended).responses[0]?.status;
    await until('a response', () => final() !== undefined || client.ended);
    return final() ?? 0;
  } finally {
    client.destroy();
  }
}

async function byHttp2(port: number, path: string, marker: Record<string, string>): Promise<number> {
  const session = http2Connect(`http://127.0.0.1:${port}`);
  session.on('error', () => {});
  const stream = session.request({ ':path': path, ...marker });
  let status = 0;
  stream.on('response', (fields) => {
    status = fields[':status'] ?? 0;
  });
  stream.on('error', () => {});
  stream.resume();
  await until('the end of the stream', () => stream.closed);
  session.destroy();
  return status;
}

async function http1(t: Test, engine: Engine, protocol: 'http1' | 'detect') {
  const decided: string[] = [];
  const app = await startRawApp(t, {
    answer: (_request, { socket }) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'),
  });
  const onDecided = (request: string): void => void decided.push(request);
  return { app, decided, lane: await startLane(t, { engine, protocol, app: app.port, onDecided }) };
}

for (const protocol of ['http1', 'detect'] as const) {
  t.test(`HTTP/1, ${protocol}`, async (t) => {
    const { app, decided, lane } = await http1(t, 'fast', protocol);
    const heads: readonly ((target: string) => string)[] = [
      (target) => `GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`,
      (target) => `GET ${target} HTTP/1.0\r\n\r\n`,
      (target) => `GET http://a${target} HTTP/1.1\r\nHost: a\r\n\r\n`,
    ];
    for (const head of heads) {
      for (const target of taken) {
        t.equal(await byHttp1(lane.port, head(target)), 200, JSON.stringify(target));
        t.equal(app.requests.at(-1)?.target, target, 'as it came');
        t.match(decided.at(-1), new RegExp(`^GET a?${target.replace(/\?.*/, '')}$`), 'decided as those bytes');
      }
      const before = app.requests.length;
      for (const target of refused) t.equal(await byHttp1(lane.port, head(target)), 400, JSON.stringify(target));
      t.equal(app.requests.length, before);
    }
    t.equal(await byHttp1(lane.port, `GET /DENIED${taken[1]} HTTP/1.1\r\nHost: a\r\n\r\n`), 403);
  });
}

t.test('HTTP/1, a switch to WebSocket', async (t) => {
  const { app, lane } = await http1(t, 'fast', 'http1');
  const head = `GET ${taken[0]} HTTP/1.1\r\nHost: a\r\n${webSocketLines}\r\n`;
  t.equal(await byHttp1(lane.port, head), 200, 'the app says no');
  t.equal(app.requests[0]?.target, taken[0]);
});

t.test('HTTP/2', async (t) => {
  const app = await startRawApp(t, {
    answer: (_request, { socket }) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'),
  });
  const lane = await startLane(t, { engine: 'fast', protocol: 'http2', app: app.port });
  const marker = { 'l5d-orig-proto': 'HTTP/1.1' };
  for (const target of taken) {
    t.equal(await byHttp2(lane.port, target, marker), 200, JSON.stringify(target));
    t.equal(app.requests.at(-1)?.target, target, 'as it came');
  }
  for (const target of refused)
    t.equal(await byHttp2(lane.port, target, marker), 0, `a reset: ${JSON.stringify(target)}`);
  t.equal(app.requests.length, taken.length);
});
