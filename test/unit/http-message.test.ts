import t from 'tap';
import { agreesTo, asksToSwitch, isFramingAlias, isSoundMethod, trimBlanks } from '../../lib/http-message.ts';
import { isHost, readAuthority, readTarget } from '../../lib/request-target.ts';
import fc from '../support/properties.ts';

t.test('methods', async (t) => {
  for (const method of [
    'GET',
    'M-SEARCH',
    'PROPFIND',
    'FOO',
    'GETX',
    'foo',
    'Foo',
    'X-Y',
    'G',
    '1',
    "!#$%&'*+.^_`|~",
  ]) {
    t.ok(isSoundMethod(method), method);
  }
  for (const method of ['get', 'Get', 'gET', 'delete', 'propFind', 'm-search', 'connect', 'source', '', 'G T', 'GÉT']) {
    t.notOk(isSoundMethod(method), method);
  }
  const known = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'CONNECT', 'OPTIONS', 'TRACE', 'PATCH', 'PROPFIND', 'QUERY'];
  const cases = fc.array(fc.boolean(), { minLength: 8, maxLength: 8 });
  fc.assert(
    fc.property(fc.constantFrom(...known), cases, (method, lowered) => {
      const spelt = [...method].map((c, i) => (lowered[i] === true ? c.toLowerCase() : c)).join('');
      return isSoundMethod(spelt) === (spelt === method);
    }),
  );
});

t.test('second names for framing', async (t) => {
  for (const name of ['content_length', 'content.length', 'transfer_encoding', "transfer'encoding"]) {
    t.ok(isFramingAlias(name), name);
  }
  for (const name of ['content-length', 'transfer-encoding', 'content_lengthx', 'contentlength', 'content_type', '']) {
    t.notOk(isFramingAlias(name), name);
  }
});

t.test('hosts', async (t) => {
  for (const host of ['', 'a', 'a:80', 'a.', 'a_b', '[::1]:8080', '10.0.0.1', 'a:', '*.a']) t.ok(isHost(host), host);
  for (const host of ['u@a', 'a b', 'a,b', 'a:x', 'a/b', 'a:80:80', '[::1', 'a\\b', 'a?b', 'a#b']) {
    t.notOk(isHost(host), host);
  }
});

t.test('targets', async (t) => {
  const rows: readonly (readonly [method: string, url: string, read: object | null])[] = [
    ['GET', '/a?b', { target: '/a?b', path: '/a', query: 'b', authority: null }],
    ['GET', 'http://x:1/a?b?c', { target: '/a?b?c', path: '/a', query: 'b?c', authority: 'x:1' }],
    ['GET', 'HTTPS://x', { target: '/', path: '/', authority: 'x' }],
    ['GET', 'http://x?b', { target: '/?b', path: '/', query: 'b', authority: 'x' }],
    ['OPTIONS', '*', { target: '*', path: '*', query: '' }],
    ['GET', '*', null],
    ['GET', 'a', null],
    ['GET', '?a', null],
    ['GET', 'ftp://x/', null],
    ['GET', 'http://u@x/', null],
    ['GET', '', null],
  ];
  for (const [method, url, read] of rows) {
    const target = readTarget(method, url);
    if (read === null) t.equal(target, null, url);
    else t.match(target, read, url);
  }
  t.match(readAuthority('a:80'), { path: '', authority: 'a:80' });
  for (const target of ['a', '/a', 'http://a:80', 'u@a:80', 'a:80/', '']) t.equal(readAuthority(target), null, target);
});

t.test('who asks to leave HTTP', async (t) => {
  for (const protocol of ['websocket', 'chat/1, other', 'httpx', 'tlsish', 'hello', 'a,, b ,', '+x/!.1']) {
    t.ok(asksToSwitch(protocol), protocol);
  }
  for (const protocol of [
    'h2c',
    'H2C',
    'websocket, h2c',
    'h2c-14',
    'h2',
    '"h2c"',
    'HTTP/2.0',
    'HTTP/1.1',
    'http',
    'TLS/1.0',
    'TLS/1.0, HTTP/1.1',
    'chat, tls/1.2',
    ...[
      '',
      ',',
      'h 2c',
      'h\t2c',
      'chat h2c',
      'chat;h2c',
      '(h2c)',
      'chat/',
      '/1',
      'chat/1/h2c',
      'h\xa02c',
      'chat, h 2c',
    ],
  ]) {
    t.notOk(asksToSwitch(protocol), protocol);
  }
});

t.test('who agrees to what was asked', async (t) => {
  const rows: readonly (readonly [asked: string, agreed: string, agrees: boolean])[] = [
    ['chat/1', 'chat/1', true],
    ['chat/1', 'Chat/1', true],
    ['SPDY/3.1', 'spdy/3.1', true],
    ['chat/2, chat/1', 'chat/1', true],
    ['chat/2, chat/1', 'chat/1,chat/2', true],
    ['chat/1', '', false],
    ['chat/1', 'chat/2', false],
    ['chat/1', 'chat', false],
    ['chat/1', 'h2c', false],
    ['chat/1', 'chat/1, h2c', false],
    ['chat/1', 'TLS/1.2, HTTP/1.1', false],
  ];
  for (const [asked, agreed, agrees] of rows) t.equal(agreesTo(asked, agreed), agrees, `${asked}: ${agreed}`);
});

t.test('blanks around a value', async (t) => {
  const rows: readonly (readonly [text: string, trimmed: string])[] = [
    ['', ''],
    ['a', 'a'],
    [' a', 'a'],
    ['a\t ', 'a'],
    ['\t a \t b\t', 'a \t b'],
    [' \t ', ''],
    ['\xa0a\x0b', '\xa0a\x0b'],
  ];
  for (const [text, trimmed] of rows) t.equal(trimBlanks(text), trimmed, JSON.stringify(text));
  const inside = `a${' '.repeat(1 << 20)}b`;
  const started = process.cpuUsage();
  t.equal(trimBlanks(inside), inside);
  t.ok(process.cpuUsage(started).user < 1_000_000, 'a megabyte of blanks inside costs next to nothing');
});
