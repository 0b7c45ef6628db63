import { PassThrough } from 'node:stream';
import t from 'tap';
import { HelloScan } from '../../../../lib/proxy/detect/client-hello.ts';
import { HttpScan } from '../../../../lib/proxy/detect/http-guess.ts';
import { type Peek, peek } from '../../../../lib/proxy/detect/peek.ts';
import { parseClientHello } from '../../../support/client-hello.ts';
import { latin1 } from '../../../support/raw-http.ts';

/*
 * Bytes that come one by one must not be read again and again: 8 KiB of them would be 33 million. The limits are a
 * hundred times what it takes, and a tenth of what it took.
 */

const size = 8_191;

/** A ClientHello with a name, in records of so many bytes. */
function hello(recordBytes: number): Buffer {
  const name = 'web.shop';
  const two = (n: number): string => String.fromCharCode(n >> 8, n & 255);
  const sni = `\0\0${two(name.length + 5)}${two(name.length + 3)}\0${two(name.length)}${name}`;
  const extensions = `${sni}\0\x15${two(1_000)}${'\0'.repeat(1_000)}`;
  const body = `\x03\x03${'r'.repeat(32)}\0\0\x02\x13\x01\x01\0${two(extensions.length)}${extensions}`;
  const message = `\x01\0${two(body.length)}${body}`;
  let records = '';
  for (let at = 0; at < message.length; at += recordBytes) {
    const fragment = message.slice(at, at + recordBytes);
    records += `\x16\x03\x01${two(fragment.length)}${fragment}`;
  }
  return latin1(records);
}

function milliseconds(run: () => void): number {
  const began = performance.now();
  run();
  return performance.now() - began;
}

t.test('a scan that is fed byte by byte says the same as a look at the whole', async (t) => {
  for (const recordBytes of [1, 2, 5, 7, 100, 5_000]) {
    const bytes = hello(recordBytes);
    const scan = new HelloScan();
    let last = scan.look(bytes.subarray(0, 1));
    let at = 1;
    while (last.kind === 'partial' && at < bytes.length) last = scan.look(bytes.subarray(0, ++at));
    t.same(last, parseClientHello(bytes), `records of ${recordBytes} bytes`);
    t.match(last, { kind: 'hello', hello: { serverName: 'web.shop' } });
  }
});

t.test('a hello in records of one byte', async (t) => {
  const bytes = hello(1);
  const took = milliseconds(() => {
    for (let round = 0; round < 50; round++) {
      const scan = new HelloScan();
      for (let at = 1; at <= bytes.length; at++) scan.look(bytes.subarray(0, at));
    }
  });
  t.ok(took < 2_000, `${Math.round(took)} ms for 50 of ${bytes.length} bytes`);
});

t.test('first lines that never end', async (t) => {
  for (const [name, text] of [
    ['a target', `GET /${'a'.repeat(size)}`],
    ['a method', 'A'.repeat(size)],
    ['blanks', ' '.repeat(size)],
    ['empty lines', '\r\n'.repeat(size / 2)],
    ['many words', 'a '.repeat(size / 2)],
  ] as const) {
    const bytes = latin1(text).subarray(0, size);
    const took = milliseconds(() => {
      for (let round = 0; round < 50; round++) {
        const scan = new HttpScan();
        for (let at = 1; at <= bytes.length; at++) scan.guess(bytes.subarray(0, at));
      }
    });
    t.ok(took < 3_000, `${name}: ${Math.round(took)} ms for 50`);
  }
});

t.test('what is read is kept without being copied each time', async (t) => {
  const stream = new PassThrough({ highWaterMark: 2 * size });
  const done = new Promise<Peek<true>>((resolve) => {
    const enough = (bytes: Buffer): true | undefined => (bytes.length === size ? true : undefined);
    peek({ socket: stream }, Buffer.alloc(0), 60_000, enough, resolve);
  });
  let copied = 0;
  const { copy } = Buffer.prototype;
  Buffer.prototype.copy = function (this: Buffer, ...args: Parameters<typeof copy>): number {
    copied += this.length;
    return copy.apply(this, args);
  };
  for (let at = 0; at < size; at++) {
    stream.emit('data', Buffer.of(at & 255));
  }
  Buffer.prototype.copy = copy;
  const { bytes } = await done;
  t.equal(bytes.length, size);
  t.ok(
    bytes.every((byte, at) => byte === (at & 255)),
    'in order',
  );
  t.ok(copied < 4 * size, `${copied} bytes copied`);
});
