import { type AddressInfo, createServer, type Socket } from 'node:net';
import tls from 'node:tls';
import t, { type Test } from 'tap';
import type { Handshake } from '../../../../lib/proxy/tls/handshake.ts';
import { testCertificate } from '../../../support/certificates.ts';
import { parseClientHello } from '../../../support/client-hello.ts';
import { der, extension, extensions, name as named } from '../../../support/crafted-certificate.ts';
import { curveKey, explicitCurveKey, oddCertificate } from '../../../support/odd-certificates.ts';
import fc from '../../../support/properties.ts';
import { certificateMessage, certificateVerify, ShowingClient } from '../../../support/showing-client.ts';
import { terminationOf } from '../../../support/termination.ts';
import { contentType } from '../../../support/tls-records.ts';
import { until } from '../../../support/until.ts';

/*
 * However a client's certificates come, they are looked at before OpenSSL has all of them; and whoever has ordinary ones is not kept.
 * A certificate with a curve of its own tells: OpenSSL would have another word for it.
 */

const name = 'web.shop';
const own = testCertificate({ dnsNames: [name] });

interface Stage {
  readonly port: number;
  /** How the next handshake ends: `established`, or why not. */
  next(): Promise<string>;
}

async function stage(t: Test): Promise<Stage> {
  const termination = terminationOf(own, name, 20_000);
  const ended: string[] = [];
  const sockets: Socket[] = [];
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.push(socket);
    socket.on('error', () => {});
    socket.once('data', (bytes: Buffer) => {
      const result = parseClientHello(bytes);
      if (result.kind !== 'hello') throw new Error('a whole hello was sent');
      socket.pause();
      const done = (handshake: Handshake): void => {
        if (handshake.kind === 'established') handshake.reads.release();
        else socket.destroy();
        ended.push(
          handshake.kind === 'failed' ? `${handshake.failure.reason}: ${handshake.failure.detail}` : 'established',
        );
      };
      termination.accept(socket, '127.0.0.1', bytes, result.hello, 'http/1.1', done);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  let taken = 0;
  return {
    port: (server.address() as AddressInfo).port,
    next: async () => {
      const index = taken++;
      await until('the end of a handshake', () => ended.length > index);
      return ended[index] as string;
    },
  };
}

const p256 = curveKey('P-256', false);
const names = { subject: named('a'), issuer: named('b') };
const costlyCertificate = oddCertificate({ ...names, own: explicitCurveKey(), by: p256, extensions: [] }, null);
const plainCertificate = oddCertificate({ ...names, own: p256, by: p256, extensions: [extensions.endEntity()] }, null);
const costly = Buffer.concat([
  certificateMessage([plainCertificate, costlyCertificate]),
  certificateVerify(p256.scheme, p256.signature()),
]);
const ownCurve = /^client_too_costly: certificate 2 of the client's has a key on a curve of its own$/;
/** OpenSSL has read them, and verified a signature that is none. */
const readByTls = /ERR_SSL_PROVIDER_SIGNATURE_FAILURE/;

const suites = ['TLS_AES_128_GCM_SHA256', 'TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256'];

t.test('ordinary clients, by every suite and after a second ClientHello', async (t) => {
  const { port, next } = await stage(t);
  const client = testCertificate({ dnsNames: ['orders.shop'] });
  const { certificatePem, keyPem: key, trustAnchorsPem } = client;
  const clients: readonly (readonly [string, tls.ConnectionOptions])[] = [
    ['with a certificate', { cert: certificatePem, key }],
    ['with its root', { cert: certificatePem + trustAnchorsPem, key }],
    ['without one', {}],
  ];
  for (const [title, options] of clients) {
    for (const ciphers of suites) {
      for (const ecdhCurve of ['X25519', 'P-521:P-256']) {
        const secure = tls.connect({
          port,
          servername: name,
          rejectUnauthorized: false,
          ciphers,
          ecdhCurve,
          ...options,
        });
        secure.on('error', () => {});
        t.equal(await next(), 'established', `${title}, ${ciphers}, ${ecdhCurve}`);
        secure.destroy();
      }
    }
  }
});

t.test('certificates in records of every length', async (t) => {
  const { port, next } = await stage(t);
  const rows: readonly (readonly [
    title: string,
    messages: Buffer,
    recordBytes: number,
    padding: number,
    wanted: RegExp,
  ])[] = [
    ['whole', costly, 16_384, 0, ownCurve],
    ['in two', costly, costly.length - 100, 0, ownCurve],
    ['in the most', costly, Math.ceil(costly.length / 60), 0, ownCurve],
    ['in too many', costly, 8, 0, /^client_too_costly: .*more than 64 records/],
    ['padded', costly, 500, 10_000, ownCurve],
    ['padded, and too much of it', costly, 100, 16_000, /^client_too_costly: .*too much beside them/],
    [
      'too long for what it says',
      Buffer.concat([Buffer.of(11, 1, 0, 0), costly]),
      16_384,
      0,
      /^client_too_costly: .*65536 bytes/,
    ],
    ['another message', Buffer.concat([Buffer.of(20, 0, 0, 4), Buffer.alloc(4)]), 16_384, 0, /^malformed: /],
    ['affordable', affordable(), 16_384, 0, readByTls],
    ['affordable, in many', affordable(), 20, 0, readByTls],
    ['affordable, and large', large(), 512, 0, readByTls],
  ];
  for (const [title, messages, recordBytes, padding, wanted] of rows) {
    const client = await ShowingClient.connect({ port, servername: name });
    client.raw.write(client.sealed(messages, recordBytes, padding));
    t.match(await next(), wanted, title);
    await client.closed;
  }
});

function affordable(): Buffer {
  return Buffer.concat([certificateMessage([plainCertificate]), certificateVerify(p256.scheme, p256.signature())]);
}

function large(): Buffer {
  const odd = { ...names, own: p256, by: p256, extensions: [extension('2a0305', der(0x04, Buffer.alloc(22_900)))] };
  const message = certificateMessage([oddCertificate(odd, null)]);
  return Buffer.concat([message, certificateVerify(p256.scheme, p256.signature())]);
}

const changeCipherSpec = Buffer.of(20, 3, 3, 0, 1, 1);
const warning = Buffer.of(1, 90);

t.test('certificates beside what is none', async (t) => {
  const { port, next } = await stage(t);
  const halves = (client: ShowingClient, between: Buffer): Buffer => {
    const [first, second] = [costly.subarray(0, 300), costly.subarray(300)];
    return Buffer.concat([client.sealed(first), between, client.sealed(second)]);
  };
  const junk = Buffer.concat([Buffer.of(23, 3, 3, 0, 40), Buffer.alloc(40, 1)]);
  const rows: readonly (readonly [title: string, sends: (client: ShowingClient) => Buffer, wanted: RegExp])[] = [
    ['behind a change of ciphers', (client) => Buffer.concat([changeCipherSpec, client.sealed(costly)]), ownCurve],
    ['around one', (client) => halves(client, changeCipherSpec), /^malformed: /],
    [
      'behind a warning',
      (client) => Buffer.concat([client.records.record(contentType.alert, warning), client.sealed(costly)]),
      ownCurve,
    ],
    ['behind junk', (client) => Buffer.concat([junk, client.sealed(costly)]), /^malformed: /],
    ['around junk', (client) => halves(client, junk), /^malformed: /],
    [
      'behind content',
      (client) => Buffer.concat([client.records.record(contentType.data, Buffer.of(1)), client.sealed(costly)]),
      /^malformed: /,
    ],
    [
      'behind a record without anything',
      (client) => Buffer.concat([client.records.record(0, Buffer.alloc(0)), client.sealed(costly)]),
      /^malformed: /,
    ],
    [
      'in the clear',
      () => Buffer.concat([Buffer.of(22, 3, 3, costly.length >> 8, costly.length & 255), costly]),
      /^malformed: .*ERR_SSL_/,
    ],
    [
      'behind changes of ciphers without end',
      (client) => Buffer.concat([...Array(80).fill(changeCipherSpec), client.sealed(costly)]),
      /^(malformed|other|client_too_costly): /,
    ],
  ];
  for (const [title, sends, wanted] of rows) {
    const client = await ShowingClient.connect({ port, servername: name });
    client.raw.write(sends(client));
    t.match(await next(), wanted, title);
    await client.closed;
  }
});

t.test('the header of their record in one piece with the ClientHello', async (t) => {
  const { port, next } = await stage(t);
  for (let length = 1; length <= 5; length++) {
    const recordBytes = costly.length + 17;
    const header = Buffer.of(23, 3, 3, recordBytes >> 8, recordBytes & 255);
    const client = await ShowingClient.connect({ port, servername: name, behindHello: header.subarray(0, length) });
    client.raw.write(client.sealed(costly).subarray(length));
    t.match(await next(), ownCurve, `${length} bytes of it`);
    await client.closed;
  }
});

t.test('in pieces of every length', async (t) => {
  const { port, next } = await stage(t);
  const cuts = fc.array(fc.integer({ min: 1, max: 900 }), { minLength: 1, maxLength: 6 });
  const search = fc.asyncProperty(cuts, fc.integer({ min: 40, max: 2000 }), async (lengths, recordBytes) => {
    const client = await ShowingClient.connect({ port, servername: name });
    const bytes = client.sealed(costly, recordBytes);
    let at = 0;
    for (const length of lengths) {
      client.raw.write(bytes.subarray(at, at + length));
      at += length;
      await new Promise((resolve) => setImmediate(resolve));
    }
    client.raw.write(bytes.subarray(at));
    const told = await next();
    if (!ownCurve.test(told)) throw new Error(told);
    await client.closed;
  });
  await fc.assert(search, { numRuns: 60 });
});

t.test('a client that is gone in the middle of them', async (t) => {
  const { port, next } = await stage(t);
  const client = await ShowingClient.connect({ port, servername: name });
  client.raw.end(client.sealed(costly.subarray(0, 400)));
  t.match(await next(), /^closed: /);
  await client.closed;
});
