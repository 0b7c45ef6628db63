import t from 'tap';
import { until } from '../support/until.ts';
import { timeLimitMs } from './budget.ts';
import { lastLook } from './looks.ts';
import { difference, variants } from './two-lanes.ts';

/*
 * Every shape of request that the fast lane takes, cut at every byte: it takes it, and what comes of it is the same as on
 * the library lane. What it must not take goes there, with the same result.
 */

t.setTimeout(timeLimitMs);

const request = (line: string, ...fields: string[]): string =>
  `${[line, 'Host: a.example', ...fields].join('\r\n')}\r\n\r\n`;

const smuggled = 'GET /SMUGGLED HTTP/1.1\r\nHost: x\r\n\r\n';
const inChunks = 'Transfer-Encoding: chunked';
const expecting = 'Expect: 100-continue';
const chunk = (content: string): string => `${content.length.toString(16)}\r\n${content}\r\n`;
const last = '0\r\n\r\n';

interface Shape {
  readonly name: string;
  readonly text: string;
}

const taken: readonly Shape[] = [
  { name: 'chunks', text: `${request('POST /a HTTP/1.1', inChunks)}${chunk('hello')}${chunk('x')}${last}` },
  { name: 'chunks without content', text: `${request('POST /a HTTP/1.1', inChunks)}${last}` },
  {
    name: 'chunks that look like requests, and requests behind them',
    text: `${request('PUT /a HTTP/1.1', inChunks)}${chunk(smuggled)}${last}${request('POST /b HTTP/1.1', inChunks)}${chunk(last)}${last}`,
  },
  {
    name: 'chunks with leading zeros, extensions and trailers',
    text: `${request('POST /a HTTP/1.1', inChunks, 'Trailer: X')}005;a="0\\"";b=\r\nhello\r\n00;z\r\nX: 1\r\nl5d-client-id: me\r\n\r\n`,
  },
  {
    name: 'chunks of a method that has no content',
    text: `${request('GET /a HTTP/1.1', inChunks)}${chunk('x')}${last}`,
  },
  { name: 'chunks that are refused', text: `${request('POST /DENIED HTTP/1.1', inChunks)}${chunk('hello')}${last}` },
  {
    name: 'Expect and a length',
    text: `${request('POST /a HTTP/1.1', 'Content-Length: 5', expecting)}hello`,
  },
  {
    name: 'Expect and chunks',
    text: `${request('POST /a HTTP/1.1', inChunks, 'expect: 100-Continue')}${chunk('hello')}${last}`,
  },
  {
    name: 'WebSocket that the app declines, with early bytes',
    text: `${request('GET /a HTTP/1.1', 'Connection: Upgrade', 'Upgrade: websocket')}${smuggled}`,
  },
  {
    name: 'WebSocket that is refused, with early bytes',
    text: `${request('GET /DENIED HTTP/1.1', 'Connection: keep-alive, Upgrade', 'Upgrade: websocket')}${smuggled}`,
  },
  { name: 'Expect without content', text: request('GET /a HTTP/1.1', expecting) },
  {
    name: 'Expect without content that is refused, and another request behind it',
    text: `${request('GET /DENIED HTTP/1.1', expecting)}${request('GET /b HTTP/1.1')}`,
  },
  { name: 'Expect that is refused', text: `${request('POST /DENIED HTTP/1.1', 'Content-Length: 5', expecting)}hello` },
  { name: 'HTTP/1.0, kept', text: 'GET /1 HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n' },
  { name: 'HTTP/1.0 without keep-alive', text: 'GET /1 HTTP/1.0\r\nHost: a\r\n\r\n' },
  { name: 'HTTP/1.0 without any field', text: 'GET /1 HTTP/1.0\r\n\r\n' },
  {
    name: 'HTTP/1.0 with content',
    text: 'POST /1 HTTP/1.0\r\nContent-Length: 5\r\nConnection: Keep-Alive\r\n\r\nhello',
  },
  { name: 'HTTP/1.0, refused', text: 'GET /DENIED HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n' },
  { name: 'HEAD', text: request('HEAD /1 HTTP/1.1') },
  { name: 'HEAD, HTTP/1.0, kept', text: 'HEAD /1 HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n' },
  { name: 'absolute-form', text: request('GET http://b.example/1?2 HTTP/1.1') },
  { name: 'absolute-form, refused', text: request('GET http://b.example/DENIED HTTP/1.1') },
  {
    name: 'absolute-form without a path',
    text: request('POST https://[::1]:80 HTTP/1.1', 'Content-Length: 5').concat('hello'),
  },
  { name: 'absolute-form, HTTP/1.0', text: 'GET http://b.example?1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n' },
  { name: 'OPTIONS *', text: request('OPTIONS * HTTP/1.1') },
  { name: 'TE', text: request('GET /1 HTTP/1.1', 'TE: trailers', 'Connection: TE') },
  {
    name: 'TE of other codings',
    text: request('GET /1 HTTP/1.1', 'TE: deflate,gzip;q=0.3', 'Connection: TE, keep-alive'),
  },
  {
    name: 'a field that Connection names',
    text: request('GET /1 HTTP/1.1', 'X-A: 1', 'Connection: x-a', 'X-B: 2', 'x-A: 3'),
  },
  { name: 'Trailer', text: request('GET /1 HTTP/1.1', 'Trailer: X-Sum') },
  { name: 'Keep-Alive', text: request('GET /1 HTTP/1.1', 'Connection: keep-alive', 'Keep-Alive: timeout=5, max=100') },
  { name: 'Proxy-Connection', text: request('GET /1 HTTP/1.1', 'Proxy-Connection: keep-alive') },
  { name: 'HTTP2-Settings', text: request('GET /1 HTTP/1.1', 'HTTP2-Settings: AAMAAABkAAQAAP__') },
];

/** The library lane's from the first packet on, or 400 in mid-content. */
const odd: readonly Shape[] = [
  {
    name: 'a length besides',
    text: `${request('POST /a HTTP/1.1', inChunks, 'Content-Length: 5')}${chunk('hello')}${last}`,
  },
  {
    name: 'a length before',
    text: `${request('POST /a HTTP/1.1', 'Content-Length: 5', inChunks)}${chunk('hello')}${last}`,
  },
  { name: 'a second coding', text: `${request('POST /a HTTP/1.1', inChunks, inChunks)}${chunk('hello')}${last}` },
  { name: 'another coding', text: `${request('POST /a HTTP/1.1', 'Transfer-Encoding: gzip, chunked')}${last}` },
  { name: 'a sign', text: `${request('POST /a HTTP/1.1', inChunks)}+5\r\nhello\r\n${last}` },
  { name: 'a space', text: `${request('POST /a HTTP/1.1', inChunks)}5 \r\nhello\r\n${last}` },
  { name: 'a prefix', text: `${request('POST /a HTTP/1.1', inChunks)}0x5\r\nhello\r\n${last}` },
  { name: 'bare LF behind a size', text: `${request('POST /a HTTP/1.1', inChunks)}5\nhello\r\n${last}` },
  { name: 'bare LF behind content', text: `${request('POST /a HTTP/1.1', inChunks)}5\r\nhello\n${last}` },
  {
    name: 'bare LF in the second chunk',
    text: `${request('POST /a HTTP/1.1', inChunks)}${chunk('hello')}1;\nx\r\n${last}`,
  },
  { name: 'a length in a trailer', text: `${request('POST /a HTTP/1.1', inChunks)}0\r\nContent-Length: 5\r\n\r\n` },
  { name: 'chunks in HTTP/1.0', text: `POST /a HTTP/1.0\r\n${inChunks}\r\n\r\n${chunk('hello')}${last}` },
  { name: 'Expect in HTTP/1.0', text: `POST /a HTTP/1.0\r\n${expecting}\r\nContent-Length: 5\r\n\r\nhello` },
  { name: 'two Hosts, HTTP/1.0', text: 'GET /a HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n' },
  { name: 'an odd authority', text: request('GET http://b@a.example/ HTTP/1.1') },
  { name: 'an authority and no Host', text: 'GET http://a.example/ HTTP/1.1\r\nX: 1\r\n\r\n' },
  { name: 'both options of a connection', text: request('GET /a HTTP/1.1', 'Connection: close, keep-alive') },
  { name: 'another expectation', text: `${request('POST /a HTTP/1.1', 'Content-Length: 5', 'Expect: x')}hello` },
];

t.test('shapes of requests', async (t) => {
  const list = await variants(t);
  const fast = list.filter(({ engine }) => engine === 'fast');
  const handedOver = (): number => fast.reduce((sum, { lane }) => sum + lane.counts.handedOver, 0);
  const decided = (): number => fast.reduce((sum, { lane }) => sum + lane.counts.decided, 0);

  await t.test('are taken by the fast lane, wherever they are cut', async (t) => {
    for (const { name, text } of taken) {
      const [before, asked] = [handedOver(), decided()];
      for (let at = 1; at < text.length; at++) {
        const seen = await difference(list, text, [at]);
        if (seen !== null) t.fail(`${name}, cut at ${at}: ${seen}`);
      }
      t.equal(await difference(list, text, []), null, `${name}, whole`);
      t.equal(await difference(list, text, null), null, `${name}, by bytes`);
      t.equal(handedOver() - before, 0, `${name}: nothing of it goes to the library lane`);
      const looks = (text.length + 1) * fast.length;
      t.ok(decided() - asked >= looks, `${name}: ${decided() - asked} requests in ${looks} looks`);
    }
  });

  await t.test('are taken however long they are', async (t) => {
    const before = handedOver();
    for (const length of [5_000, 17_000, 60_000]) {
      const text = request('GET /a HTTP/1.1', `Cookie: ${'a=b; '.repeat(length / 5)}`);
      for (const at of [[], [length - 300, length]]) {
        t.equal(await difference(list, text + text, at), null, `${length} bytes, cut at ${at}`);
      }
    }
    t.equal(handedOver(), before, 'nothing of it goes to the library lane');
    const beyond = request('GET /a HTTP/1.1', `Cookie: ${'a=b; '.repeat(16_000)}`);
    t.equal(await difference(list, beyond, []), null, 'what is longer than the limit');
  });

  await t.test('are refused alike where they are odd', async (t) => {
    for (const { name, text } of odd) {
      for (let at = 1; at < text.length; at++) {
        const seen = await difference(list, text, [at]);
        if (seen !== null) t.fail(`${name}, cut at ${at}: ${seen}`);
      }
      t.equal(await difference(list, text, null), null, `${name}, by bytes`);
      const before = handedOver();
      t.equal(await difference(list, text, []), null, `${name}, whole`);
      t.equal(handedOver() - before, fast.length, `${name}: as a whole it is the library lane's`);
    }
  });

  await lastLook();
  for (const { engine, reading, lane } of list) {
    await until('no connection to be open', () => lane.live.size === 0);
    t.equal(lane.counts.started, lane.counts.ended, `${engine}, ${reading}: every request is counted out`);
  }
});
