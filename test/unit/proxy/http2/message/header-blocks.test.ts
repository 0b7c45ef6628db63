import t from 'tap';
import { HpackDecoder } from '../../../../../lib/proxy/http2/hpack/decoder.ts';
import { HeaderBlocks } from '../../../../../lib/proxy/http2/message/header-blocks.ts';
import fc from '../../../../support/properties.ts';

/** Each block that is really read becomes a head of its own, so that one that is given again is the same object. */
class Head {
  readonly fields: readonly string[];
  constructor(fields: readonly string[]) {
    this.fields = fields;
  }
}

const newDecoder = (): HpackDecoder => new HpackDecoder(4096, 2000, 100);

class Stage {
  readonly decoder = newDecoder();
  readonly blocks = new HeaderBlocks<Head>(this.decoder, (fields) => new Head(fields));

  /** The head, or how reading it ended. */
  read(block: string): Head | string {
    const bytes = Buffer.from(`ff${block}ff`, 'hex');
    const read = this.blocks.read(bytes, 1, bytes.length - 1);
    return read.kind === 'head' ? read.head : read.kind;
  }
}

const hex = (text: string): string => Buffer.from(text, 'latin1').toString('hex');
const string = (text: string): string => `${Buffer.of(text.length).toString('hex')}${hex(text)}`;
/** Of the static table; added to the dynamic one; not added. */
const status200 = '88';
const added = (name: string, value: string): string => `40${string(name)}${string(value)}`;
const literal = (name: string, value: string): string => `00${string(name)}${string(value)}`;
const server = (value: string): string => `76${string(value)}`;
/** Entries of the dynamic table: the newest, the one before. */
const newest = 'be';
const second = 'bf';
/** The table's size: none, and back. */
const shrunk = '20';
const grown = '3fe11f';

const rows: readonly (readonly [name: string, before: readonly string[], block: string, again: boolean])[] = [
  ['static fields', [], status200, true],
  ['literals that are not added', [], status200 + literal('x', 'y'), true],
  ['fields that are added each time', [], status200 + server('nginx') + added('x', 'y'), true],
  ['an entry of a table at rest', [added('x', 'y')], status200 + newest, true],
  ['an entry, and another that is added', [added('x', 'y')], status200 + newest + added('z', ''), false],
  ['the name of an entry', [added('x', 'y')], `${status200}7e${string('z')}`, false],
  ['a resized table', [], shrunk + grown + status200, false],
  ['more bytes than are kept', [], status200 + literal('x'.repeat(100), 'y'.repeat(100)).repeat(6), false],
];

t.test('a block that comes again is read again only where it may mean another', async (t) => {
  for (const [name, before, block, again] of rows) {
    const stage = new Stage();
    for (const one of before) stage.read(one);
    const first = stage.read(block);
    const then = stage.read(block);
    t.type(first, Head, name);
    if (again) t.equal(then, first, `${name}: the same head`);
    else t.not(then, first, `${name}: another head`);
    if (again) t.ok(stage.blocks.cost < 20, `${name}: costs ${stage.blocks.cost}`);
    else t.ok(stage.blocks.cost >= block.length / 2, `${name}: costs ${stage.blocks.cost}`);
  }
});

t.test('what would take much memory is not kept', async (t) => {
  for (const [entries, again] of [
    [30, true],
    [60, false],
  ] as const) {
    const blocks = new HeaderBlocks<Head>(new HpackDecoder(4096, 65_536, 1000), (fields) => new Head(fields));
    const read = (block: string): unknown => {
      const bytes = Buffer.from(block, 'hex');
      return blocks.read(bytes, 0, bytes.length);
    };
    read(added('x', 'y'.repeat(126)));
    const list = newest.repeat(entries);
    const first = read(list);
    t.equal(read(list) === first, again, `${entries * 159} bytes of ${entries}`);
  }
});

t.test('what is not a message is not kept', async (t) => {
  const blocks = new HeaderBlocks(newDecoder(), () => null);
  const bytes = Buffer.from(added('x', 'y'), 'hex');
  for (const _ of [1, 2]) t.same(blocks.read(bytes, 0, bytes.length), { kind: 'malformed' });
  const stage = new Stage();
  for (const _ of [1, 2]) t.equal(stage.read(literal('x', 'y'.repeat(120)).repeat(20)), 'too-large');
});

/** Few texts, so that blocks come again; some fill the table, and what was in it goes. */
const text = fc.constantFrom('', 'a', 'b', 'x'.repeat(120));
const field = fc.oneof(
  fc.constantFrom(status200, newest, second, 'c0', 'c5'),
  fc.tuple(fc.constantFrom(added, literal), text, text).map(([make, name, value]) => make(name, value)),
  text.map(server),
  text.map((value) => `7e${string(value)}`),
);
const resized = fc.constantFrom('', '', '', '', shrunk, grown, `3f45${shrunk}`);
const block = fc.tuple(resized, fc.array(field, { maxLength: 4 })).map(([size, fields]) => size + fields.join(''));
const pool = fc.array(block, { minLength: 1, maxLength: 5 });

t.test('blocks that come again and again mean what they mean to a reader that keeps nothing', async (t) => {
  let kept = 0;
  const property = fc.property(pool, fc.array(fc.nat(4), { minLength: 4, maxLength: 24 }), (blocks, order) => {
    const stage = new Stage();
    const plain = newDecoder();
    let last: Head | string = '';
    for (const which of order) {
      const one = blocks[which % blocks.length] as string;
      const bytes = Buffer.from(one, 'hex');
      const wanted = plain.decode(bytes, 0, bytes.length);
      const read = stage.read(one);
      if (stage.decoder.generation !== plain.generation) throw new Error(`another generation after ${one}`);
      if (wanted.kind === 'malformed') {
        if (read !== 'undecodable') throw new Error(`${one} can be read`);
        return;
      }
      const fields = read instanceof Head ? read.fields : read;
      if (JSON.stringify(fields) !== JSON.stringify(wanted.kind === 'fields' ? wanted.fields : wanted.kind)) {
        throw new Error(`${one}: ${fields}`);
      }
      if (read instanceof Head && read === last) kept++;
      last = read;
    }
  });
  fc.assert(property, { numRuns: 3000 });
  t.ok(kept > 1000, `${kept} were given again`);
});
