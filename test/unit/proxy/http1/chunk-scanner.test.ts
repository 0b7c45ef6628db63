import t from 'tap';
import { ChunkScanner } from '../../../../lib/proxy/http1/chunk-scanner.ts';
import { latin1 } from '../../../support/raw-http.ts';

/** 'more', 'invalid', or where the message ends. */
function scan(text: string, step: number): number | 'more' | 'invalid' {
  const bytes = latin1(text);
  const scanner = new ChunkScanner();
  for (let at = 0; at < bytes.length; at += step) {
    const result = scanner.scan(bytes, at, Math.min(at + step, bytes.length));
    if (result === 'done') return scanner.end;
    if (result === 'invalid') return 'invalid';
  }
  return 'more';
}

const whole = (text: string): [string, number] => [text, text.length];
const rows: readonly (readonly [name: string, text: string, result: number | 'more' | 'invalid'])[] = [
  ['no body', ...whole('0\r\n\r\n')],
  ['one chunk', ...whole('5\r\nhello\r\n0\r\n\r\n')],
  ['chunks that look like ends', ...whole('5\r\n0\r\n\r\n\r\n0\r\n\r\n')],
  ['upper and lower case', ...whole('A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n')],
  ['leading zeros', ...whole('0005\r\nhello\r\n000\r\n\r\n')],
  ['extensions', ...whole('1;a;b=c;d="e \\" ;\\\\"\r\nx\r\n0;z\r\n\r\n')],
  ['trailers', ...whole('0\r\nX-A: 1\r\nX-B:\r\n\r\n')],
  ['surplus', '0\r\n\r\nHTTP/1.1 200 OK\r\n', 5],
  ['half a size', '5', 'more'],
  ['half a chunk', '5\r\nhel', 'more'],
  ['no last chunk', '5\r\nhello\r\n', 'more'],
  ['half of the last chunk', '0\r\n\r', 'more'],
  ['half a trailer', '0\r\nX-A: 1', 'more'],
  ['no size', '\r\nhello\r\n', 'invalid'],
  ['a size below zero', '-1\r\n', 'invalid'],
  ['a prefix', '0x5\r\nhello\r\n', 'invalid'],
  ['an underscore', '0_5\r\n', 'invalid'],
  ['space before the size', ' 5\r\nhello\r\n', 'invalid'],
  ['space behind the size', '5 \r\nhello\r\n', 'invalid'],
  ['a size of 14 digits', '00000000000005\r\n', 'invalid'],
  ['bare LF behind the size', '5\nhello\r\n', 'invalid'],
  ['bare CR behind the size', '5\rhello\r\n', 'invalid'],
  ['data shorter than its size', '5\r\nhel\r\n0\r\n\r\n', 'invalid'],
  ['data longer than its size', '5\r\nhello!\r\n0\r\n\r\n', 'invalid'],
  ['bare LF behind data', '5\r\nhello\n0\r\n\r\n', 'invalid'],
  ['an extension without a name', '5;\r\nhello\r\n', 'invalid'],
  ['an extension with only a value', '5;=a\r\nhello\r\n', 'invalid'],
  ['an extension without its value', '5;a=\r\nhello\r\n', 'invalid'],
  ['space in an extension', '5; a\r\nhello\r\n', 'invalid'],
  ['bare LF in an extension', '5;a\nhello\r\n', 'invalid'],
  ['bare CR in an extension', '5;a\rb\r\nhello\r\n', 'invalid'],
  ['bare LF in quotes', '5;a="\n"\r\nhello\r\n', 'invalid'],
  ['bytes behind quotes', '5;a="b"c\r\nhello\r\n', 'invalid'],
  ['an endless extension', `5;${'a'.repeat(5000)}`, 'invalid'],
  ['endless quotes', `5;a="${'a'.repeat(5000)}`, 'invalid'],
  ['a folded trailer', '0\r\nX: a\r\n b\r\n\r\n', 'invalid'],
  ['a trailer without a name', '0\r\n: a\r\n\r\n', 'invalid'],
  ['a trailer without a colon', '0\r\nX\r\n\r\n', 'invalid'],
  ['bare LF behind a trailer', '0\r\nX: a\n\r\n', 'invalid'],
  ['bare CR in a trailer', '0\r\nX: a\rb\r\n\r\n', 'invalid'],
  ['NUL in a trailer', '0\r\nX: \0\r\n\r\n', 'invalid'],
  ['framing in a trailer', '0\r\nContent-Length: 5\r\n\r\n', 'invalid'],
  ['a connection field in a trailer', '0\r\nHTTP2-Settings: AAA\r\n\r\n', 'invalid'],
  ['the connection in a trailer', '0\r\nCONNECTION: close\r\n\r\n', 'invalid'],
  ['an endless trailer', `0\r\nX: ${'a'.repeat(17_000)}`, 'invalid'],
  ['endless trailers', `0\r\n${'X: a\r\n'.repeat(9000)}`, 'invalid'],
];

t.test('chunks', async (t) => {
  for (const [name, text, result] of rows) {
    t.equal(scan(text, text.length), result, name);
    t.equal(scan(text, 1), result, `${name}, byte by byte`);
    t.equal(scan(text, 3), result, `${name}, in threes`);
  }
});

t.test('sizes that no number holds exactly are refused before they are added up', async (t) => {
  t.equal(scan('fffffffffffff\r\n', 100), 'more', 'thirteen digits');
  t.equal(scan('ffffffffffffff\r\n', 100), 'invalid', 'fourteen');
});
