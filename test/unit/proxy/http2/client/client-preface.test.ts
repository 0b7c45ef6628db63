import t from 'tap';
import { ClientPreface } from '../../../../../lib/proxy/http2/client/client-preface.ts';

const whole = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';

const rows: readonly (readonly [name: string, chunks: readonly string[], taken: readonly number[]])[] = [
  ['at once', [whole], [24]],
  ['with what comes behind it', [`${whole}frame`, whole], [24, 0]],
  ['byte by byte', [...whole], [...whole].map(() => 1)],
  ['in two pieces, the second with more', [whole.slice(0, 20), `${whole.slice(20)}frame`], [20, 4]],
  ['nothing', [''], [0]],
  ['HTTP/1', ['GET / HTTP/1.1\r\n\r\n'], [-1]],
  ['another beginning', ['P', 'OST / HTTP/1.1\r\n\r\n'], [1, -1]],
  ['wrong in its last byte', [whole.slice(0, 23), '\r'], [23, -1]],
  ['without its second half', [`${whole.slice(0, 18)}\0\0\0\x04`], [-1]],
];

t.test("a client's preface is taken off what it sends", async (t) => {
  for (const [name, chunks, taken] of rows) {
    const preface = new ClientPreface();
    t.same(
      chunks.map((chunk) => preface.take(Buffer.from(chunk, 'latin1'))),
      taken,
      name,
    );
  }
});
