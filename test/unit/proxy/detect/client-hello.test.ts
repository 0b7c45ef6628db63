import type { AddressInfo } from 'node:net';
import net from 'node:net';
import tls from 'node:tls';
import t, { type Test } from 'tap';
import { type HelloResult, maxHelloBytes } from '../../../../lib/proxy/detect/client-hello.ts';
import { parseClientHello } from '../../../support/client-hello.ts';
import fc from '../../../support/properties.ts';

const u8 = (value: number): Buffer => Buffer.from([value]);
const u16 = (value: number): Buffer => Buffer.from([value >> 8, value & 255]);
const u24 = (value: number): Buffer => Buffer.from([value >> 16, (value >> 8) & 255, value & 255]);
const prefixed = (size: (value: number) => Buffer, ...parts: readonly Buffer[]): Buffer => {
  const body = Buffer.concat(parts);
  return Buffer.concat([size(body.length), body]);
};
const extension = (type: number, data: Buffer): Buffer => Buffer.concat([u16(type), prefixed(u16, data)]);
const sni = (name: string, nameType = 0): Buffer =>
  extension(0, prefixed(u16, u8(nameType), prefixed(u16, Buffer.from(name, 'latin1'))));
const alpn = (...names: readonly string[]): Buffer =>
  extension(16, prefixed(u16, ...names.map((name) => prefixed(u8, Buffer.from(name)))));
const grease = extension(0x5a5a, Buffer.from([0]));

/** A handshake message. `tail` is what follows the compression methods. */
function message(tail: Buffer, type = 1): Buffer {
  const body = Buffer.concat([
    u16(0x0303),
    Buffer.alloc(32, 7),
    prefixed(u8, Buffer.alloc(32, 9)),
    prefixed(u16, u16(0x1a1a), u16(0x1301)),
    prefixed(u8, u8(0)),
    tail,
  ]);
  return Buffer.concat([u8(type), prefixed(u24, body)]);
}
const hello = (...extensions: readonly Buffer[]): Buffer => message(prefixed(u16, ...extensions));

/** The message in records of at most `size` bytes. */
function records(bytes: Buffer, size = 16384, version = 0x0301): Buffer {
  const list: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += size) {
    list.push(u8(22), u16(version), prefixed(u16, bytes.subarray(at, at + size)));
  }
  return Buffer.concat(list);
}

const named = (serverName: string | null, ...protocols: readonly string[]): HelloResult => ({
  kind: 'hello',
  hello: { serverName, alpn: protocols },
});
const notTls: HelloResult = { kind: 'not-tls' };
const partial: HelloResult = { kind: 'partial' };

const usual = hello(grease, sni('Web.Example'), alpn('h2', 'http/1.1'));
/** A whole hello whose record is exactly so long. */
const sized = (total: number): Buffer => {
  const base = records(hello(sni('a.example'), extension(21, Buffer.alloc(0)))).length;
  return records(hello(sni('a.example'), extension(21, Buffer.alloc(total - base))));
};
const withByte = (bytes: Buffer, at: number, value: number): Buffer => {
  const copy = Buffer.from(bytes);
  copy[at] = value;
  return copy;
};

const rows: readonly (readonly [name: string, bytes: Buffer, result: HelloResult])[] = [
  ['nothing', Buffer.alloc(0), partial],
  ['HTTP', Buffer.from('GET / HTTP/1.1\r\n'), notTls],
  ['one byte', u8(22), partial],
  ['a name and two protocols, after GREASE', records(usual), named('web.example', 'h2', 'http/1.1')],
  ['TLS 1.3 record version', records(usual, 16384, 0x0303), named('web.example', 'h2', 'http/1.1')],
  [
    'bytes behind it',
    Buffer.concat([records(usual), Buffer.from('early data')]),
    named('web.example', 'h2', 'http/1.1'),
  ],
  ['split over records', records(usual, 50), named('web.example', 'h2', 'http/1.1')],
  ['one byte a record', records(usual, 1), named('web.example', 'h2', 'http/1.1')],
  [
    'a length split over records',
    Buffer.concat([records(usual.subarray(0, 2)), records(usual.subarray(2))]),
    named('web.example', 'h2', 'http/1.1'),
  ],
  ['no extensions', records(message(Buffer.alloc(0))), named(null)],
  ['an empty list of extensions', records(hello()), named(null)],
  ['no name', records(hello(alpn('h2'))), named(null, 'h2')],
  ['no protocols', records(hello(sni('a.example'))), named('a.example')],
  [
    'many protocols',
    records(hello(alpn('\x5a\x5a', 'h3', 'h2', 'http/1.1', 'acme-tls/1'))),
    named(null, '\x5a\x5a'.replace(/\x5a\x5a/, 'ZZ'), 'h3', 'h2', 'http/1.1', 'acme-tls/1'),
  ],
  ['a name of another type', records(hello(sni('a.example', 1))), named(null)],
  ['a name with a zero byte', records(hello(sni('a\0.example'))), named(null)],
  ['a name with a line feed', records(hello(sni('a\n.example'))), named(null)],
  ['an empty name', records(hello(sni(''))), named(null)],
  ['a name that is too long', records(hello(sni('a'.repeat(300)))), named(null)],
  [
    'a name longer than its extension',
    records(hello(extension(0, Buffer.concat([u16(20), u8(0), u16(17), Buffer.from('a.exam')])))),
    named(null),
  ],
  ['another handshake message', records(message(prefixed(u16, sni('a.example')), 2)), notTls],
  ['another record type', withByte(records(usual), 0, 23), notTls],
  ['another record type in the middle', withByte(records(usual, 50), 55, 21), notTls],
  ['SSL 3.0', records(usual, 16384, 0x0300), notTls],
  ['no TLS version', records(usual, 16384, 0x0401), notTls],
  ['an empty record', Buffer.concat([u8(22), u16(0x0301), u16(0)]), notTls],
  ['a record that is too long', Buffer.concat([u8(22), u16(0x0301), u16(16385)]), notTls],
  ['a message that is too long', records(Buffer.concat([u8(1), u24(9000)])), notTls],
  ['a session id beyond the end', records(message(Buffer.alloc(0)).subarray(0, 39).fill(255, 38)), partial],
  ['extensions beyond the end', records(message(u16(99))), notTls],
  ['an extension beyond the end', records(message(prefixed(u16, u16(0), u16(200), Buffer.from('abc')))), notTls],
  [
    'compression methods beyond the end',
    records(
      Buffer.concat([
        u8(1),
        prefixed(u24, u16(0x0303), Buffer.alloc(32), u8(0), prefixed(u16, u16(0x1301)), u8(9), u8(0)),
      ]),
    ),
    notTls,
  ],
  ['as long as can be', sized(maxHelloBytes), named('a.example')],
  ['a byte longer', sized(maxHelloBytes + 1), notTls],
];

t.test('first bytes', async (t) => {
  for (const [name, bytes, result] of rows) t.same(parseClientHello(bytes), result, name);
});

function cutAnswer(bytes: Buffer, step: number): HelloResult {
  for (let end = step; end < bytes.length; end += step) {
    const result = parseClientHello(bytes.subarray(0, end));
    if (result.kind !== 'partial') return result;
  }
  return parseClientHello(bytes);
}

t.test('the answer does not depend on the packets', async (t) => {
  for (const [name, bytes, result] of rows) {
    t.same(cutAnswer(bytes, 1), result, `${name}, byte by byte`);
    t.same(cutAnswer(bytes, maxHelloBytes), result, `${name}, cut at the limit`);
  }
  const damage = fc.array(fc.record({ at: fc.nat(250), value: fc.nat(255) }), { maxLength: 3 });
  fc.assert(
    fc.property(damage, fc.integer({ min: 1, max: 300 }), (changes, size) => {
      const bytes = records(usual, size);
      for (const { at, value } of changes) bytes[at % bytes.length] = value;
      t.same(cutAnswer(bytes, 1), parseClientHello(bytes));
      const result = parseClientHello(bytes);
      return (
        result.kind !== 'hello' || result.hello.serverName === null || /^[a-z0-9_.-]+$/.test(result.hello.serverName)
      );
    }),
    { numRuns: 300 },
  );
});

/** What a real client sends first. */
async function realHello(t: Test, options: tls.ConnectionOptions): Promise<Buffer> {
  const server = net.createServer();
  t.teardown(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const first = new Promise<Buffer>((resolve) =>
    server.once('connection', (socket) => socket.once('data', (chunk: Buffer) => resolve(chunk))),
  );
  const client = tls.connect({ host: '127.0.0.1', port: (server.address() as AddressInfo).port, ...options });
  // It is never answered.
  client.on('error', () => {});
  const bytes = await first;
  client.destroy();
  return bytes;
}

t.test('a real client', async (t) => {
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    const bytes = await realHello(t, {
      servername: 'web.shop.example',
      ALPNProtocols: ['h2', 'http/1.1'],
      minVersion: version,
      maxVersion: version,
    });
    t.same(parseClientHello(bytes), named('web.shop.example', 'h2', 'http/1.1'), version);
  }
});
