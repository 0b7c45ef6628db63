import t from 'tap';
import { RecordEnds } from '../../../../lib/proxy/tls/record-ends.ts';
import fc from '../../../support/properties.ts';

function record(length: number): Buffer {
  const bytes = Buffer.alloc(5 + length, 23);
  bytes.writeUInt16BE(length, 3);
  return bytes;
}

/** Where the pieces end of bytes that come in reads of these lengths. */
function ends(bytes: Buffer, reads: readonly number[], most: number): number[] {
  const found: number[] = [];
  const records = new RecordEnds();
  for (let from = 0, i = 0; from < bytes.length; i++) {
    const read = bytes.subarray(from, from + (reads[i % reads.length] ?? 1));
    for (let at = 0; at < read.length; ) {
      const end = records.pieceEnd(read, at, most);
      if (end <= at || end > read.length) throw new Error(`from ${at} to ${end} of ${read.length}`);
      found.push(from + end);
      at = end;
    }
    from += read.length;
  }
  return found;
}

t.test('a piece has no more ends of records than it may have, wherever reads begin', async () => {
  const lengths = fc.array(fc.oneof(fc.integer({ min: 0, max: 30 }), fc.integer({ min: 0, max: 20_000 })), {
    minLength: 1,
    maxLength: 60,
  });
  const reads = fc.array(fc.oneof(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 70_000 })), {
    minLength: 1,
  });
  fc.assert(
    fc.property(lengths, reads, fc.integer({ min: 1, max: 8 }), (each, cuts, most) => {
      const records = each.map(record);
      const bytes = Buffer.concat(records);
      const recordEnds = new Set<number>();
      let at = 0;
      for (const { length } of records) {
        at += length;
        recordEnds.add(at);
      }
      const readEnds = new Set<number>();
      for (let from = 0, i = 0; from < bytes.length; i++) {
        from = Math.min(bytes.length, from + (cuts[i % cuts.length] ?? 1));
        readEnds.add(from);
      }
      let from = 0;
      for (const end of ends(bytes, cuts, most)) {
        const within = [...recordEnds].filter((each) => each > from && each <= end).length;
        if (within > most) return false;
        // What is cut for another reason than a read that ends has as many as it may have.
        if (!readEnds.has(end) && (within !== most || !recordEnds.has(end))) return false;
        from = end;
      }
      return from === bytes.length;
    }),
  );
});
