import t from 'tap';
import { textOfBytes, utf8Text, wireText } from '../../../lib/policy/bytes.ts';
import fc from '../../support/properties.ts';

/** Bytes, one character each, as text and back: nothing is read as what it is not, and nothing is lost. */

const rows: readonly (readonly [name: string, bytes: string, text: string | null])[] = [
  ['nothing', '', ''],
  ['ASCII', '/a', '/a'],
  ['UTF-8', '\xc3\xa9', '\xe9'],
  ['Latin-1', '\xe9', null],
  ['the replacement character itself', 'a\xef\xbf\xbdb', 'a\ufffdb'],
  ['the replacement character before a byte that is no UTF-8', '\xef\xbf\xbd\xff', null],
  ['the replacement character behind a byte that is no UTF-8', '\x80\xef\xbf\xbd', null],
  ['a part of it beside it', '\xef\xbf\xef\xbf\xbd', null],
  ['a surrogate', '\xed\xb2\x80', null],
  ['longer than it need be', '\xc0\xaf', null],
  ['a byte order mark', '\xef\xbb\xbfa', '\ufeffa'],
];
for (const [name, bytes, text] of rows) {
  t.test(name, async (t) => {
    t.equal(utf8Text(bytes), text);
    t.equal(wireText(textOfBytes(bytes)), bytes, 'the same bytes again');
  });
}

t.test('any bytes are the same bytes again', async () => {
  const parts = ['\xef\xbf\xbd', '\xef', '\xbf', '\xbd', '\xff', '\xc3\xa9', '\xf0\x9f\x98\x80', '\xed\xb2\x80', 'a'];
  const bytes = fc.array(fc.constantFrom(...parts), { maxLength: 6 }).map((each) => each.join(''));
  fc.assert(fc.property(bytes, (given) => wireText(textOfBytes(given)) === given));
});
