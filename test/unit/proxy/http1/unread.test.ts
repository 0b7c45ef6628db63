import t from 'tap';
import { maxPlainHead, readPlainHead } from '../../../../lib/proxy/http1/fast/plain-request.ts';
import { type HeadProgress, Unread } from '../../../../lib/proxy/http1/unread.ts';
import { noKeeper } from '../../../../lib/proxy/kept.ts';
import fc from '../../../support/properties.ts';
import { latin1 } from '../../../support/raw-http.ts';

const head = 'GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n\r\n';

function look(text: string, packets = [text.length]): HeadProgress {
  const unread = new Unread(noKeeper);
  let seen: HeadProgress = 'partial';
  let from = 0;
  for (const length of packets) {
    if (from >= text.length) break;
    unread.append(latin1(text.slice(from, from + length)));
    from += length;
    seen = unread.look();
    if (seen !== 'partial') return seen;
  }
  if (from < text.length) {
    unread.append(latin1(text.slice(from)));
    seen = unread.look();
  }
  return seen;
}

t.test('beginnings of heads', async (t) => {
  for (let end = 1; end < head.length; end++) {
    t.equal(look(head.slice(0, end)), 'partial', JSON.stringify(head.slice(0, end)));
  }
  t.equal(look(head), head.length - 4);
  t.equal(look(`${head}more`), head.length - 4);
  for (const hopeless of [
    '\r\n',
    '\r',
    '\n',
    'GET / HTTP/1.1\n',
    'GET / HTTP/1.1\rX',
    'GET / HTTP/1.2\r\n',
    'GET ftp://a/ HTTP/1.1\r\n',
    'GET /\r\n',
    'get / HTTP/1.1\r\n',
    'CONNECT a:80 HTTP/1.1\r\n',
    'PRI * HTTP/2.0\r\n',
    'GET / HTTP/1.1\r\nX: 1\n',
    'GET / HTTP/1.1\r\nX: 1\rY',
    'GET / HTTP/1.1\r\n\rX',
  ]) {
    t.equal(look(hopeless), 'not-plain', JSON.stringify(hopeless));
  }
});

t.test('however they are cut', async () => {
  const piece = fc.constantFrom('GET / HTTP/1.1', 'X: 1', '\r', '\n', '\r\n', '\r\n', 'a', ' ', 'OPTIONS * HTTP/1.1');
  fc.assert(
    fc.property(
      fc.array(piece, { minLength: 1, maxLength: 12 }).map((pieces) => pieces.join('')),
      fc.array(fc.integer({ min: 1, max: 9 })),
      (text, packets) => {
        const whole = look(text);
        const cut = look(text, packets);
        // Of a whole head that is none, the first part may have told already.
        return (
          cut === whole ||
          (typeof whole === 'number' && cut === 'not-plain' && readPlainHead(text.slice(0, whole + 4), null) === null)
        );
      },
    ),
    { numRuns: 5000 },
  );
});

t.test('bytes are kept in their order, whatever is taken in between', async () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.string({ maxLength: 3000 }), fc.nat(4000)), { maxLength: 20 }), (steps) => {
      const unread = new Unread(noKeeper);
      let wanted = '';
      for (const [text, take] of steps) {
        const packet = text.replace(/[^\x20-\x7e]/g, '.');
        if (packet !== '') unread.append(latin1(packet));
        wanted += packet;
        const from = Math.min(take, wanted.length);
        const lent = unread.bytes.subarray(0, from);
        const copy = lent.toString('latin1');
        unread.keep(from);
        wanted = wanted.slice(from);
        unread.append(latin1('x'));
        wanted += 'x';
        if (lent.toString('latin1') !== copy) return false;
      }
      return unread.bytes.toString('latin1') === wanted && unread.length === wanted.length;
    }),
  );
});

t.test('a head of single bytes costs no more than it has bytes', async (t) => {
  const costOf = (bytes: number): number => {
    const started = process.cpuUsage();
    const unread = new Unread(noKeeper);
    const text = latin1(`GET / HTTP/1.1\r\n${'a: b\r\n'.repeat(bytes / 6)}`);
    for (let i = 0; i < bytes; i++) {
      unread.append(text.subarray(i, i + 1));
      if (unread.look() !== 'partial') t.fail(`given up at ${i}`);
    }
    const { user, system } = process.cpuUsage(started);
    return user + system;
  };
  costOf(maxPlainHead);
  const least = (bytes: number): number => Math.min(...Array.from({ length: 9 }, () => costOf(bytes)));
  const [once, eight] = [least(maxPlainHead), least(8 * maxPlainHead)];
  t.ok(eight < 20 * once, `${once} us, and ${eight} us for eight times as many`);
});
