import t from 'tap';
import { type ContentFraming, inChunks, RequestContent } from '../../../../../lib/proxy/http1/fast/content.ts';
import { maxFramingBytes } from '../../../../../lib/proxy/http1/limits.ts';
import { latin1 } from '../../../../support/raw-http.ts';

interface Taken {
  /** What the app gets. */
  readonly forwarded: string;
  /** Where the message ends among what was sent; null where more must come. */
  readonly end: number | null;
  readonly size: number;
  readonly fault: string | null;
}

/** @param cuts offsets at which a new packet begins. */
function take(framing: ContentFraming, text: string, cuts: readonly number[], maxTrailers: number): Taken {
  const content = new RequestContent(framing, maxTrailers);
  const bytes = latin1(text);
  const points = [0, ...cuts, bytes.length];
  let forwarded = '';
  let size = 0;
  for (let i = 0; i + 1 < points.length; i++) {
    const [from, to] = [points[i] as number, points[i + 1] as number];
    // As behind a head, then as a packet of its own.
    const packet = i === 0 ? Buffer.concat([latin1('head'), bytes.subarray(0, to)]) : bytes.subarray(from, to);
    const before = i === 0 ? 4 : 0;
    const end = content.take(packet, before);
    if (content.fault !== null) return { forwarded, end: null, size, fault: content.fault };
    forwarded += content.handOn().toString('latin1');
    size += content.size;
    if (content.isComplete) return { forwarded, end: from + end - before, size, fault: null };
  }
  return { forwarded, end: null, size, fault: null };
}

/** Every way to cut a text in two, each byte by itself, and not at all. */
function cutsOf(text: string): (readonly number[])[] {
  const each = Array.from({ length: Math.max(0, text.length - 1) }, (_, i) => i + 1);
  return [[], each, ...each.map((at) => [at])];
}

const hello = '5\r\nhello\r\n';
const last = '0\r\n\r\n';

t.test('sound chunks go on in one form, however they come', async (t) => {
  const rows: readonly (readonly [name: string, sent: string, forwarded: string, size: number])[] = [
    ['none', last, last, 0],
    ['one', `${hello}${last}`, `${hello}${last}`, 5],
    ['several', `${hello}3\r\nabc\r\n${last}`, `${hello}3\r\nabc\r\n${last}`, 8],
    ['chunks that look like ends', `5\r\n0\r\n\r\n\r\n${last}`, `5\r\n0\r\n\r\n\r\n${last}`, 5],
    ['leading zeros', `0005\r\nhello\r\n000\r\n\r\n`, `${hello}${last}`, 5],
    ['many leading zeros', `${'0'.repeat(40)}5\r\nhello\r\n${last}`, `${hello}${last}`, 5],
    ['extensions', `5;a;b=c;d="e \\" ;\\\\"\r\nhello\r\n0;z\r\n\r\n`, `${hello}${last}`, 5],
    ['extensions without names or values', `5;;a=;=b;c=d"e"\r\nhello\r\n${last}`, `${hello}${last}`, 5],
    ['a quoted size line', `5;a="9;0"\r\nhello\r\n${last}`, `${hello}${last}`, 5],
    ['trailers', `${hello}0\r\nX-A: 1\r\nl5d-client-id: me\r\n\r\n`, `${hello}${last}`, 5],
    ['trailers alone', '0;x\r\nX-A: 1\r\n\r\n', last, 0],
  ];
  for (const [name, sent, forwarded, size] of rows) {
    for (const cuts of cutsOf(sent)) {
      for (const behind of ['', 'GET / HTTP/1.1\r\n']) {
        const taken = take(inChunks, sent + behind, cuts, 1024);
        t.same(
          taken,
          { forwarded, end: sent.length, size, fault: null },
          `${name}, cut ${cuts}, then ${behind.length}`,
        );
      }
    }
  }
});

t.test('digits keep their case where the line comes whole', async (t) => {
  t.equal(take(inChunks, `A\r\n0123456789\r\n${last}`, [], 1024).forwarded, `A\r\n0123456789\r\n${last}`);
  t.equal(take(inChunks, `A\r\n0123456789\r\n${last}`, [1], 1024).forwarded, `a\r\n0123456789\r\n${last}`);
});

t.test('what is not sound goes no further', async (t) => {
  const rows: readonly (readonly [name: string, sent: string])[] = [
    ['no size', '\r\nhello\r\n'],
    ['a sign', '+5\r\nhello\r\n'],
    ['a prefix', '0x5\r\nhello\r\n'],
    ['space before the size', ' 5\r\nhello\r\n'],
    ['space behind the size', '5 \r\nhello\r\n'],
    ['space behind a semicolon', '5; a\r\nhello\r\n'],
    ['an extension that is nothing', '5;\r\nhello\r\n'],
    ['bytes behind quotes', '5;a="b"c\r\nhello\r\n'],
    ['fourteen digits', 'ffffffffffffff\r\n'],
    ['bare LF behind a size', '5\nhello\r\n'],
    ['bare CR behind a size', '5\rhello\r\n'],
    ['bare LF in an extension', '5;a\nhello\r\n'],
    ['bare LF in quotes', '5;a="\n"\r\nhello\r\n'],
    ['data longer than its size', '5\r\nhello!\r\n'],
    ['bare LF behind data', '5\r\nhello\n'],
    ['a folded trailer', '0\r\nX: a\r\n b\r\n\r\n'],
    ['bare LF behind a trailer', '0\r\nX: a\n\r\n'],
    ['a length in a trailer', '0\r\nContent-Length: 5\r\n\r\n'],
    ['a coding in a trailer', '0\r\nTransfer-Encoding: chunked\r\n\r\n'],
    ['the connection in a trailer', '0\r\nConnection: close\r\n\r\n'],
  ];
  for (const [name, sent] of rows) {
    for (const cuts of cutsOf(sent)) t.equal(take(inChunks, sent, cuts, 1024).fault, 'malformed', `${name}, ${cuts}`);
  }
});

t.test('what is too long goes no further', async (t) => {
  const few = maxFramingBytes / 2;
  const rows: readonly (readonly [name: string, sent: string, fault: 'too-long' | null])[] = [
    ['an extension', `5;${'a'.repeat(17_000)}`, 'too-long'],
    ['zeros', '0'.repeat(17_000), 'too-long'],
    ['a trailer', `0\r\nX: ${'a'.repeat(2000)}`, 'too-long'],
    ['trailers', `0\r\n${'X: a\r\n'.repeat(1000)}`, 'too-long'],
    ['extensions of many chunks', `1;${'a'.repeat(1000)}\r\nx\r\n`.repeat(200), 'too-long'],
    ['as much, of larger chunks', `64;${'a'.repeat(1000)}\r\n${'x'.repeat(100)}\r\n`.repeat(200), null],
    ['chunks of a byte', '1\r\nx\r\n'.repeat(few), null],
  ];
  for (const [name, sent, fault] of rows) {
    const cuts = Array.from({ length: Math.floor((sent.length - 1) / 4000) }, (_, i) => (i + 1) * 4000);
    t.equal(take(inChunks, sent, cuts, 1024).fault, fault, name);
  }
});

t.test('chunks of one byte are more work than their bytes, and are made anew as well as large ones', async (t) => {
  const read = 64 * 1024;
  const rows: readonly (readonly [name: string, chunk: string, goesOn: string, most: number, least: number])[] = [
    [
      'one large chunk',
      `fff0\r\n${'x'.repeat(0xfff0)}\r\n`,
      `fff0\r\n${'x'.repeat(0xfff0)}\r\n`,
      1.1 * read,
      read - 20,
    ],
    ['the smallest', '1\r\nx\r\n', '1\r\nx\r\n', 64 * read, 32 * read],
    ['the smallest, with a zero', '01\r\nx\r\n', '1\r\nx\r\n', 64 * read, 32 * read],
    ['the smallest, with an extension', '1;a\r\nx\r\n', '1\r\nx\r\n', 64 * read, 32 * read],
    [
      'longer than what is copied at once',
      `064\r\n${'x'.repeat(100)}\r\n`,
      `64\r\n${'x'.repeat(100)}\r\n`,
      8 * read,
      read,
    ],
  ];
  for (const [name, chunk, goesOn, most, least] of rows) {
    const times = Math.floor(read / chunk.length);
    const content = new RequestContent(inChunks, 100);
    content.take(latin1(chunk.repeat(times)), 0);
    t.equal(content.handOn().toString('latin1'), goesOn.repeat(times), name);
    t.ok(content.work <= most && content.work >= least, `${name}: ${content.work}`);
  }
});

t.test('a length', async (t) => {
  for (const cuts of cutsOf('hello')) {
    const taken = take({ kind: 'length', bytes: 5 }, 'helloGET', cuts, 0);
    t.same(taken, { forwarded: 'hello', end: 5, size: 5, fault: null }, `cut ${cuts}`);
  }
  t.match(take({ kind: 'length', bytes: 9 }, 'hello', [2], 0), { forwarded: 'hello', end: null, size: 5 });
});
