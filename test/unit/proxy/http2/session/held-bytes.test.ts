import t from 'tap';
import { HeldBytes } from '../../../../../lib/proxy/http2/session/held-bytes.ts';
import fc from '../../../../support/properties.ts';

const piece = fc.oneof(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: 9000 }));

t.test('what goes in comes out, in order, wherever it is stopped', async () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(piece, fc.boolean(), piece), { maxLength: 60 }), (steps) => {
      const held = new HeldBytes();
      let next = 0;
      const taken: number[] = [];
      for (const [length, drains, most] of steps) {
        const bytes = Buffer.from(Array.from({ length }, () => next++ % 251));
        held.push(Buffer.concat([Buffer.of(7), bytes, Buffer.of(7)]), 1, 1 + length);
        if (!drains) continue;
        let left = most;
        const isEmpty = held.drain((block, from, to) => {
          const step = Math.min(left, to - from);
          left -= step;
          taken.push(...block.subarray(from, from + step));
          return from + step;
        });
        if (isEmpty !== held.isEmpty || isEmpty !== (taken.length === next)) return false;
      }
      for (const block of held.takeAll()) taken.push(...block);
      return held.isEmpty && taken.length === next && taken.every((byte, i) => byte === i % 251);
    }),
  );
});

t.test('a peer that sends one byte at a time costs little more than the bytes', async (t) => {
  const held = new HeldBytes();
  const byte = Buffer.of(1);
  for (let i = 0; i < 100_000; i++) held.push(byte, 0, 1);
  const blocks = held.takeAll();
  t.equal(
    blocks.reduce((sum, { length }) => sum + length, 0),
    100_000,
  );
  t.ok(blocks.length < 30, `${blocks.length} blocks`);
});
