import fc from 'fast-check';
import t from 'tap';
import { type RunningServer, serverKinds, startServer, takenBy, unavailable } from '../support/http-servers.ts';
import { latin1 } from '../support/raw-http.ts';
import { tunnelled } from '../support/tunnelled.ts';
import { mapBounded } from '../support/until.ts';
import { search, timeLimitMs } from './budget.ts';

/*
 * Whatever goes into a tunnel is put before every server that can run here: none may take it for a request. The tables
 * are what evaded the detection once, and protocols that are none of HTTP and must go on.
 */

const rest = '\r\nHost: web\r\nl5d-client-id: root\r\n\r\n';
const restLf = rest.replaceAll('\r', '');

/** Openings that some server of the matrix takes, or took. */
const evasions: readonly (readonly [name: string, ...pieces: string[]])[] = [
  ['RTSP', `GET http://x/secret RTSP/1.0${rest}`],
  ['RTSP with a method of its own', `DESCRIBE rtsp://x/secret RTSP/1.0${rest}`],
  ['ICE', `SOURCE /secret ICE/1.0${rest}`],
  ['no version', `GET http://x/secret${rest}`],
  ['no version, a path', `GET /secret${rest}`],
  ['no version, and no more', 'GET /secret\r\n'],
  ['no version, no line end', 'GET /secret'],
  ['no version, no slash', `GET secret${rest}`],
  ['no version, no slash, LF', `GET secret${restLf}`],
  ['NEL for spaces', `GET\x85/secret\x85HTTP/1.1${rest}`],
  ['a method twice', '\nGET GET /secret\nGET \n\r\n'],
  ['two words to one, three to another', '\xa0\\secret\x85(GET //x/secret\nsecret\n'],
  ['a blank for a method', '\x1c /secret\n'],
  ['blanks and an empty line', '\x1c  \r\n\r\n\r\r\n'],
  ['FS for spaces', `GET\x1c/secret\x1cHTTP/1.1${rest}`],
  ['FS for spaces, LF', `GET\x1c/secret\x1cHTTP/1.1${restLf}`],
  ['a no-break space first', `\xa0GET /secret HTTP/1.1${rest}`],
  ['a no-break space first, LF', `\xa0GET /secret HTTP/1.1${restLf}`],
  ['a parenthesis first', `(GET /secret HTTP/1.1${rest}`],
  ['a parenthesis first, LF', `(GET /secret HTTP/1.1${restLf}`],
  ['a control character for a method', `\x01 /secret HTTP/1.1${restLf}`],
  ['a control character, cut before the version', '\x01 /secret ', `HTTP/1.1${restLf}`],
  ['a control character, cut within the version', '\x01 /secret HT', `TP/1.1${restLf}`],
  ['a NUL first', `\0GET /secret HTTP/1.1${restLf}`],
  ['a byte order mark first', `\xef\xbb\xbfGET /secret HTTP/1.1${restLf}`],
  ['the PROXY protocol', `PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET /secret HTTP/1.1${rest}`],
  [
    'the PROXY protocol, binary',
    `\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x01\x02\x03\x04\x05\x06\x07\x08\0\x01\0\x02GET / HTTP/1.1${rest}`,
  ],
  ['any three words', `x /secret y${rest}`],
  ['any three words, a line before', `\x01\n /secret y${rest}`],
  ['a version alone', '  HTTP/1.1\r\n\n\r\n'],
  ['no version, no path, but a query', 'x ?secret\r\n\n'],
  ['no version, a method that is not ASCII', '\xe9\xff /secret\r\n'],
  ['any three words, an escaped slash', '\x01 %2fsecret y\r\nHost: web\r\n\n'],
  ['no words at all, but fields', `nonsense${rest}`],
  ['a tunnel of TLS', `\x16\x03\x01\x02\0\x01\0\x01 /secret HTTP/1.1${restLf}`],
  ['silence, a byte, the rest', '', 'G', `ET /secret HTTP/1.1${rest}`],
  ['empty lines, then a request', '\r\n\r\n', `GET /secret HTTP/1.1${rest}`],
  ['a lower-case method', `get /secret HTTP/1.1${rest}`],
];

const nul = (count: number): string => '\0'.repeat(count);

/** First bytes of clients that speak something else, as they send them. */
const protocols: readonly (readonly [name: string, ...pieces: string[]])[] = [
  ['Redis', '*1\r\n$4\r\nPING\r\n'],
  ['Redis, pipelined', '*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$4\r\nPING\r\n'],
  ['Redis, inline', 'PING\r\n'],
  ['Redis, inline with arguments', 'SET key value\r\n'],
  ['memcached', 'get foo\r\n'],
  ['memcached, set', 'set foo 0 0 3\r\nbar\r\n'],
  ['memcached, binary', `\x80\x0a${nul(22)}`],
  ['PostgreSQL, asking for TLS', '\0\0\0\x08\x04\xd2\x16\x2f'],
  ['PostgreSQL', '\0\0\0\x29\0\x03\0\0user\0postgres\0database\0postgres\0\0'],
  ['MySQL, behind the greeting', '\x20\0\0\x01\x85\xae\xff\0\0\0\0\x01\x21\0\0\0'],
  ['SMTP', 'EHLO client.example\r\n'],
  ['SMTP, pipelined', 'EHLO x\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\n'],
  ['FTP', 'USER anonymous\r\n'],
  ['POP3', 'CAPA\r\n'],
  ['IMAP', 'a1 LOGIN user pass\r\n'],
  ['IRC', 'NICK me\r\nUSER me 0 * :Me\r\n'],
  ['SSH', 'SSH-2.0-OpenSSH_9.2\r\n'],
  ['MongoDB', `\x3a\0\0\0\x01\0\0\0\0\0\0\0\xd4\x07\0\0\0\0\0\0admin.$cmd\0${nul(16)}`],
  ['Kafka', '\0\0\0\x16\0\x12\0\x03\0\0\0\x01\0\x06client\0\x05a\x02b\0'],
  ['AMQP', 'AMQP\0\0\x09\x01'],
  ['MQTT', '\x10\x13\0\x04MQTT\x04\x02\0\x3c\0\x07clients'],
  ['NATS', 'PING\r\n'],
  ['DNS', '\0\x1d\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x07example\x03com\0\0\x01\0\x01'],
  ['ZooKeeper', `\0\0\0\x2d${nul(12)}\0\0\x75\x30${nul(8)}\0\0\0\x10${nul(16)}\0`],
  ['ZooKeeper, four letters', 'ruok'],
  ['Cassandra', '\x04\0\0\0\x05\0\0\0\0'],
  ['LDAP', '\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\0\x80\0'],
  ['XMPP', "<?xml version='1.0'?><stream:stream to='example.com' xmlns='jabber:client' version='1.0'>"],
  ['TLS without a name', '\x16\x03\x01\x01\x10\x01\0\x01\x0c\x03\x03'],
  // Of its random bytes some are blanks, slashes and ends of lines.
  ['TLS with a path in it', '\x16\x03\x01\x06.\x01\0\x06*\x03\x03:&\x04\xcf\xe4\xf9 /\xe8\n\x7b\xba'],
  ['TLS with an asterisk in it', '\x16\x03\x01\x01\\\x01\0\x01X\x03\x03\xf3\x11\xca\r*\n\x03'],
  ['graphite', 'servers.web.cpu 42 1434055562\nservers.web.mem 7 1434055562\n'],
  ['InfluxDB lines', 'cpu,host=a value=1 1434055562000000000\n'],
  ['OpenTSDB', 'put sys.cpu.user 1356998400 42.5 host=web\n'],
  ['syslog', '<134>Oct 11 22:14:15 web nginx: 10.0.0.1 "GET /a HTTP/1.1" 200 12\n'],
  ['statsd', 'hits:1|c\n'],
  ['JSON lines', '{"message": "GET /a HTTP/1.1", "level": "info"}\n'],
  ['beanstalkd', 'put 0 0 60 5\r\nhello\r\n'],
  ['JDWP', 'JDWP-Handshake'],
  ['VNC', 'RFB 003.008\n'],
  ['Gearman', `\0REQ\0\0\0\x10${nul(4)}`],
  ['rsync', '@RSYNCD: 31.0\n'],
  ['Elasticsearch', 'ES\0\0\0\x2c'],
  ['BitTorrent', `\x13BitTorrent protocol${nul(8)}`],
];

/** Cut in time, from outside in: what comes after a comma comes later. */
const word = fc.constantFrom(
  ...[
    'GET',
    'POST',
    'get',
    'PUT',
    'X',
    'PRI',
    'HEAD',
    'OPTIONS',
    'DESCRIBE',
    'SOURCE',
    '(GET',
    '\x01',
    '\0',
    '\x16\x03\x01',
    '\xe9',
    'G\x7f',
    'a:b',
    '*1',
  ],
  ...[
    '/secret',
    'http://x/secret',
    'secret',
    '//x/secret',
    '*',
    'x:80',
    '/a b',
    'rtsp://x/s',
    '\\secret',
    '%2fsecret',
    '?x',
  ],
  ...[
    'HTTP/1.1',
    'HTTP/1.0',
    'HTTP/0.9',
    'HTTP/2.0',
    'http/1.1',
    'HTTP/1.1x',
    'HTTP/01.01',
    'HTTP/',
    'RTSP/1.0',
    'ICE/1.0',
  ],
  ...['SIP/2.0', 'HTTP/1.1\0', 'HTTP/+1.1', 'HTTPS/1.1', 'y', '', '\xef\xbb\xbf', 'SSH-2.0-x', 'PROXY'],
);
const gap = fc.constantFrom(
  ...[
    ' ',
    ' ',
    ' ',
    '  ',
    '\t',
    '\x0b',
    '\x0c',
    '\r',
    '\n',
    '\r\n',
    '\x1c',
    '\x1d',
    '\x1e',
    '\x1f',
    '\x85',
    '\xa0',
    '\0',
    '',
  ],
);
const lineEnd = fc.constantFrom('\r\n', '\n', '\r', '\r\n ', '\0', ' \r\n', '');
const fields = fc.constantFrom('Host: web', 'Host: web', 'x', 'l5d-client-id: root', '');
const head = fc.constantFrom('\r\n\r\n', '\n\n', '\r\n\n', '\n\r\n', '\r\r', '\r\n', '\n', '\r\n\r\r\n', '');

const piecesOf = fc
  .tuple(
    gap,
    fc.array(fc.tuple(word, gap), { minLength: 1, maxLength: 4 }),
    lineEnd,
    fc.array(fields, { maxLength: 2 }),
    head,
    fc.array(fc.nat(40), { maxLength: 3 }),
    fc.boolean(),
  )
  .map(([first, words, end, lines, last, cuts, ends]) => {
    const text = [first, ...words.flat(), end, lines.join(end), last].join('');
    const at = [...new Set(cuts)].filter((cut) => cut > 0 && cut < text.length).sort((a, b) => a - b);
    const pieces = [0, ...at].map((from, index) => text.slice(from, at[index]));
    return { pieces, ends };
  });

t.setTimeout(timeLimitMs + 600_000);

const servers: RunningServer[] = [];
for (const kind of serverKinds) {
  const absent = await unavailable(t, kind);
  if (absent === null) servers.push(await startServer(t, kind));
  else t.pass(kind.name, { skip: absent });
}

/** Who takes these bytes, when they come as they are. */
async function takers(pieces: readonly Buffer[], ends: boolean, quietMs: number): Promise<string[]> {
  const all = await Promise.all(
    servers.map(async (server) => {
      const taken = await takenBy(server, pieces, { ends, quietMs });
      return taken.map(({ method, target }) => `${server.name}: ${JSON.stringify(`${method} ${target}`)}`);
    }),
  );
  return all.flat();
}

t.test('what evaded once', async (t) => {
  for (const [name, ...texts] of evasions) {
    const pieces = texts.map(latin1);
    for (const ends of [false, true]) {
      const { kind, forwarded } = tunnelled(pieces, ends);
      t.not(kind, 'tunnel', `${name}: does not go on`);
      t.same(await takers(forwarded, ends, 250), [], `${name}: and nobody takes what did`);
    }
    const served = await takers(pieces, true, 400);
    t.comment(`${name}: ${served.map((taker) => taker.split(':')[0]).join(', ')}`);
  }
});

t.test('protocols that are none of HTTP', async (t) => {
  for (const [name, ...texts] of protocols) {
    const pieces = texts.map(latin1);
    const { kind, forwarded } = tunnelled(pieces, false);
    t.equal(kind, 'tunnel', name);
    t.equal(forwarded.join(), pieces.join(), `${name}: whole`);
    const split = tunnelled(
      texts.flatMap((text) => [...text].map((c) => latin1(c))),
      false,
    );
    t.equal(split.kind, 'tunnel', `${name}: byte by byte`);
    t.same(await takers(forwarded, false, 250), [], `${name}: and nobody takes it`);
  }
});

t.test('generated', async (t) => {
  let tried = 0;
  let refused = 0;
  const group = fc.array(piecesOf, { minLength: 40, maxLength: 40 });
  const property = fc.asyncProperty(group, async (openings) => {
    const going = openings.flatMap(({ pieces, ends }) => {
      const { kind, forwarded } = tunnelled(pieces.map(latin1), ends);
      if (kind !== 'tunnel') refused++;
      return forwarded.length === 0 ? [] : [{ pieces, forwarded, ends: ends && kind === 'tunnel' }];
    });
    tried += going.length;
    await mapBounded(going, 6, async ({ pieces, forwarded, ends }) => {
      let served = await takers(forwarded, ends, 200);
      // Slowness may hide a request, and never invents one.
      if (served.length > 0) served = await takers(forwarded, ends, 1_000);
      if (served.length > 0) throw new Error(`${JSON.stringify(pieces)} is taken by ${served.join(', ')}`);
    });
  });
  t.equal(await search(property, 1), null);
  t.comment(`${tried} openings went on, ${refused} did not; ${servers.length} servers`);
  t.ok(tried > 0 && refused > 0);
});
