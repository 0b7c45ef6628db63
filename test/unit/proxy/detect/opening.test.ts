import t from 'tap';
import { Opening } from '../../../../lib/proxy/detect/opening.ts';
import { latin1 } from '../../../support/raw-http.ts';

/** The same numbers in every run (xorshift32): what is refused by chance once in a million is no matter of chance here. */
function randomBytes(seed: number): (count: number) => string {
  let state = seed;
  return (count) => {
    let text = '';
    for (let i = 0; i < count; i++) {
      state ^= state << 13;
      state ^= state >>> 17;
      state ^= state << 5;
      text += String.fromCharCode((state >>> 16) & 0xff);
    }
    return text;
  };
}

const two = (n: number): string => String.fromCharCode(n >> 8, n & 255);

/** As OpenSSL writes one: of it the random, the session's name and the shares of the key differ each time. */
function clientHello(random: (count: number) => string, shareBytes: readonly number[]): Buffer {
  const extension = (type: number, data: string): string => two(type) + two(data.length) + data;
  const name = 'db.example';
  const shares = shareBytes
    .map((bytes, index) => two(index === 0 ? 0x11ec : 0x1d) + two(bytes) + random(bytes))
    .join('');
  const extensions = [
    extension(0, `${two(name.length + 3)}\0${two(name.length)}${name}`),
    extension(10, '\0\x06\x11\xec\0\x1d\0\x17'),
    extension(13, '\0\x08\x04\x03\x05\x03\x08\x04\x08\x05'),
    extension(43, '\x04\x03\x04\x03\x03'),
    extension(51, two(shares.length) + shares),
  ].join('');
  const body = `\x03\x03${random(32)}\x20${random(32)}\0\x06\x13\x01\x13\x02\xc0\x2b\x01\0${two(extensions.length)}${extensions}`;
  const message = `\x01\0${two(body.length)}${body}`;
  return latin1(`\x16\x03\x01${two(message.length)}${message}`);
}

function judged(bytes: Buffer): Opening {
  const opening = new Opening();
  opening.read(bytes);
  return opening;
}

t.test('no random bytes of a ClientHello make a request of it', async (t) => {
  for (const [name, shareBytes, count] of [
    ['of X25519', [32], 60_000],
    ['of X25519 and ML-KEM', [1216, 32], 15_000],
  ] as const) {
    const random = randomBytes(0x5a11);
    const refused: string[] = [];
    for (let i = 0; i < count; i++) {
      const hello = clientHello(random, shareBytes);
      const opening = judged(hello);
      if (opening.endsAsRequest) refused.push(hello.toString('base64'));
    }
    t.same(refused, [], `${count} ${name}`);
  }
});

t.test('what is a request in a line of two words', async (t) => {
  const rows: readonly (readonly [name: string, bytes: string, isRequest: boolean])[] = [
    ['a path', 'x /secret\n', true],
    ['an asterisk', 'x *\n', true],
    ['bytes that are not ASCII before it', '\xe9\xff /secret\n', true],
    ['GET before anything', 'GET secret\n', true],
    ['a control character in the first', 'G\x01T /secret\n', false],
    ['DEL in the first', 'G\x7fT /secret\n', false],
    ['NUL in the first', '\0 /secret\n', false],
    ['a control character in the first, before an asterisk', '\x16\x03\x01 *\n', false],
    ['a control character in the first, and a version', '\x16\x03\x01 HTTP/1.1\n', true],
    ['a control character in the first, and fields', '\x16\x03\x01 /secret\r\nHost: web\r\n\r\n', true],
    ['neither', 'x secret\n', false],
  ];
  for (const [name, bytes, isRequest] of rows) t.equal(judged(latin1(bytes)).isRequest, isRequest, name);
});
