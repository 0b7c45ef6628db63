import { X509Certificate } from 'node:crypto';
import { type AddressInfo, connect as connectTcp } from 'node:net';
import tls, { type TLSSocket } from 'node:tls';
import t, { type Test } from 'tap';
import { certificateInSession, KnownCertificates } from '../../../../lib/proxy/tls/known-certificates.ts';
import { testCertificate, workloadCertificate } from '../../../support/certificates.ts';

const own = testCertificate({ dnsNames: ['web.shop'] });

/** Our side of a handshake that is over. */
async function secured(t: Test, client: tls.SecureContextOptions): Promise<TLSSocket> {
  const { certificatePem: cert, keyPem: key } = own;
  const { promise, resolve } = Promise.withResolvers<TLSSocket>();
  const options = { cert, key, requestCert: true, rejectUnauthorized: false, minVersion: 'TLSv1.3' } as const;
  const server = tls.createServer(options, resolve).listen(0, '127.0.0.1');
  await new Promise((done) => server.once('listening', done));
  const socket = connectTcp((server.address() as AddressInfo).port, '127.0.0.1');
  const secure = tls.connect({ socket, servername: 'web.shop', rejectUnauthorized: false, ...client });
  secure.on('error', () => {});
  t.teardown(() => {
    secure.destroy();
    server.close();
  });
  return promise;
}

t.test('the certificate that a session has is the one that Node has of it', async (t) => {
  const { certificatePem: cert, keyPem: key, trustAnchorsPem: ca } = workloadCertificate('orders', 'shop');
  const rows: readonly (readonly [string, tls.SecureContextOptions])[] = [
    ['a certificate', { cert, key }],
    ['with what issued it', { cert: `${cert}${ca}`, key }],
    ['none', {}],
  ];
  for (const [name, client] of rows) {
    const socket = await secured(t, client);
    const found = certificateInSession(socket.getSession());
    t.same(found, socket.getPeerX509Certificate()?.raw ?? null, name);
    t.equal(found === null, client.cert === undefined, name);
    socket.destroy();
  }
});

t.test('a session that is no such thing has none', async (t) => {
  const der = new X509Certificate(own.certificatePem).raw;
  const long = (tag: number, content: Buffer): Buffer =>
    Buffer.concat([Buffer.of(tag, 0x82, content.length >> 8, content.length & 0xff), content]);
  const version = Buffer.of(2, 1, 1);
  const whole = long(0x30, Buffer.concat([version, long(0xa3, der), Buffer.of(0xa4, 0)]));
  t.same(certificateInSession(whole), der);
  const rows: readonly (readonly [string, Buffer | undefined])[] = [
    ['nothing', undefined],
    ['no bytes', Buffer.alloc(0)],
    ['a length alone', Buffer.of(0x30)],
    ['an empty one', Buffer.of(0x30, 0)],
    ['not a sequence', Buffer.concat([Buffer.of(0x31), whole.subarray(1)])],
    ['an indefinite length', Buffer.concat([Buffer.of(0x30, 0x80), whole.subarray(4), Buffer.of(0, 0)])],
    ['a length of lengths', Buffer.concat([Buffer.of(0x30, 0x84, 0, 0), whole.subarray(2)])],
    ['more behind it', Buffer.concat([whole, Buffer.of(0)])],
    ['deeper', long(0x30, long(0x30, long(0xa3, der)))],
    ['longer than what it is in', long(0x30, Buffer.concat([version, Buffer.of(0xa3, 0x82, 0xff, 0xff), der]))],
  ];
  for (const [name, bytes] of rows) t.equal(certificateInSession(bytes), null, name);
  for (let length = 0; length < whole.length; length++) {
    if (certificateInSession(whole.subarray(0, length)) !== null) t.fail(`cut off at ${length}`);
  }
});

t.test('what is known is known by every byte, and what is too large, or too much, is not kept', async (t) => {
  const known = new KnownCertificates();
  const certificate = new X509Certificate(workloadCertificate('orders', 'shop').certificatePem);
  t.equal(known.find(null), null);
  t.equal(known.find(certificate.raw), null);
  const added = known.add(certificate);
  t.match(added, {
    identity: { name: /^orders\.shop\./ },
    expiresAtMs: certificate.validToDate.getTime(),
    chain: null,
  });
  t.equal(known.find(Buffer.from(certificate.raw)), added);
  for (let at = 0; at < certificate.raw.length; at++) {
    const other = Buffer.from(certificate.raw);
    other[at] = (other[at] ?? 0) ^ 1;
    if (known.find(other) !== null) t.fail(`another byte at ${at}`);
  }
  t.equal(known.find(certificate.raw.subarray(0, -1)), null);
  const named = (count: number): X509Certificate =>
    new X509Certificate(
      testCertificate({ dnsNames: Array.from({ length: count }, (_, i) => `name-${i}.of.a.workload.somewhere`) })
        .certificatePem,
    );
  const large = named(150);
  t.ok(large.raw.length > 4096);
  t.match(known.add(large).identity, { name: 'name-0.of.a.workload.somewhere' });
  t.equal(known.find(large.raw), null);
  for (let i = 0; i < 256; i++)
    known.add({ ...view(certificate), raw: Buffer.from(`another ${i}`) } as X509Certificate);
  t.equal(known.find(certificate.raw), null, 'the oldest make room');
});

function view({ validToDate }: X509Certificate): Pick<X509Certificate, 'validToDate'> {
  return { validToDate };
}
