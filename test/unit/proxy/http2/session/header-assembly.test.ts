import t from 'tap';
import { HeaderAssembly } from '../../../../../lib/proxy/http2/session/header-assembly.ts';
import { errorCode, flag, frameType } from '../../../../../lib/proxy/http2/session/protocol.ts';

const { endHeaders, endStream, padded, priority } = flag;
const { noError, protocolError, frameSizeError, enhanceYourCalm } = errorCode;

function assembly(maxListBytes = 16_384): { readonly blocks: string[]; readonly parts: HeaderAssembly } {
  const blocks: string[] = [];
  const headerBlock = (id: number, bytes: Buffer, from: number, to: number, isEnd: boolean): number =>
    blocks.push(`${id}: ${bytes.subarray(from, to).toString('hex')}${isEnd ? ' end' : ''}`);
  return { blocks, parts: new HeaderAssembly({ headerBlock }, maxListBytes) };
}

/** One HEADERS of stream 3. */
const frames: readonly (readonly [name: string, flags: number, hex: string, fault: number, block: string | null])[] = [
  ['a whole block', endHeaders, 'aabb', noError, '3: aabb'],
  ['that ends its stream', endHeaders | endStream, 'aabb', noError, '3: aabb end'],
  ['an empty one', endHeaders, '', noError, '3: '],
  ['padded', endHeaders | padded, '02aabb0000', noError, '3: aabb'],
  ['nothing but padding', endHeaders | padded, '020000', noError, '3: '],
  ['padding that is longer than the rest', endHeaders | padded, '03aabb', protocolError, null],
  ['padding without its length', endHeaders | padded, '', frameSizeError, null],
  ['with a priority', endHeaders | priority, '0000000110aabb', noError, '3: aabb'],
  ['with half a priority', endHeaders | priority, '00000001', frameSizeError, null],
  ['that depends on itself', endHeaders | priority, '8000000310aabb', protocolError, null],
  ['padded, with a priority', endHeaders | padded | priority, '010000000110aabb00', noError, '3: aabb'],
  ['padding that reaches into the priority', endHeaders | padded | priority, '030000000110aa', frameSizeError, null],
];

t.test('HEADERS in one frame', async (t) => {
  for (const [name, flags, hex, fault, block] of frames) {
    const { blocks, parts } = assembly();
    const bytes = Buffer.from(`ff${hex}ff`, 'hex');
    t.equal(parts.headers(flags, 3, bytes, 1, bytes.length - 1), fault, name);
    t.same(blocks, block === null ? [] : [block], name);
    t.notOk(parts.awaitsRest, name);
  }
});

t.test('a block in pieces is put together of copies, and nothing comes between', async (t) => {
  const { blocks, parts } = assembly();
  const bytes = Buffer.from('aabbccdd', 'hex');
  t.ok(parts.admits(frameType.data, 5));
  t.notOk(parts.admits(frameType.continuation, 3), 'the rest of nothing');
  t.equal(parts.continuation(endHeaders, bytes, 0, 4), protocolError);
  t.equal(parts.headers(endStream, 3, bytes, 0, 1), noError);
  t.ok(parts.awaitsRest);
  for (const [type, id, may] of [
    [frameType.continuation, 3, true],
    [frameType.continuation, 5, false],
    [frameType.headers, 3, false],
    [frameType.ping, 0, false],
    [0xfa, 3, false],
  ] as const) {
    t.equal(parts.admits(type, id), may, `${type} on ${id}`);
  }
  t.equal(parts.continuation(0, bytes, 1, 3), noError);
  bytes.fill(0, 0, 3);
  t.same(blocks, []);
  t.equal(parts.continuation(endHeaders, bytes, 3, 4), noError);
  t.same(blocks, ['3: aabbccdd end']);
  t.notOk(parts.awaitsRest);
  t.ok(parts.admits(frameType.headers, 5));
});

t.test('a block has a bound, in bytes and in pieces', async (t) => {
  const kib = 1024;
  for (const [name, maxListBytes, piece, most] of [
    ['bytes', 16 * kib, 16 * kib, 8],
    ['bytes of a long list', 128 * kib, 16 * kib, 16],
    ['pieces', 16 * kib, 1, 64],
  ] as const) {
    const { parts } = assembly(maxListBytes);
    const bytes = Buffer.alloc(piece);
    parts.headers(0, 1, bytes, 0, piece);
    let pieces = 1;
    while (parts.continuation(0, bytes, 0, piece) === noError) pieces++;
    t.equal(pieces, most, name);
    t.equal(parts.continuation(0, bytes, 0, piece), enhanceYourCalm, name);
  }
});
