import t from 'tap';
import type { Client } from '../../../../../lib/client.ts';
import type { Admitted } from '../../../../../lib/proxy/http/admitted.ts';
import { fieldLines, fieldPairs, fieldValues } from '../../../../../lib/proxy/http/field-lines.ts';
import { PlainRequest, readPlainHead } from '../../../../../lib/proxy/http1/fast/plain-request.ts';
import { offTheFastLane } from '../../../../support/raw-http.ts';

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
      'WebSocket',
      head('GET / HTTP/1.1', 'Host: a', 'Connection: keep-alive, Upgrade', 'Upgrade: WebSocket', 'Trailer: x', 'A: b'),
      { fields: { framing: { kind: 'tunnel' }, forward: 'Host: a\r\nA: b\r\n' } },
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

/** Host `a`, then these; what the app gets, and whether another request may follow. */
t.test('fields of the connection, and those that resemble them', async (t) => {
  const rows: readonly (readonly [version: string, fields: readonly string[], forward: string, keepAlive: boolean])[] =
    [
      ['1.1', ['Connection: keep-alive, TE', 'TE: trailers'], 'Host: a|TE: trailers|', true],
      ['1.1', ['TE: deflate,gzip;q=0.3', 'Connection: TE, close', 'X: 1'], 'Host: a|X: 1|', false],
      ['1.1', ['X: 1', 'connection: x,  y, Keep-Alive', 'Y: 2', 'x: 3', 'Z: 4'], 'Host: a|Z: 4|', true],
      ['1.1', ['Connection: l5d-client-id, x-y', 'l5d-client-id: b', 'XY: 1'], 'Host: a|XY: 1|', true],
      ['1.1', ['Keep-Alive: timeout=5, max=100', 'X: 1'], 'Host: a|X: 1|', true],
      ['1.1', ['Proxy-Connection: Keep-Alive', 'X: 1'], 'Host: a|X: 1|', true],
      ['1.1', ['Proxy-Connection: keep-alive', 'Connection: close'], 'Host: a|', false],
      ['1.1', ['Connection: trailer', 'Trailer: X-Sum'], 'Host: a|Trailer: X-Sum|', true],
      ['1.1', ['HTTP2-Settings: AAMAAABkAAQAAP__', 'X: 1'], 'Host: a|X: 1|', true],
      ['1.0', [], 'Host: a|', false],
      ['1.0', ['Connection: Keep-Alive'], 'Host: a|', true],
      ['1.0', ['Connection: Keep-Alive, x', 'X: 1', 'TE: trailers'], 'Host: a|TE: trailers|', true],
      ['1.0', ['Connection: TE, keep-alive', 'TE: deflate,gzip;q=0.3'], 'Host: a|', true],
      ['1.0', ['Connection: close', 'X: 1'], 'Host: a|X: 1|', false],
      ['1.0', ['Connection: x', 'X: 1', 'Keep-Alive: 300'], 'Host: a|', false],
      ['1.0', ['Proxy-Connection: keep-alive', 'Connection: keep-alive'], 'Host: a|', true],
    ];
  for (const [version, fields, forward, keepAlive] of rows) {
    const plain = readPlainHead(head(`GET / HTTP/${version}`, 'Host: a', ...fields), null);
    const name = `HTTP/${version}, ${fields}`;
    t.equal(plain?.forward.replaceAll('\r\n', '|'), forward, name);
    t.equal(plain?.fields.keepAlive, keepAlive, name);
    t.equal(plain?.fields.version, `HTTP/${version}`, name);
  }
  const none = readPlainHead('GET / HTTP/1.0\r\n\r\n', null);
  t.match(none, { host: '', line: 'GET / HTTP/1.0\r\n' });
  t.equal(none?.forward, '', 'HTTP/1.0 goes on as it came');
});

t.test('absolute-form: the authority counts', async (t) => {
  const rows: readonly (readonly [target: string, origin: string, host: string])[] = [
    ['http://b.example/x?y', '/x?y', 'b.example'],
    ['https://b.example:8080?y=/', '/?y=/', 'b.example:8080'],
    ['http://[::1]:80', '/', '[::1]:80'],
    ['http://b.example//c@d', '//c@d', 'b.example'],
  ];
  for (const [target, origin, host] of rows) {
    for (const version of ['1.0', '1.1']) {
      const plain = readPlainHead(head(`GET ${target} HTTP/${version}`, 'X: 1', 'host: a', 'Y: 2'), null);
      t.equal(plain?.line, `GET ${origin} HTTP/${version}\r\n`, target);
      t.same([plain?.target, plain?.host], [origin, host], target);
      t.equal(plain?.forward, `Host: ${host}\r\nX: 1\r\nY: 2\r\n`, target);
    }
    const alone = readPlainHead(head(`GET ${target} HTTP/1.0`, 'X: 1'), null);
    t.equal(alone?.forward, `Host: ${host}\r\nX: 1\r\n`, `${target}, without Host`);
  }
});

t.test('requests for the library lane', async (t) => {
  const rows: readonly (readonly [name: string, text: string])[] = [
    ['CONNECT', head('CONNECT a:80 HTTP/1.1', 'Host: a')],
    ['PRI', head('PRI / HTTP/1.1', 'Host: a')],
    ['no token for a method', head('G@T / HTTP/1.1', 'Host: a')],
    ['a lower-case method', head('get / HTTP/1.1', 'Host: a')],
    ['asterisk-form of another method', head('GET * HTTP/1.1', 'Host: a')],
    ['more than an asterisk', head('OPTIONS *x HTTP/1.1', 'Host: a')],
    ['absolute-form of another scheme', head('GET ftp://a/ HTTP/1.1', 'Host: a')],
    ['absolute-form without a host', head('GET http:///b HTTP/1.1', 'Host: a')],
    ['absolute-form with a port alone', head('GET http://:80/b HTTP/1.1', 'Host: a')],
    ['absolute-form with user information', head('GET http://b@a/ HTTP/1.1', 'Host: a')],
    ['absolute-form with a fragment for a path', head('GET http://a#b HTTP/1.1', 'Host: a')],
    ['absolute-form with an odd host', head('GET http://a;b/ HTTP/1.1', 'Host: a')],
    ['absolute-form without Host', head('GET http://a/ HTTP/1.1', 'X: 1')],
    ['absolute-form with an odd Host', head('GET http://a/ HTTP/1.1', 'Host: a@b')],
    ['absolute-form of CONNECT', head('CONNECT http://a/ HTTP/1.1', 'Host: a')],
    ['HTTP/1.2', head('GET / HTTP/1.2', 'Host: a')],
    ['HTTP/0.9 by name', head('GET / HTTP/0.9', 'Host: a')],
    ['HTTP/1.0 with two Hosts', head('GET / HTTP/1.0', 'Host: a', 'Host: a')],
    ['HTTP/1.0 with an odd Host', head('GET / HTTP/1.0', 'Host: a@b')],
    ['HTTP/1.0 with chunks', head('POST / HTTP/1.0', 'Host: a', 'Transfer-Encoding: chunked')],
    ['HTTP/1.0 with Expect', head('POST / HTTP/1.0', 'Host: a', 'Content-Length: 1', 'Expect: 100-continue')],
    ['HTTP/1.0 with TE', head('GET / HTTP/1.0', 'Host: a', 'TE: chunked')],
    ['HTTP/1.0 with Proxy-Connection alone', head('GET / HTTP/1.0', 'Host: a', 'Proxy-Connection: keep-alive')],
    [
      'HTTP/1.0 with contradictions',
      head('GET / HTTP/1.0', 'Host: a', 'Connection: close', 'Proxy-Connection: keep-alive'),
    ],
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
    ['Upgrade alone', get('Upgrade: websocket')],
    ['contradictions in Connection', get('Connection: close, keep-alive')],
    ['framing in Connection', get('Connection: close, content-length')],
    ['Host in Connection', get('Connection: Host')],
    ['a switch in Connection', get('Connection: keep-alive, Upgrade')],
    ['no list in Connection', get('Connection: close,, X')],
    ['a tab in Connection', get('Connection: close\t, X')],
    ['a space in Connection', get('Connection: close X')],
    ['more names in Connection than are taken', get(`Connection: ${'x, '.repeat(400)}x`)],
    ['two Connections', get('Connection: close', 'Connection: close')],
    ['what tests take that are about the library lane', get(...offTheFastLane)],
    ['an empty Connection', get('Connection:')],
    ['Proxy-Connection', get('Proxy-Connection: close')],
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

t.test('switches of protocol for the library lane', async (t) => {
  const rows: readonly (readonly [name: string, text: string])[] = [
    ['another protocol', get('Connection: upgrade', 'Upgrade: h2c')],
    ['a list of protocols', get('Connection: upgrade', 'Upgrade: websocket, h2c')],
    ['two protocols', get('Connection: upgrade', 'Upgrade: websocket', 'Upgrade: websocket')],
    ['WebSocket and a length', get('Connection: upgrade', 'Upgrade: websocket', 'Content-Length: 0')],
    ['WebSocket and chunks', get('Connection: upgrade', 'Upgrade: websocket', 'Transfer-Encoding: chunked')],
    ['WebSocket and Expect', get('Connection: upgrade', 'Upgrade: websocket', 'Expect: 100-continue')],
    ['WebSocket, and the end', get('Connection: upgrade, close', 'Upgrade: websocket')],
    ['WebSocket of no GET', head('POST / HTTP/1.1', 'Host: a', 'Connection: upgrade', 'Upgrade: websocket')],
    ['WebSocket of HTTP/1.0', head('GET / HTTP/1.0', 'Host: a', 'Connection: upgrade', 'Upgrade: websocket')],
    ['the option alone', get('Connection: upgrade')],
  ];
  for (const [name, text] of rows) t.equal(readPlainHead(text, null), null, name);
});

t.test('repeated fields are read once, and only the very same', async (t) => {
  const first = readPlainHead(get('X: 1'), null);
  t.equal(readPlainHead(get('X: 1'), first?.fields ?? null)?.fields, first?.fields);
  t.not(readPlainHead(get('X: 2'), first?.fields ?? null)?.fields, first?.fields);
  const old = readPlainHead(head('GET / HTTP/1.0', 'Host: a', 'X: 1'), first?.fields ?? null);
  t.match(old?.fields, { version: 'HTTP/1.0', keepAlive: false }, 'the same lines mean something else in HTTP/1.0');
  const absolute = readPlainHead(head('GET http://b/ HTTP/1.1', 'Host: a', 'X: 1'), first?.fields ?? null);
  t.equal(absolute?.host, 'b');
  const again = readPlainHead(get('X: 1'), absolute?.fields ?? null);
  t.same([again?.host, again?.forward], ['a', 'Host: a\r\nX: 1\r\n'], 'an authority is of one request alone');
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

t.test('the head for the app is made anew where another permit lets it through', async (t) => {
  const client = { tls: { kind: 'none' } } as unknown as Client;
  const admitted = (set: readonly (readonly [string, string])[] | null): Admitted =>
    ({ permit: { headerChanges: set === null ? null : { add: [], set, remove: [] } } }) as unknown as Admitted;
  const [plain, changing] = [admitted(null), admitted([['x', '2']])];
  for (const length of [1, 10_000]) {
    const read = readPlainHead(get(`X: ${'1'.repeat(length)}`, 'Connection: close'), null);
    if (read === null) throw new Error('not plain');
    const request = new PlainRequest(read);
    const whole = `GET / HTTP/1.1\r\nHost: a\r\nX: ${'1'.repeat(length)}\r\n\r\n`;
    for (const [by, wanted] of [
      [plain, whole],
      [plain, whole],
      [changing, 'GET / HTTP/1.1\r\nHost: a\r\nx: 2\r\n\r\n'],
      [plain, whole],
    ] as const) {
      t.equal(request.outgoing(client, by), wanted, `${length} bytes`);
    }
  }
});

t.test('lines and pairs', async (t) => {
  const lines = 'A: 1\r\nb:2\r\nA:\t3 \r\n';
  t.same(fieldPairs(lines), ['A', '1', 'b', '2', 'A', '3']);
  t.equal(fieldLines(fieldPairs(lines)), 'A: 1\r\nb: 2\r\nA: 3\r\n');
  t.same(fieldValues(lines, 'a'), ['1', '3']);
  t.same(fieldValues('', 'a'), []);
});
