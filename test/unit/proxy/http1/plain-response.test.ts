import t from 'tap';
import { readResponseHead } from '../../../../lib/proxy/http1/plain-response.ts';

const head = (line: string, ...fields: readonly string[]): string => `${[line, ...fields].join('\r\n')}\r\n\r\n`;
const ok = (...fields: readonly string[]): string => head('HTTP/1.1 200 OK', ...fields);
const chunked = { framing: { kind: 'chunked' }, keepAlive: true };
const none = { framing: { kind: 'none' } };

t.test('responses that are understood', async (t) => {
  const rows: readonly (readonly [name: string, method: string, text: string, wanted: object])[] = [
    [
      'a length',
      'GET',
      ok('Content-Length: 5'),
      {
        status: 200,
        framing: { kind: 'length', bytes: 5 },
        keepAlive: true,
        keepAliveSeconds: null,
        forward: 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n',
      },
    ],
    [
      'chunks',
      'GET',
      ok('Transfer-Encoding: Chunked'),
      { ...chunked, forward: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n' },
    ],
    ['neither', 'GET', ok(), { framing: { kind: 'until-close' }, keepAlive: false }],
    [
      'no reason',
      'GET',
      head('HTTP/1.1 200', 'Content-Length: 0'),
      { status: 200, forward: 'HTTP/1.1 200 \r\nContent-Length: 0\r\n' },
    ],
    [
      'HTTP/1.0',
      'GET',
      head('HTTP/1.0 200 OK', 'Content-Length: 5'),
      { keepAlive: false, forward: 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n' },
    ],
    [
      'HTTP/1.0, kept',
      'GET',
      head('HTTP/1.0 200 OK', 'Connection: keep-alive', 'Content-Length: 5'),
      { keepAlive: true },
    ],
    ['closing', 'GET', ok('Connection: Close', 'Content-Length: 5'), { keepAlive: false }],
    [
      'closing, by the name for proxies',
      'GET',
      ok('Proxy-Connection: close', 'Content-Length: 5'),
      { keepAlive: false },
    ],
    [
      'closing is not taken back',
      'GET',
      ok('Connection: close', 'Connection: keep-alive', 'Content-Length: 5'),
      { keepAlive: false },
    ],
    ['an idle time', 'GET', ok('Keep-Alive: max=5, timeout=7', 'Content-Length: 5'), { keepAliveSeconds: 7 }],
    [
      'HEAD',
      'HEAD',
      ok('Content-Length: 5'),
      { ...none, keepAlive: true, forward: 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n' },
    ],
    ['HEAD, chunked', 'HEAD', ok('Transfer-Encoding: chunked'), { ...none, keepAlive: true }],
    ['204', 'GET', head('HTTP/1.1 204 No Content'), { ...none, keepAlive: true }],
    [
      '204 with a length',
      'GET',
      head('HTTP/1.1 204 No Content', 'Content-Length: 5', 'X: 1'),
      { ...none, keepAlive: false, forward: 'HTTP/1.1 204 No Content\r\nX: 1\r\n' },
    ],
    [
      '204, chunked',
      'GET',
      head('HTTP/1.1 204 No Content', 'Transfer-Encoding: chunked'),
      { ...none, keepAlive: false, forward: 'HTTP/1.1 204 No Content\r\n' },
    ],
    [
      '304 with the length of what is not sent',
      'GET',
      head('HTTP/1.1 304 Not Modified', 'Content-Length: 5'),
      { ...none, forward: 'HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n' },
    ],
    [
      'an interim response',
      'GET',
      head('HTTP/1.1 103 Early Hints', 'Link: </a>', 'Content-Length: 0'),
      { status: 103, ...none, keepAlive: true, forward: 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n' },
    ],
    [
      'fields of the connection',
      'GET',
      ok(
        'Connection: x, Y',
        'X: 1',
        'y: 2',
        'Z: 3',
        'Keep-Alive: a',
        'Upgrade: b',
        'HTTP2-Settings: c',
        'Content-Length: 0',
      ),
      { forward: 'HTTP/1.1 200 OK\r\nZ: 3\r\nContent-Length: 0\r\n' },
    ],
    [
      'a length that Connection names',
      'GET',
      ok('Connection: content-length', 'Content-Length: 5'),
      { framing: { kind: 'length', bytes: 5 }, forward: 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n' },
    ],
  ];
  for (const [name, method, text, wanted] of rows) t.match(readResponseHead(text, method), wanted, name);
});

t.test('responses that are not', async (t) => {
  const rows: readonly (readonly [name: string, text: string])[] = [
    ['no HTTP', head('+OK ready')],
    ['HTTP/2', head('HTTP/2 200 OK')],
    ['another version', head('HTTP/1.2 200 OK')],
    ['space before the version', head(' HTTP/1.1 200 OK')],
    ['two spaces', head('HTTP/1.1  200 OK')],
    ['two digits', head('HTTP/1.1 20 OK')],
    ['four digits', head('HTTP/1.1 2000 OK')],
    ['below 100', head('HTTP/1.1 099 OK')],
    ['bare CR in the reason', head('HTTP/1.1 200 O\rK')],
    ['bare LF', 'HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n'],
    ['both lengths', ok('Content-Length: 5', 'Transfer-Encoding: chunked')],
    ['both lengths, the other way round', ok('Transfer-Encoding: chunked', 'Content-Length: 5')],
    ['two lengths', ok('Content-Length: 5', 'Content-Length: 5')],
    ['a list of lengths', ok('Content-Length: 5, 5')],
    ['a signed length', ok('Content-Length: +5')],
    ['no length', ok('Content-Length: ')],
    ['another coding', ok('Transfer-Encoding: gzip, chunked')],
    ['chunked twice', ok('Transfer-Encoding: chunked', 'Transfer-Encoding: chunked')],
    ['a tab behind chunked', ok('Transfer-Encoding: chunked\t')],
    ['chunks in HTTP/1.0', head('HTTP/1.0 200 OK', 'Transfer-Encoding: chunked')],
    ['a folded line', ok('X: 1', ' 2')],
    ['space before a colon', ok('Content-Length : 5')],
    ['no name', ok(': 5')],
    ['no colon', ok('X')],
    ['NUL', ok('X: \0')],
  ];
  for (const [name, text] of rows) {
    t.match(readResponseHead(text, 'GET'), { kind: 'fault', fault: /^[\x20-\x7e…]{1,120}$/ }, name);
  }
});
