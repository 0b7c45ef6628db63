import t from 'tap';
import { fieldLines, fieldPairs, fieldValues } from '../../../../../lib/proxy/http/field-lines.ts';
import { PlainRequest, readPlainHead } from '../../../../../lib/proxy/http1/fast/plain-request.ts';

const head = (line: string, ...fields: readonly string[]): string => `${[line, ...fields].join('\r\n')}\r\n\r\n`;
const get = (...fields: readonly string[]): string => head('GET / HTTP/1.1', 'Host: a', ...fields);

t.test('plain requests', async (t) => {
  const rows: readonly (readonly [name: string, text: string, wanted: object])[] = [
    [
      'the least',
      get(),
      {
        method: 'GET',
        target: '/',
        fields: { host: 'a', framing: { kind: 'none' }, keepAlive: true, forward: 'Host: a\r\n' },
      },
    ],
    [
      'a query',
      head('OPTIONS /a?b=c HTTP/1.1', 'host:a:80'),
      { method: 'OPTIONS', target: '/a?b=c', fields: { host: 'a:80' } },
    ],
    [
      'chunks',
      head('POST / HTTP/1.1', 'Host: a', 'transfer-encoding:  Chunked ', 'Trailer: X'),
      { fields: { framing: { kind: 'chunked' }, forward: 'Host: a\r\nTrailer: X\r\n' } },
    ],
    [
      'Expect',
      head('POST / HTTP/1.1', 'Host: a', 'Content-Length: 7', 'Expect: 100-Continue'),
      { fields: { expectsContinue: true, forward: 'Host: a\r\nContent-Length: 7\r\n' } },
    ],
    [
      'a body',
      head('POST / HTTP/1.1', 'Host: a', 'content-length: 007'),
      { fields: { framing: { kind: 'length', bytes: 7 } } },
    ],
    [
      'the longest length',
      head('PUT / HTTP/1.1', 'Host: a', 'Content-Length: 999999999999999'),
      { fields: { framing: { kind: 'length', bytes: 999_999_999_999_999 } } },
    ],
    ['asterisk-form', head('OPTIONS * HTTP/1.1', 'Host: a'), { method: 'OPTIONS', target: '*' }],
    ['a method that nobody knows', head('FOO /a HTTP/1.1', 'Host: a'), { method: 'FOO', target: '/a' }],
    ['an IPv6 host', head('GET / HTTP/1.1', 'Host: [::1]:8080'), { fields: { host: '[::1]:8080' } }],
    ['an empty host', head('GET / HTTP/1.1', 'Host:'), { fields: { host: '' } }],
    ['the last of its connection', get('Connection: Close'), { fields: { keepAlive: false, forward: 'Host: a\r\n' } }],
    [
      'not the last',
      get('CONNECTION: keep-alive', 'X: 1'),
      { fields: { keepAlive: true, forward: 'Host: a\r\nX: 1\r\n' } },
    ],
    [
      'claimed identities',
      get('l5d-client-id: x', 'X: 1', 'L5D_Client.Id: y', 'Y: 2'),
      { fields: { forward: 'Host: a\r\nX: 1\r\nY: 2\r\n' } },
    ],
    ['spaces and obs-text', get('X:\t \xe9 \t'), { fields: { forward: 'Host: a\r\nX:\t \xe9 \t\r\n' } }],
    ['as many fields as are taken', get(...Array(99).fill('X: 1')), { fields: { host: 'a' } }],
  ];
  for (const [name, text, wanted] of rows) t.match(readPlainHead(text, null), wanted, name);
});

t.test('requests for the library lane', async (t) => {
  const rows: readonly (readonly [name: string, text: string])[] = [
    ['CONNECT', head('CONNECT a:80 HTTP/1.1', 'Host: a')],
    ['PRI', head('PRI / HTTP/1.1', 'Host: a')],
    ['no token for a method', head('G@T / HTTP/1.1', 'Host: a')],
    ['a lower-case method', head('get / HTTP/1.1', 'Host: a')],
    ['asterisk-form of another method', head('GET * HTTP/1.1', 'Host: a')],
    ['more than an asterisk', head('OPTIONS *x HTTP/1.1', 'Host: a')],
    ['absolute-form', head('GET http://a/ HTTP/1.1', 'Host: a')],
    ['HTTP/1.0', head('GET / HTTP/1.0', 'Host: a')],
    ['two spaces', head('GET  / HTTP/1.1', 'Host: a')],
    ['a space in the target', head('GET /a b HTTP/1.1', 'Host: a')],
    ['obs-text in the target', head('GET /\xe9 HTTP/1.1', 'Host: a')],
    ['bare LF in the request line', 'GET / HTTP/1.1\nHost: a\r\n\r\n'],
    ['an empty line first', `\r\n${get()}`],
    ['no field', head('GET / HTTP/1.1')],
    ['no Host', head('GET / HTTP/1.1', 'X: a')],
    ['two Hosts', get('Host: a')],
    ['a Host with user information', head('GET / HTTP/1.1', 'Host: a@b')],
    ['a Host that is a list', head('GET / HTTP/1.1', 'Host: a, b')],
    ['a coding and a length', get('Transfer-Encoding: chunked', 'Content-Length: 5')],
    ['a length and a coding', get('Content-Length: 5', 'Transfer-Encoding: chunked')],
    ['two codings', get('Transfer-Encoding: chunked', 'Transfer-Encoding: chunked')],
    ['a list of codings', get('Transfer-Encoding: gzip, chunked')],
    ['another coding', get('Transfer-Encoding: identity')],
    ['an empty coding', get('Transfer-Encoding:')],
    ['a tab before a coding', get('Transfer-Encoding:\tchunked')],
    ['a tab behind a coding', get('Transfer-Encoding: chunked\t')],
    ['a coding with a parameter', get('Transfer-Encoding: chunked;a')],
    ['two lengths', get('Content-Length: 1', 'Content-Length: 1')],
    ['a list of lengths', get('Content-Length: 1, 1')],
    ['a signed length', get('Content-Length: +1')],
    ['an empty length', get('Content-Length:')],
    ['a length of 16 digits', get('Content-Length: 1000000000000000')],
    ['another expectation', get('Expect: 200-maybe')],
    ['an empty expectation', get('Expect:')],
    ['two expectations', get('Expect: 100-continue', 'Expect: 100-continue')],
    ['Upgrade', get('Connection: upgrade', 'Upgrade: websocket')],
    ['Upgrade alone', get('Upgrade: websocket')],
    ['names in Connection', get('Connection: close, X')],
    ['two Connections', get('Connection: close', 'Connection: close')],
    ['an empty Connection', get('Connection:')],
    ['TE', get('TE: trailers')],
    ['Keep-Alive', get('Keep-Alive: timeout=1')],
    ['Proxy-Connection', get('Proxy-Connection: close')],
    ['HTTP2-Settings', get('HTTP2-Settings: A')],
    ['a folded line', get('X: 1', ' 2')],
    ['space before a colon', get('X : 1')],
    ['no name', get(': 1')],
    ['no colon', get('X')],
    ['a separator in a name', get('X(: 1')],
    ['bare CR', get('X: a\rb')],
    ['bare LF', get('X: a\nb')],
    ['NUL', get('X: \0')],
    ['DEL', get('X: \x7f')],
    ['more fields than are taken', get(...Array(100).fill('X: 1'))],
  ];
  for (const [name, text] of rows) t.equal(readPlainHead(text, null), null, name);
});

t.test('repeated fields are read once, and only the very same', async (t) => {
  const first = readPlainHead(get('X: 1'), null);
  t.equal(readPlainHead(get('X: 1'), first?.fields ?? null)?.fields, first?.fields);
  t.not(readPlainHead(get('X: 2'), first?.fields ?? null)?.fields, first?.fields);
});

t.test('what policy sees', async (t) => {
  const plain = readPlainHead(
    head('GET /a?b?c HTTP/1.1', 'Host: h', 'X: 1', 'xx: 2', 'x:  3 ', 'l5d-client-id: me', 'Connection: close'),
    null,
  );
  if (plain === null) throw new Error('not plain');
  const request = new PlainRequest(plain);
  t.match(request, {
    method: 'GET',
    target: '/a?b?c',
    path: '/a',
    query: 'b?c',
    host: 'h',
    grpc: false,
    version: 'HTTP/1.1',
  });
  t.same(request.header('x'), ['1', '3']);
  t.same(request.header('l5d-client-id'), [], 'what the app does not get, policy does not see');
  t.same(request.header('connection'), []);
  t.same(request.header('y'), []);
});

t.test('lines and pairs', async (t) => {
  const lines = 'A: 1\r\nb:2\r\nA:\t3 \r\n';
  t.same(fieldPairs(lines), ['A', '1', 'b', '2', 'A', '3']);
  t.equal(fieldLines(fieldPairs(lines)), 'A: 1\r\nb: 2\r\nA: 3\r\n');
  t.same(fieldValues(lines, 'a'), ['1', '3']);
  t.same(fieldValues('', 'a'), []);
});
