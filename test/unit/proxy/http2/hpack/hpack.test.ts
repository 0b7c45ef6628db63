import t from 'tap';
import { type Decoded, HpackDecoder } from '../../../../../lib/proxy/http2/hpack/decoder.ts';
import { encodeFields } from '../../../../../lib/proxy/http2/hpack/encoder.ts';
import { staticEntries, staticTable } from '../../../../../lib/proxy/http2/hpack/static-table.ts';
import { NodeDecoder, NodeEncoder } from '../../../../support/nghttp2.ts';

/** Hexadecimal, with space wherever it helps. */
const hex = (text: string): Buffer => Buffer.from(text.replaceAll(/\s/g, ''), 'hex');

const decode = (decoder: HpackDecoder, block: Buffer): Decoded => decoder.decode(block, 0, block.length);

const newDecoder = (): HpackDecoder => new HpackDecoder(4096, 65_536, 100);

const fieldsOf = (decoded: Decoded): string[] | string => (decoded.kind === 'fields' ? decoded.fields : decoded.kind);

const get = [':method', 'GET', ':scheme', 'http', ':path', '/', ':authority', 'www.example.com'];
const getHttps = [':method', 'GET', ':scheme', 'https', ':path', '/index.html', ':authority', 'www.example.com'];
const requests = [get, [...get, 'cache-control', 'no-cache'], [...getHttps, 'custom-key', 'custom-value']];
const answer = (status: string, second: string, ...more: string[]): string[] => [
  ...[':status', status, 'cache-control', 'private', 'date', `Mon, 21 Oct 2013 20:13:${second} GMT`],
  ...['location', 'https://www.example.com', ...more],
];
const setCookie = 'foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1';
/** The examples say them in the order of the wire. */
const responses = [
  answer('302', '21'),
  answer('307', '21'),
  answer('200', '22', 'content-encoding', 'gzip', 'set-cookie', setCookie),
];

/** RFC 7541, Appendix C. */
const examples: readonly (readonly [name: string, tableBytes: number, blocks: readonly string[], lists: string[][]])[] =
  [
    [
      'C.2.1 literal with indexing',
      4096,
      ['400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572', 'be'],
      [
        ['custom-key', 'custom-header'],
        ['custom-key', 'custom-header'],
      ],
    ],
    ['C.2.2 literal without indexing', 4096, ['040c 2f73 616d 706c 652f 7061 7468'], [[':path', '/sample/path']]],
    ['C.2.3 literal never indexed', 4096, ['1008 7061 7373 776f 7264 0673 6563 7265 74'], [['password', 'secret']]],
    ['C.2.4 indexed', 4096, ['82'], [[':method', 'GET']]],
    [
      'C.3 requests',
      4096,
      [
        '8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d',
        '8286 84be 5808 6e6f 2d63 6163 6865',
        '8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65',
      ],
      requests,
    ],
    [
      'C.4 requests, Huffman coded',
      4096,
      [
        '8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff',
        '8286 84be 5886 a8eb 1064 9cbf',
        '8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf',
      ],
      requests,
    ],
    [
      'C.5 responses, a table of 256 bytes',
      256,
      [
        `4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120
         474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d`,
        '4803 3330 37c1 c0bf',
        `88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738
         666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33
         3630 303b 2076 6572 7369 6f6e 3d31`,
      ],
      responses,
    ],
    [
      'C.6 responses, a table of 256 bytes, Huffman coded',
      256,
      [
        `4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718
         63c7 8f0b 97c8 e9ae 82ae 43d3`,
        '4883 640e ffc1 c0bf',
        `88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7
         b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07`,
      ],
      responses,
    ],
  ];

t.test('the examples of RFC 7541', async (t) => {
  for (const [name, tableBytes, blocks, lists] of examples) {
    const decoder = new HpackDecoder(tableBytes, 65_536, 100);
    for (const [i, block] of blocks.entries()) {
      t.same(fieldsOf(decode(decoder, hex(block))), lists[i], `${name}, block ${i + 1}`);
    }
  }
});

t.test('rare codes, as Appendix B has them', async (t) => {
  // The first and last code of the longer lengths, and those for which no client of ours has a use.
  const rows: readonly (readonly [character: number, code: number, bits: number])[] = [
    [0, 0x1ff8, 13],
    [1, 0x7fffd8, 23],
    [2, 0xfffffe2, 28],
    [9, 0xffffea, 24],
    [10, 0x3ffffffc, 30],
    [13, 0x3ffffffd, 30],
    [22, 0x3ffffffe, 30],
    [31, 0xffffffb, 28],
    [92, 0x7fff0, 19],
    [127, 0xffffffc, 28],
    [128, 0xfffe6, 20],
    [199, 0x1ffffec, 25],
    [203, 0x7ffffde, 27],
    [249, 0xffffffe, 28],
    [255, 0x3ffffee, 26],
  ];
  for (const [character, code, bits] of rows) {
    const digits = code.toString(2).padStart(bits, '0');
    const whole = digits.padEnd(Math.ceil(bits / 8) * 8, '1');
    const coded = Buffer.from((whole.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)));
    const block = Buffer.concat([hex('00 01 61'), Buffer.of(0x80 | coded.length), coded]);
    t.same(fieldsOf(decode(newDecoder(), block)), ['a', String.fromCharCode(character)], `character ${character}`);
  }
});

t.test('integers', async (t) => {
  const value = (length: number): string => 'v'.repeat(length);
  const rows: readonly (readonly [name: string, block: Buffer, wanted: string[]])[] = [
    ['the longest in the prefix', Buffer.concat([hex('04 7e'), Buffer.from(value(126))]), [':path', value(126)]],
    ['the shortest after it', Buffer.concat([hex('04 7f 00'), Buffer.from(value(127))]), [':path', value(127)]],
    ['two bytes after it', Buffer.concat([hex('04 7f ba 09'), Buffer.from(value(1337))]), [':path', value(1337)]],
    [
      'five bytes after it, four of them for nothing',
      Buffer.concat([hex('04 7f 80 80 80 80 00'), Buffer.from(value(127))]),
      [':path', value(127)],
    ],
    ['an index of four bits', hex('0f 01 00'), ['accept-encoding', '']],
    ['an index of four bits, one byte too many', hex('0f 81 00 00'), ['accept-encoding', '']],
    ['a size update of five bits (C.1.1)', hex('2a 82'), [':method', 'GET']],
    ['a size update and a byte more (C.1.2)', hex('3f 9a 0a 82'), [':method', 'GET']],
  ];
  for (const [name, block, wanted] of rows) {
    t.same(fieldsOf(decode(newDecoder(), block)), wanted, name);
  }
});

/** Each after a block that put one entry into the table, at index 62. */
const faults: readonly (readonly [name: string, block: string])[] = [
  ['index 0', '80'],
  ['an index beyond the table', 'bf'],
  ['an index far beyond the table', 'ff ff ff 7f'],
  ['an index that is cut off', 'ff'],
  ['an index that is cut off later', 'ff 80'],
  ['an index of six bytes', 'ff 80 80 80 80 80 00'],
  ['an index beyond 31 bits', 'ff ff ff ff ff 07'],
  ['an index beyond 32 bits', 'ff 80 80 80 80 10'],
  ['an index beyond 32 bits that would wrap to a sound one', 'ff 83 ff ff ff 7f'],
  ['an index with no end in sight', `ff ${'80 '.repeat(50)}`],
  ['a name beyond the table', '7f 00 01 61'],
  ['a name beyond the table, not indexed', '0f 30 01 61'],
  ['a name beyond the table, never indexed', '1f 30 01 61'],
  ['a name index that is cut off', '7f'],
  ['no name', '40'],
  ['a name that is cut off', '40 03 61 62'],
  ['no value', '40 01 61'],
  ['no value after an indexed name', '44'],
  ['a value that is cut off', '44 03 61 62'],
  ['a value whose length is cut off', '44 7f'],
  ['a value whose length is cut off later', '44 7f ff'],
  ['a value longer than anything', '44 7f ff ff ff ff 07 61'],
  ['a value with a length beyond 32 bits', '44 7f 82 ff ff ff 7f 61'],
  ['a coded value that is cut off', '44 82 1f'],
  ['padding of zeros', '44 81 18'],
  ['padding of one zero', '44 81 b8'],
  ['padding not all ones', '44 81 1e'],
  ['padding of eight bits', '44 82 f8 ff'],
  ['padding of eleven bits', '44 82 1f ff'],
  ['padding of a byte alone', '44 81 ff'],
  ['padding of four bytes: EOS', '44 84 ff ff ff ff'],
  ['EOS in a string', '44 85 1f ff ff ff fc'],
  ['EOS in a name', '40 85 1f ff ff ff fc 01 61'],
  ['half a code', '44 81 fe'],
  ['a size larger than promised', '3f e2 1f'],
  ['a size of 32 bits', '3f e0 ff ff ff 0f'],
  ['a size that is cut off', '3f'],
  ['a size after a field', '82 20'],
  ['a size between fields', '82 20 82'],
  ['a size where a literal might begin', '82 20 01 61 01 62'],
  ['a size of six bytes', '3f 81 80 80 80 80 00'],
];

t.test('faults', async (t) => {
  const peer = await NodeDecoder.open(t);
  const before = hex('40 01 61 01 62');
  for (const [name, block] of faults) {
    const decoder = newDecoder();
    t.equal(decode(decoder, before).kind, 'fields');
    t.same(decode(decoder, hex(block)), { kind: 'malformed' }, name);
    const compressionError = 9;
    t.equal((await peer.read([before, hex(block)])).goaway, compressionError, `${name}, says nghttp2`);
  }
});

t.test('what only looks like a fault', async (t) => {
  const rows: readonly (readonly [name: string, block: string, wanted: string[]])[] = [
    ['nothing at all', '', []],
    ['size updates alone', '20 3f e1 1f', []],
    ['a size of five bytes', '3f 81 80 80 80 00 82', [':method', 'GET']],
    ['a long coded value', `44 ff d5 60 ${'00'.repeat(12_500)}`, [':path', '0'.repeat(20_000)]],
    ['the size that was promised', '3f e1 1f 82', [':method', 'GET']],
    ['an empty coded value', '44 80', [':path', '']],
    ['an empty name', '00 00 01 61', ['', 'a']],
    ['padding of seven bits', '44 83 02 8a 7f', [':path', '0  ']],
    ['no padding', '44 85 00 00 00 00 00', [':path', '00000000']],
  ];
  for (const [name, block, wanted] of rows) t.same(fieldsOf(decode(newDecoder(), hex(block))), wanted, name);
  const inside = Buffer.concat([hex('ff ff'), hex('82 84'), hex('ff ff')]);
  t.same(fieldsOf(newDecoder().decode(inside, 2, 4)), [':method', 'GET', ':path', '/'], 'a block amid other bytes');
  t.same(newDecoder().decode(Buffer.concat([hex('44 02 61'), hex('62')]), 0, 3), { kind: 'malformed' }, 'not beyond');
});

t.test('the table', async (t) => {
  /** An entry of 34 bytes: with indexing, a name and a value of one character. */
  const add = (name: string, value: string): string =>
    Buffer.from(`@\x01${name}\x01${value}`, 'latin1').toString('hex');
  const filled = add('a', '1') + add('b', '2') + add('c', '3');
  const newest = 'be';
  const second = 'bf';
  const third = 'c0';
  const fourth = 'c1';
  const rows: readonly (readonly [
    name: string,
    tableBytes: number,
    blocks: string,
    probe: string,
    wanted: string[] | string,
    generation: number,
  ])[] = [
    ['the newest first', 102, filled, newest + second + third, ['c', '3', 'b', '2', 'a', '1'], 3],
    ['one that just fits', 102, filled, fourth, 'malformed', 3],
    ['one byte too few for three', 101, filled, second, ['b', '2'], 3],
    ['one byte too few for three: the oldest has gone', 101, filled, third, 'malformed', 3],
    ['the ring goes round', 102, filled + filled + add('d', '4'), newest + third, ['d', '4', 'b', '2'], 7],
    ['one entry that drives out two', 102, `${filled}4001 6423${'78'.repeat(0x23)}`, second, ['c', '3'], 4],
    ['and not three', 102, `${filled}4001 6424${'78'.repeat(0x24)}`, second, 'malformed', 4],
    ['an entry of the whole table', 102, `${filled}4001 6445${'78'.repeat(69)}`, newest, ['d', 'x'.repeat(69)], 4],
    ['an entry larger than the table empties it', 102, `${filled}4001 6446${'78'.repeat(70)}`, newest, 'malformed', 4],
    ['and the next one is in', 102, `${filled}4001 6446${'78'.repeat(70)}${add('e', '5')}`, newest, ['e', '5'], 5],
    ['a name from an entry that its field drives out', 68, `${filled}7f0001 39`, newest, ['b', '9'], 4],
    ['no table', 0, filled, newest, 'malformed', 3],
    ['a smaller size drops the oldest', 102, `${filled}|3f25`, newest + second, ['c', '3', 'b', '2'], 4],
    ['a smaller size drops the oldest, only', 102, `${filled}|3f25`, third, 'malformed', 4],
    ['a smaller size stays', 102, `${filled}|3f25|${filled}`, third, 'malformed', 7],
    ['down to nothing and up again', 102, `${filled}|203f47`, newest, 'malformed', 5],
    ['a greater size has room again', 102, `20|3f47${filled}`, third, ['a', '1'], 5],
    ['without indexing nothing changes', 102, '0001610131 1001620132 04012f 82', newest, 'malformed', 0],
  ];
  for (const [name, tableBytes, blocks, probe, wanted, generation] of rows) {
    const decoder = new HpackDecoder(tableBytes, 65_536, 100);
    for (const block of blocks.split('|')) t.equal(decode(decoder, hex(block)).kind, 'fields');
    t.equal(decoder.generation, generation, `${name}: generation`);
    t.same(fieldsOf(decode(decoder, hex(probe))), wanted, name);
    t.equal(decoder.generation, generation, `${name}: asking changes nothing`);
  }
});

t.test('bounds', async (t) => {
  // A name of one and a value of two bytes: 35 with what a field costs.
  const field = (name: string): string => Buffer.from(`@\x01${name}\x02vv`, 'latin1').toString('hex');
  const long = `4001 6c7f 81 01${'78'.repeat(256)}`;
  const tooLarge = 'too-large';
  const fields = 'fields';
  const rows: readonly (readonly [name: string, listBytes: number, maxFields: number, block: string, kind: string])[] =
    [
      ['just as many bytes', 70, 9, field('a') + field('b'), fields],
      ['a byte too many', 69, 9, field('a') + field('b'), tooLarge],
      ['just as many fields', 999, 2, field('a') + field('b'), fields],
      ['a field too many', 999, 1, field('a') + field('b'), tooLarge],
      ['no field at all', 999, 0, field('a') + field('b'), tooLarge],
      ['a long field, then short ones', 70, 9, long + field('a') + field('b'), tooLarge],
      ['indexed fields count', 70, 9, field('a') + field('b') + '82'.repeat(9), tooLarge],
      ['and it goes on to the end', 1, 0, '82'.repeat(99) + field('a') + field('b'), tooLarge],
    ];
  for (const [name, listBytes, maxFields, block, kind] of rows) {
    const decoder = new HpackDecoder(4096, listBytes, maxFields);
    t.equal(decode(decoder, hex(block)).kind, kind, name);
    const wide = newDecoder();
    decode(wide, hex(block));
    t.equal(decoder.generation, wide.generation, `${name}: changes of the table`);
    // One field a block, which every bound here allows except that of no field.
    if (maxFields > 0) {
      for (const index of ['be', 'bf']) {
        t.same(decode(decoder, hex(index)), decode(wide, hex(index)), `${name}: the table in step, ${index}`);
      }
    }
  }
  const strict = new HpackDecoder(4096, 10, 9);
  t.same(decode(strict, hex('82 82 80')), { kind: 'malformed' }, 'a fault after the bound');
  t.same(decode(strict, hex('00 01 61 82 1f ff')), { kind: 'malformed' }, 'a fault in a string that is not kept');
});

t.test('a hostile block costs time in proportion to its length', async (t) => {
  // A name of 4000 bytes, then fields that name it: in copies that would be 2 GB.
  const name = Buffer.concat([hex('40 7f a1 1e'), Buffer.alloc(4000, 'n'), hex('00')]);
  const references = Buffer.alloc(1_000_000, hex('7e 00'));
  const decoder = newDecoder();
  t.equal(decode(decoder, name).kind, 'fields');
  const heap = process.memoryUsage().heapUsed;
  t.same(decode(decoder, references), { kind: 'too-large' });
  t.ok(process.memoryUsage().heapUsed - heap < 64 * 2 ** 20, 'no copies');
  t.equal(decoder.generation, 500_001, 'all were read');
});

t.test('encoded fields', async (t) => {
  const rows: readonly (readonly [name: string, fields: string[], block: string])[] = [
    ['nothing', [], ''],
    ['in the static table', [':method', 'GET', ':status', '404'], '82 8d'],
    ['in the static table with an empty value', ['accept', ''], '93'],
    ['a name in the static table', [':path', '/a'], '04 02 2f 61'],
    ['the first of its name', [':status', '201'], '08 03 32 30 31'],
    ['a name further down in it', ['server', 'a'], '0f 27 01 61'],
    ['a new name', ['x', 'y'], '00 01 78 01 79'],
    ['bytes beyond ASCII', ['x', '\xff\x80'], '00 01 78 02 ff 80'],
    ['authorization', ['authorization', 'a'], '1f 08 01 61'],
    ['authorization, empty', ['authorization', ''], '1f 08 00'],
    ['cookie', ['cookie', 'a'], '1f 11 01 61'],
    ['set-cookie', ['set-cookie', 'a'], '1f 28 01 61'],
    ['proxy-authorization', ['proxy-authorization', 'a'], '1f 22 01 61'],
    ['a name that every object has', ['constructor', ''], '00 0b 636f6e7374727563746f72 00'],
    ['a value of 126', ['x', 'v'.repeat(126)], `00 01 78 7e ${'76'.repeat(126)}`],
    ['a value of 127', ['x', 'v'.repeat(127)], `00 01 78 7f 00 ${'76'.repeat(127)}`],
    ['a value of 1337', ['x', 'v'.repeat(1337)], `00 01 78 7f ba 09 ${'76'.repeat(1337)}`],
  ];
  for (const [name, fields, block] of rows) {
    const encoded = encodeFields(fields);
    t.equal(encoded.toString('hex'), hex(block).toString('hex'), name);
    const decoder = newDecoder();
    t.same(fieldsOf(decode(decoder, encoded)), fields, `${name}, and back`);
    t.equal(decoder.generation, 0, `${name}: no trace in the table`);
  }
  for (let i = 0; i < staticEntries; i++) {
    const entry = staticTable.slice(2 * i, 2 * i + 2);
    t.same(fieldsOf(decode(newDecoder(), encodeFields(entry))), entry);
    t.same(fieldsOf(decode(newDecoder(), Buffer.of(0x81 + i))), entry);
  }
});

const visible = Array.from({ length: 256 }, (_, code) => String.fromCharCode(code))
  .filter((character) => /[\x21-\x7e\x80-\xff]/.test(character))
  .join('');
const pseudo = [':method', 'GET', ':scheme', 'http', ':authority', 'web', ':path', '/'];
const exchanged: readonly (readonly [name: string, fields: string[]])[] = [
  ['no more than a request needs', pseudo],
  ['the same again', pseudo],
  ['names known and new', [...pseudo, 'user-agent', 'test/1', 'accept', '*/*', 'x-request-id', '17']],
  ['repeated names', [...pseudo, 'x-a', '1', 'x-a', '2', 'cookie', 'a=b', 'cookie', 'c=d']],
  ['every character that may be', [...pseudo, 'x-all', visible, 'x-twice', visible.repeat(2)]],
  ['an entry larger than the table', [...pseudo, 'x-large', 'large '.repeat(1000).trim()]],
  ['the table after it', [...pseudo, 'x-request-id', '17', 'x-a', '2']],
  ['more than the table holds', [...pseudo, ...Array.from({ length: 90 }, (_, i) => [`x-${i}`, `value ${i}`]).flat()]],
  ['and again', [...pseudo, ...Array.from({ length: 90 }, (_, i) => [`x-${89 - i}`, `value ${89 - i}`]).flat()]],
];

t.test('what nghttp2 encodes', async (t) => {
  const peer = await NodeEncoder.open(t);
  for (const tableBytes of [4096, 1000, 0]) {
    const decoder = newDecoder();
    const blocks = await peer.blocks(
      exchanged.map(([, fields]) => fields),
      tableBytes,
    );
    for (const [i, [name, fields]] of exchanged.entries()) {
      t.same(fieldsOf(decode(decoder, blocks[i] as Buffer)), fields, `${name}, a table of ${tableBytes}`);
    }
  }
});

t.test('what nghttp2 decodes', async (t) => {
  const peer = await NodeDecoder.open(t);
  const reading = await peer.read(exchanged.map(([, fields]) => encodeFields(fields)));
  t.equal(reading.goaway, null);
  for (const [i, [name, fields]] of exchanged.entries()) t.same(reading.fields[i], fields, name);
});
