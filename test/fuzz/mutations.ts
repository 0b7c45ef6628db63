import fc, { type Arbitrary } from 'fast-check';

/** Bytes, one character each, that parsers have disagreed on. */
const fragments: readonly string[] = [
  '\r',
  '\n',
  '\r\n',
  '\r\n\r\n',
  '\n\n',
  '\0',
  ' ',
  '\t',
  '\v',
  '\x7f',
  '\x80',
  '\xa0',
  '\xff',
  ':',
  ',',
  ';',
  '"',
  '\\',
  '=',
  '#',
  '?',
  '*',
  '+',
  '-',
  '0x',
  '0',
  '5',
  'f',
  '_',
  '%00',
  '%2f',
  '//',
  '@',
  '[::1]',
  'chunked',
  'close',
  'keep-alive',
  'HTTP/1.0',
  'HTTP/1.1',
  'HTTP/2.0',
  'http://b.example',
  'http://',
  '0\r\n\r\n',
  '5\r\nhello\r\n',
  ';a=b',
  ';a="b"',
  '\r\n folded',
  'GET /SMUGGLED HTTP/1.1\r\nHost: x\r\n\r\n',
];

/** Whole field lines. */
const lines: readonly string[] = [
  'Content-Length: 0\r\n',
  'Content-Length: 5\r\n',
  'Content-Length: 005\r\n',
  'Content-Length: 5 \r\n',
  'Content-Length: 5\t\r\n',
  'Content-Length:\t5\r\n',
  'Content-Length: +5\r\n',
  'Content-Length: 5, 5\r\n',
  'Content-Length:\r\n',
  'Content-Length : 5\r\n',
  'Transfer-Encoding: chunked\r\n',
  'transfer-encoding: Chunked\r\n',
  'Transfer-Encoding: chunked \r\n',
  'Transfer-Encoding: gzip, chunked\r\n',
  'Transfer-Encoding: identity\r\n',
  'Transfer_Encoding: chunked\r\n',
  'Connection: close\r\n',
  'Connection: close\t\r\n',
  'Connection: close \r\n',
  'Connection:\tclose\r\n',
  'connection: Keep-Alive\r\n',
  'Connection: close, x\r\n',
  'Connection: keep-alive, TE\r\n',
  'Connection: X-A,  close\r\n',
  'Connection: close, keep-alive\r\n',
  'Connection: close\t, x\r\n',
  'Connection: content-length\r\n',
  'Connection: upgrade\r\n',
  'Connection:\r\n',
  'Upgrade: websocket\r\n',
  'Host: b.example\r\n',
  'Host: b@a\r\n',
  'Host:\r\n',
  'Expect: 100-continue\r\n',
  'TE: trailers\r\n',
  'TE: Trailers \r\n',
  'TE: gzip;q=0.3, deflate\r\n',
  'TE: chunked\r\n',
  'Trailer: x\r\n',
  'Keep-Alive: timeout=1\r\n',
  'Proxy-Connection: close\r\n',
  'Proxy-Connection: Keep-Alive\r\n',
  'HTTP2-Settings: AAA\r\n',
  'l5d-client-id: admin\r\n',
  'L5D_CLIENT.ID: admin\r\n',
  'X-Empty:\r\n',
  'X-Tab:\ta\tb\t\r\n',
  'X-Obs: \xe9\xff\r\n',
  "!#$%&'*+-.^_`|~09azAZ: x\r\n",
  ': x\r\n',
  'X y: z\r\n',
  'X\r\n',
];

/** One way to damage a text; `at` and `length` are taken modulo what the text has. */
export type Mutation =
  | { readonly kind: 'insert'; readonly at: number; readonly text: string }
  | { readonly kind: 'delete'; readonly at: number; readonly length: number }
  | { readonly kind: 'duplicate'; readonly at: number; readonly length: number }
  | { readonly kind: 'swap'; readonly at: number; readonly with: number }
  | { readonly kind: 'replace'; readonly at: number; readonly text: string }
  /** A field line before the line that begins at or after `at`. */
  | { readonly kind: 'line'; readonly at: number; readonly text: string };

const place = fc.nat(2000);
const fragment = fc.oneof(
  fc.constantFrom(...fragments),
  fc.nat(255).map((code) => String.fromCharCode(code)),
);

export const mutation: Arbitrary<Mutation> = fc.oneof(
  fc.record({ kind: fc.constant('insert' as const), at: place, text: fragment }),
  fc.record({ kind: fc.constant('delete' as const), at: place, length: fc.integer({ min: 1, max: 12 }) }),
  fc.record({ kind: fc.constant('duplicate' as const), at: place, length: fc.integer({ min: 1, max: 40 }) }),
  fc.record({ kind: fc.constant('swap' as const), at: place, with: place }),
  fc.record({ kind: fc.constant('replace' as const), at: place, text: fragment }),
  fc.record({ kind: fc.constant('line' as const), at: place, text: fc.constantFrom(...lines) }),
);

export function mutate(text: string, mutations: readonly Mutation[]): string {
  let result = text;
  for (const change of mutations) {
    const at = change.at % (result.length + 1);
    const [before, after] = [result.slice(0, at), result.slice(at)];
    switch (change.kind) {
      case 'insert':
        result = before + change.text + after;
        break;
      case 'delete':
        result = before + after.slice(change.length);
        break;
      case 'duplicate':
        result = before + after.slice(0, change.length) + after;
        break;
      case 'replace':
        result = before + change.text + after.slice(1);
        break;
      case 'swap': {
        const other = change.with % Math.max(result.length, 1);
        const bytes = [...result];
        [bytes[at], bytes[other]] = [bytes[other] ?? '', bytes[at] ?? ''];
        result = bytes.join('');
        break;
      }
      case 'line': {
        const start = result.indexOf('\r\n', at);
        result =
          start === -1 ? result + change.text : result.slice(0, start + 2) + change.text + result.slice(start + 2);
        break;
      }
    }
  }
  return result;
}

const fieldLine = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom('Accept: */*\r\n', 'User-Agent: curl/8\r\n', 'X-A: 1\r\n', 'x-a:2 \r\n') },
  { weight: 1, arbitrary: fc.constantFrom(...lines) },
);

/** Fields that say something of the connection without a doubt. */
const ofTheConnection = fc.constantFrom(
  'Connection: keep-alive\r\n',
  'Connection: Keep-Alive, TE\r\nTE: trailers\r\n',
  'TE: deflate,gzip;q=0.3\r\nConnection: TE, keep-alive\r\n',
  'Connection: x-a, keep-alive\r\n',
  'Connection: keep-alive\r\nProxy-Connection: keep-alive\r\nKeep-Alive: timeout=5\r\n',
);

/** The rest of a request line, which tells where the request is to go. */
const version = fc.constantFrom('1.1', '1.1', '1.0');
const origin = fc.constantFrom('', '', 'http://b.example:80', 'https://[::1]');

/** Requests that are valid, most of them plain. */
export const soundRequest: Arbitrary<string> = fc
  .record({
    method: fc.constantFrom('GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH'),
    origin,
    target: fc.constantFrom('/', '/a', '/a?b=c', '/a%2fb', '/DENIED', '/~x/;y,z', '/a"<>^`{|}\\'),
    version,
    before: fc.array(fc.constantFrom('Accept: */*\r\n', 'X-A: 1\r\n', 'x-b:2 \r\n'), { maxLength: 2 }),
    host: fc.constantFrom('Host: a.example\r\n', 'Host: a.example\r\n', ''),
    after: fc.array(
      fc.oneof(
        { weight: 2, arbitrary: fc.constantFrom('User-Agent: curl/8\r\n', 'X-C:\r\n') },
        { weight: 1, arbitrary: ofTheConnection },
      ),
      { maxLength: 1 },
    ),
    body: fc.constantFrom(null, null, '', 'hello', 'GET /SMUGGLED HTTP/1.1\r\nHost: x\r\n\r\n', '0\r\n\r\n'),
    chunked: fc.boolean(),
    expects: fc.constantFrom('', '', '', 'Expect: 100-continue\r\n'),
    size: fc.constantFrom('', '', '0', '000'),
    extension: fc.constantFrom('', '', '', ';a', ';a=b;c="d;\\""', ';;a='),
    trailer: fc.constantFrom('', '', '', 'X-T: 1\r\n', 'l5d-client-id: admin\r\nX:\r\n'),
  })
  .map(({ method, origin, target, version, before, host, after, body, chunked, expects, size, extension, trailer }) => {
    const isOld = version === '1.0';
    const fields = `${before.join('')}${isOld ? host : 'Host: a.example\r\n'}${after.join('')}${isOld ? '' : expects}`;
    const head = `${method} ${origin}${target} HTTP/${version}\r\n${fields}`;
    if (body === null) return `${head}\r\n`;
    if (!chunked || isOld) return `${head}Content-Length: ${body.length}\r\n\r\n${body}`;
    const chunk = body === '' ? '' : `${size}${body.length.toString(16)}${extension}\r\n${body}\r\n`;
    return `${head}Transfer-Encoding: chunked\r\n\r\n${chunk}${size}0${extension}\r\n${trailer}\r\n`;
  });

/** A plain head with some lines that may make it something else. */
export const requestHead: Arbitrary<string> = fc
  .record({
    method: fc.constantFrom('GET', 'POST', 'HEAD'),
    origin,
    target: fc.constantFrom('/', '/a?b', '/x'),
    version,
    host: fc.constantFrom('Host: a.example\r\n', 'Host: a.example\r\n', 'Host: a.example\r\n', ''),
    fields: fc.array(fc.oneof({ weight: 3, arbitrary: fieldLine }, { weight: 1, arbitrary: ofTheConnection }), {
      maxLength: 4,
    }),
    mutations: fc.array(mutation, { maxLength: 2 }),
  })
  .map(({ method, origin, target, version, host, fields, mutations }) => {
    // The end of the head is not for mutations to lose: half of all texts would have none.
    const line = `${method} ${origin}${target} HTTP/${version}\r\n`;
    const head = mutate(`${line}${host}${fields.join('')}`, mutations);
    return `${head}\r\n`;
  });

const responseLine = fc.constantFrom(
  'HTTP/1.1 200 OK\r\n',
  'HTTP/1.1 200 OK\r\n',
  'HTTP/1.1 200\r\n',
  'HTTP/1.1 200 \r\n',
  'HTTP/1.0 200 OK\r\n',
  'HTTP/1.1 404 Not Found\r\n',
  'HTTP/1.1 204 No Content\r\n',
  'HTTP/1.1 304 Not Modified\r\n',
  'HTTP/1.1 599 \xe9\r\n',
);
const interim = fc.constantFrom(
  '',
  '',
  '',
  'HTTP/1.1 100 Continue\r\n\r\n',
  'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n',
  'HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n',
  'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n',
);
const responseBody = fc.constantFrom(
  'Content-Length: 0\r\n\r\n',
  'Content-Length: 5\r\n\r\nhello',
  'Content-Length: 5\r\n\r\nhelloSURPLUS',
  'Content-Length: 9\r\n\r\nhello',
  'Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
  'Transfer-Encoding: chunked\r\n\r\n5;a="b;c";d\r\nhello\r\nA\r\n0123456789\r\n000\r\nX-Sum: 1\r\nY:\r\n\r\n',
  'Transfer-Encoding: chunked\r\n\r\n5\r\nhel',
  'Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  '\r\nhello',
  '\r\n',
);

/** What an app may send after one request, sound or not. */
export const response: Arbitrary<string> = fc
  .record({
    interim,
    line: responseLine,
    fields: fc.array(fieldLine, { maxLength: 2 }),
    body: responseBody,
    mutations: fc.array(mutation, { maxLength: 2 }),
  })
  .map((parts) => mutate(`${parts.interim}${parts.line}${parts.fields.join('')}${parts.body}`, parts.mutations));

/** Where to cut a stream into packets; empty: not at all; null: after each byte. */
export const cuts: Arbitrary<readonly number[] | null> = fc.oneof(
  fc.constant([]),
  fc.array(place, { minLength: 1, maxLength: 4 }),
  fc.constant(null),
);

export function cut(text: string, at: readonly number[] | null): Buffer[] {
  const bytes = Buffer.from(text, 'latin1');
  if (at === null) return Array.from(bytes, (_, i) => bytes.subarray(i, i + 1));
  const points = [...new Set(at.map((point) => point % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...points]
    .map((from, i) => bytes.subarray(from, points[i] ?? bytes.length))
    .filter((part) => part.length > 0);
}
