import fc from 'fast-check';
import t from 'tap';
import { type Decoded, HpackDecoder } from '../../lib/proxy/http2/hpack/decoder.ts';
import { encodeFields } from '../../lib/proxy/http2/hpack/encoder.ts';
import { NodeDecoder, NodeEncoder, type NodeReading } from '../support/nghttp2.ts';
import { search, timeLimitMs } from './budget.ts';

/*
 * Whatever bytes come, our decoder stays within its bounds; what our encoder and nghttp2's write, it reads; and of
 * damaged blocks it makes what nghttp2 makes of them.
 */

t.setTimeout(timeLimitMs);

const tableBytes = 4096;
const listBytes = 2000;
const maxFields = 20;

const decode = (decoder: HpackDecoder, block: Buffer): Decoded => decoder.decode(block, 0, block.length);

const size = (fields: readonly string[]): number =>
  fields.reduce((sum, text) => sum + text.length, (fields.length / 2) * 32);

const text = (characters: string, maxLength: number): fc.Arbitrary<string> =>
  fc.string({ unit: fc.constantFrom(...characters), maxLength });

const codes = (from: number, to: number): string =>
  Array.from({ length: to - from + 1 }, (_, i) => String.fromCharCode(from + i)).join('');

const anyByte = codes(0, 255);
const visible = codes(0x21, 0x7e) + codes(0x80, 0xff);

/** Names that occur more than once, so that tables are of use, and others. */
const token = fc.oneof(
  fc.constantFrom('accept', 'cache-control', 'x-a', 'x-b', 'user-agent', 'server', 'cookie', 'authorization'),
  text('abcxyz-_019', 12).map((rest) => `x${rest}`),
);
const value = fc.oneof(fc.constantFrom('', '*/*', 'no-cache', 'a=b'), text(visible, 40), text('abc', 300));

const flat = (name: fc.Arbitrary<string>): fc.Arbitrary<string[]> =>
  fc.array(fc.tuple(name, value), { maxLength: 12 }).map((fields) => fields.flat());

/** Bytes that say more than random ones: whole fields, size updates, integers of every length, coded strings. */
const piece = fc.oneof(
  fc.uint8Array({ maxLength: 8 }),
  fc.constantFrom(0xbe, 0xbf, 0xc0, 0x82, 0x20).map((byte) => Uint8Array.of(byte)),
  fc
    .tuple(fc.constantFrom(0x1f, 0x3f, 0x7f, 0xff, 0x0f), fc.uint8Array({ maxLength: 6 }), fc.nat(255))
    .map(([first, middle, last]) => Uint8Array.of(first, ...middle.map((byte) => byte | 0x80), last)),
  fc
    .tuple(fc.constantFrom(0x44, 0x7e, 0x40, 0x04, 0x10), fc.uint8Array({ maxLength: 30 }), fc.boolean())
    .map(([first, bytes, coded]) => Uint8Array.of(first, bytes.length | (coded ? 0x80 : 0), ...bytes)),
  flat(token).map((fields) => new Uint8Array(encodeFields(fields))),
);
const wildBlock = fc.array(piece, { maxLength: 12 }).map((pieces) => Buffer.concat(pieces));

interface Edit {
  readonly at: number;
  readonly drop: number;
  readonly insert: Uint8Array;
}
const edit: fc.Arbitrary<Edit> = fc.record({
  at: fc.nat(0xffff),
  drop: fc.nat(2),
  insert: fc.oneof(fc.uint8Array({ maxLength: 2 }), piece),
});

function edited(block: Buffer, edits: readonly Edit[]): Buffer {
  let result = block;
  for (const { at, drop, insert } of edits) {
    const place = at % (result.length + 1);
    result = Buffer.concat([result.subarray(0, place), insert, result.subarray(place + drop)]);
  }
  return result;
}

const pseudo = [':method', 'GET', ':scheme', 'http', ':authority', 'web', ':path', '/'];
/** Each name once: Node's client refuses to repeat some. */
const requests = fc.array(
  fc
    .uniqueArray(fc.tuple(token, value), { maxLength: 12, selector: ([name]) => name })
    .map((fields) => [...pseudo, ...fields.flat()]),
  { minLength: 1, maxLength: 4 },
);

t.test('any bytes', async (t) => {
  let runs = 0;
  const found = await search(
    fc.property(fc.array(wildBlock, { maxLength: 6 }), (blocks) => {
      runs++;
      const bounded = new HpackDecoder(tableBytes, listBytes, maxFields);
      const wide = new HpackDecoder(tableBytes, 1_000_000, 1_000_000);
      for (const block of blocks) {
        const before = bounded.generation;
        const decoded = decode(bounded, block);
        const whole = decode(wide, block);
        if (bounded.generation !== wide.generation) throw new Error('the tables differ');
        if (whole.kind !== 'fields') {
          if (decoded.kind !== whole.kind) throw new Error(`${whole.kind}, and bounded ${decoded.kind}`);
          return;
        }
        const within = whole.fields.length / 2 <= maxFields && size(whole.fields) <= listBytes;
        const wanted = within ? whole : { kind: 'too-large' };
        if (JSON.stringify(decoded) !== JSON.stringify(wanted)) throw new Error(`${wanted.kind}: ${decoded.kind}`);
        if (bounded.generation !== before) continue;
        if (JSON.stringify(decode(bounded, block)) !== JSON.stringify(decoded)) throw new Error('other fields again');
      }
    }),
    0.25,
    () => runs > 10,
  );
  t.equal(found, null);
  t.ok(runs > 10, `${runs} runs`);
});

t.test('our own blocks', async (t) => {
  let runs = 0;
  const anyName = fc.oneof(token, text(anyByte, 150));
  const anyValue = fc.oneof(value, text(anyByte, 20_000));
  const found = await search(
    fc.property(fc.array(fc.tuple(anyName, anyValue), { maxLength: 12 }), (pairs) => {
      runs++;
      const fields = pairs.flat();
      const decoder = new HpackDecoder(tableBytes, 1_000_000, 1000);
      const decoded = decode(decoder, encodeFields(fields));
      if (decoder.generation !== 0) throw new Error('the table was touched');
      if (JSON.stringify(decoded) !== JSON.stringify({ kind: 'fields', fields })) throw new Error('other fields');
    }),
    0.15,
    () => runs > 10,
  );
  t.equal(found, null);
  t.ok(runs > 10, `${runs} runs`);
});

t.test("nghttp2's blocks", async (t) => {
  const peer = await NodeEncoder.open(t);
  let runs = 0;
  const found = await search(
    fc.asyncProperty(requests, fc.constantFrom(4096, 4096, 500, 0), async (lists, clientTable) => {
      runs++;
      const decoder = new HpackDecoder(tableBytes, 1_000_000, 1000);
      for (const [i, block] of (await peer.blocks(lists, clientTable)).entries()) {
        const wanted = JSON.stringify({ kind: 'fields', fields: lists[i] });
        const decoded = JSON.stringify(decode(decoder, block));
        if (decoded !== wanted) throw new Error(`block ${i}: ${decoded}`);
      }
    }),
    0.25,
    () => runs > 10,
  );
  t.equal(found, null);
  t.ok(runs > 10, `${runs} connections`);
});

const compressionError = 9;

/** Fields that nghttp2 hands on; others it drops after decoding, since HTTP does not allow them. */
function sound(fields: readonly string[]): string[] {
  const kept: string[] = [];
  for (let i = 0; i < fields.length; i += 2) {
    const [name, value] = [fields[i] as string, fields[i + 1] as string];
    if (!/^:?[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name)) continue;
    if (!/^(?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?$/.test(value)) continue;
    kept.push(name, value);
  }
  return kept;
}

/** Null when nghttp2 read these blocks as we do, as far as it shows. */
function difference(blocks: readonly Buffer[], theirs: NodeReading): string | null {
  const decoder = new HpackDecoder(tableBytes, 1_000_000, 1000);
  for (const [i, block] of blocks.entries()) {
    const decoded = decode(decoder, block);
    if (decoded.kind === 'malformed') {
      return theirs.goaway === compressionError ? null : `block ${i} malformed, for nghttp2 ${theirs.goaway}`;
    }
    const fields = theirs.fields[i] ?? null;
    if (fields === null || decoded.kind !== 'fields') continue;
    const [ours, other] = [JSON.stringify(sound(decoded.fields)), JSON.stringify(fields)];
    if (ours !== other) return `block ${i}: ${ours}, for nghttp2 ${other}`;
  }
  return theirs.goaway === compressionError ? 'sound, for nghttp2 malformed' : null;
}

t.test('damaged blocks', async (t) => {
  const encoder = await NodeEncoder.open(t);
  const decoder = await NodeDecoder.open(t);
  const kinds = { read: 0, malformed: 0, refused: 0 };
  const found = await search(
    fc.asyncProperty(
      requests,
      fc.array(fc.tuple(fc.nat(3), fc.array(edit, { minLength: 1, maxLength: 2 })), { maxLength: 2 }),
      async (lists, damages) => {
        const blocks = await encoder.blocks(lists);
        for (const [which, edits] of damages) {
          const i = which % blocks.length;
          blocks[i] = edited(blocks[i] as Buffer, edits);
        }
        const reading = await decoder.read(blocks);
        const seen = difference(blocks, reading);
        if (seen !== null) throw new Error(`${seen}\n${blocks.map((block) => block.toString('hex')).join('\n')}`);
        if (reading.goaway === compressionError) kinds.malformed++;
        else if (reading.fields.includes(null)) kinds.refused++;
        else kinds.read++;
      },
    ),
    0.35,
  );
  t.equal(found, null);
  // Each way it can go was seen.
  for (const [kind, runs] of Object.entries(kinds)) t.ok(runs > 0, `${kind}: ${runs}`);
});
