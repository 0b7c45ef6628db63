import t from 'tap';
import { type HttpGuess, HttpScan, otherHttp } from '../../../../lib/proxy/detect/http-guess.ts';
import fc from '../../../support/properties.ts';
import { latin1 } from '../../../support/raw-http.ts';

type Guess = HttpGuess | 'undecided';

const guessHttp = (bytes: Buffer, isUndeclared = false): Guess =>
  new HttpScan(isUndeclared).guess(bytes) ?? 'undecided';
const long = 'x'.repeat(9000);

const rows: readonly (readonly [name: string, bytes: string, guess: Guess])[] = [
  ['nothing', '', 'undecided'],
  ['a request', 'GET / HTTP/1.1\r\n', 'http/1'],
  ['a request without its end', 'GET / HTTP/', 'http/1'],
  ['a request without its version', 'GET /', 'undecided'],
  ['a method', 'GET', 'undecided'],
  ['a method of any letters', 'BREW /pot HTTP/1.1\r\n', 'http/1'],
  ['an absolute target', 'GET http://a/ HTTP/1.1\r\n', 'http/1'],
  ['CONNECT', 'CONNECT a:443 HTTP/1.1\r\n', 'http/1'],
  ['another version', 'GET / HTTP/3.0\r\n', 'http/1'],
  ['a target that looks like a version', 'GET HTTP/1.1 HTTP/1.1\r\n', 'http/1'],
  ['a method that begins like two protocols', 'PROPFIND / HTTP/1.1\r\n', 'http/1'],
  ['a second blank before the version', 'GET /  HTTP/1.1\r\n', 'http/1'],
  ['an end of the line without its line feed', 'GET / HTTP/1.1\r\r\n', 'http/1'],
  ['empty lines first', '\r\n\r\nGET / HTTP/1.1\r\n', 'http/1'],
  ['bare line feeds first', '\n\nGET / HTTP/1.1\n', 'http/1'],
  ['only empty lines, so far', '\r\n\r\n', 'undecided'],
  ['the preface', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'http/2'],
  ['enough of the preface', 'PRI * HTTP/2.0', 'http/2'],
  ['too little of the preface', 'PRI * HTTP/2.', 'undecided'],
  ['nearly the preface', 'PRI * HTTP/1.1\r\n', 'http/1'],
  ['empty lines, and the preface', '\r\nPRI * HTTP/2.0\r\n', 'http/1'],
  ['blanks that end in an empty line, and a request', '\t\r\n\r\nGET / HTTP/1.1\r\n', 'request-like'],
  ['a request that some see end before its version', 'GET /a\r HTTP/1.1\r\n', 'request-like'],
  ['the PROXY protocol before a version', 'PROXY / HTTP/1.1\r\n', 'request-like'],
  ['Redis, inline', 'PING\r\n', 'other'],
  ['Redis, inline with arguments', 'SET key value\r\n', 'other'],
  ['Redis', '*1\r\n$4\r\nPING\r\n', 'other'],
  ['SMTP', 'EHLO mail.example\r\n', 'other'],
  ['IMAP', 'a1 LOGIN user pass\r\n', 'other'],
  ['SSH', 'SSH-2.0-OpenSSH_9.2\r\n', 'other'],
  ['TLS', '\x16\x03\x01\x02\x00\x01', 'other'],
  ['PostgreSQL', '\x00\x00\x00\x08\x04\xd2\x16\x2f', 'other'],
  ['binary', '\xff\xfe\x00', 'other'],
  ['one byte that no method has', '\0', 'other'],
  ['a separator in the method', 'GE(T / HTTP/1.1\r\n', 'request-like'],
  ['a request line without an end', `GET /${long}`, 'http/1'],
  ['a line that is too long, and no request', `SET ${long}\r\n`, 'http/1'],
  ['a version too far away', `GET /${long} HTTP/1.1\r\n`, 'http/1'],
  ['a method without an end', long, 'http/1'],
];

/** What is not HTTP may be refused at once, or in the tunnel: which of them is known depends on what has come. */
const alike = (guess: Guess): Guess => (guess === 'request-like' ? 'other' : guess);

t.test('first bytes', async (t) => {
  for (const [name, bytes, guess] of rows) t.equal(guessHttp(latin1(bytes)), guess, name);
});

/** On ports that nobody declares: known at once, by the first byte that no request that is served can hold. */
const undeclared: readonly (readonly [name: string, bytes: string, guess: Guess])[] = [
  ['LDAP, StartTLS', '0\x1d\x02\x01\x01\x77\x18\x80\x16', 'other'],
  ['LDAP, two bytes of it', '0\x1d', 'other'],
  ['git', '0032git-upload-pack /project.git\0host=example.org\0', 'other'],
  ['DNS over TCP', '\0\x1d\x12\x34', 'other'],
  ['a control character in the target', 'GET /a\x01', 'other'],
  ['a blank to some, and a version', 'GET\x0b/ HTTP/1.1\r\n', 'other'],
  ['a control character behind the version', 'GET / HTTP/1.1\x01\r\n', 'http/1'],
  ['a control character in the second line', 'GET / HTTP/1.1\r\nX: \x01\r\n', 'http/1'],
  ['ZooKeeper, which could be a method', 'ruok', 'undecided'],
  ['memcached, which could be one', 'stats', 'undecided'],
];

t.test('first bytes on a port that nobody declares', async (t) => {
  const differs = new Set(undeclared.map(([, bytes]) => bytes));
  for (const [name, bytes, guess] of [...undeclared, ...rows.filter(([, bytes]) => !differs.has(bytes))]) {
    t.equal(alike(guessHttp(latin1(bytes), true)), alike(guess), name);
    t.equal(alike(cutAnswer(latin1(bytes), bytes.length > 1000 ? 1000 : 1, true)), alike(guess), `${name}, cut`);
  }
});

/** The first decided answer, when the bytes come piece by piece to one scan. */
function cutAnswer(bytes: Buffer, step: number, isUndeclared = false): Guess {
  const scan = new HttpScan(isUndeclared);
  for (let end = step; end < bytes.length; end += step) {
    const guess = scan.guess(bytes.subarray(0, end));
    if (guess !== undefined) return guess;
  }
  return scan.guess(bytes) ?? 'undecided';
}

t.test('the answer does not depend on the packets', async (t) => {
  for (const [name, bytes, guess] of rows) {
    t.equal(alike(cutAnswer(latin1(bytes), bytes.length > 1000 ? 1000 : 1)), alike(guess), name);
    if (bytes.length > 1000) t.equal(cutAnswer(latin1(bytes), 8191), guess, `${name}, cut before the limit`);
  }
  const piece = fc.constantFrom(
    'GET',
    'GET / HTTP/1.1\r\n',
    'PRI * HTTP/2.0',
    'PROXY',
    ' ',
    '/',
    'HTTP/1.1',
    'http/1.1',
    '\r',
    '\n',
    '\r\n',
    '\t',
    '\0',
    'a',
    ':',
    long,
    'PING',
    '\x16\x03\x01',
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 7 }), fc.integer({ min: 1, max: 9000 }), (pieces, step) => {
      const bytes = latin1(pieces.join(''));
      return [false, true].every(
        (isUndeclared) =>
          alike(cutAnswer(bytes, bytes.length > 500 ? Math.max(step, 500) : 1, isUndeclared)) ===
          alike(guessHttp(bytes, isUndeclared)),
      );
    }),
    { numRuns: 2000 },
  );
});

t.test('the other HTTP than the declared one, by the first bytes', async (t) => {
  const rows: readonly (readonly [declared: 'http/1' | 'http/2', bytes: string, other: 'http/1' | 'http/2' | null])[] =
    [
      ['http/1', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'http/2'],
      ['http/1', 'PRI * HTT', null],
      ['http/1', 'GET / HTTP/1.1\r\n', null],
      ['http/1', '\x16\x03\x01', null],
      ['http/1', '', null],
      ['http/2', 'GET / HTTP/1.1\r\n', 'http/1'],
      ['http/2', 'POST /a.B/C HTTP/1.0\r\n', 'http/1'],
      ['http/2', 'GET', null],
      ['http/2', 'PRI * HTTP/2.0\r\n', null],
      ['http/2', 'P', null],
      ['http/2', '\x16\x03\x01', null],
      ['http/2', '', null],
    ];
  for (const [declared, bytes, other] of rows) {
    t.equal(otherHttp(declared, latin1(bytes)), other, `${declared}: ${JSON.stringify(bytes)}`);
  }
});
