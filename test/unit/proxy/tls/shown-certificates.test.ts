import { generateKeyPairSync, type KeyObject, X509Certificate } from 'node:crypto';
import t from 'tap';
import { mostBytes, type Objection, objectionTo } from '../../../../lib/proxy/tls/shown-certificates.ts';
import { strangerCertificate, workloadCertificate } from '../../../support/certificates.ts';
import { bits, craft, der, extensions, name, oid } from '../../../support/crafted-certificate.ts';
import {
  curveKey,
  dsaKey,
  explicitCurveKey,
  longName,
  type OddKey,
  oddCertificate,
  oddExtensions,
  otherKey,
  rsaKey,
} from '../../../support/odd-certificates.ts';
import fc from '../../../support/properties.ts';
import { certificateMessage } from '../../../support/showing-client.ts';

/* What of a client's certificates OpenSSL is given to read. What the bounds come to in time is in test/fuzz/certificate-costs.test.ts. */

const p256 = curveKey('P-256', false);

function certificate(own: OddKey, more: readonly Buffer[] = [], subject = name('a')): Buffer {
  return oddCertificate({ subject, issuer: name('b'), own, by: p256, extensions: more }, null);
}

const objection = (...certificates: readonly Buffer[]): Objection | null =>
  objectionTo(certificateMessage(certificates).subarray(4));

const subjects = { subject: name('a'), issuer: name('b') };
const mlDsa87 = otherKey('ml-dsa-87');

const many = <T>(count: number, made: T): T[] => Array.from({ length: count }, () => made);

t.test('certificates that clients have', async (t) => {
  const workload = workloadCertificate('orders', 'shop');
  const pems = [workload.certificatePem, workload.trustAnchorsPem, strangerCertificate('a.b').certificatePem];
  const [leaf, root] = pems.map((pem) => new X509Certificate(pem).raw) as [Buffer, Buffer];
  const crafted = (key: KeyObject): Buffer => craft({ cn: 'a', key }).certificate.raw;
  const rsa = (modulusLength: number): OddKey => rsaKey(modulusLength, 17);
  const pss = generateKeyPairSync('rsa-pss', { modulusLength: 2048 });
  const pssKey = { ...p256, key: pss.publicKey.export({ type: 'spki', format: 'der' }) };
  const rows: readonly (readonly [title: string, ...certificates: readonly Buffer[]])[] = [
    ['none'],
    ...pems.map((pem, i) => [`number ${i}`, new X509Certificate(pem).raw] as const),
    ['leaf, three intermediates and a root', leaf, ...many(4, root)],
    ['by P-256', crafted(generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey)],
    ['without extensions', certificate(p256)],
    ...['P-384', 'P-521', 'brainpoolP256r1', 'brainpoolP384r1', 'brainpoolP512r1'].map(
      (curve) => [curve, certificate(curveKey(curve, false))] as const,
    ),
    ['four of P-384', ...many(4, certificate(curveKey('P-384', false)))],
    ['two of P-521', ...many(2, certificate(curveKey('P-521', false)))],
    ...[2048, 3072, 4096].map((size) => [`RSA ${size}`, ...many(5, certificate(rsa(size)))] as const),
    ['RSA with an exponent of 32 bits', certificate(rsaKey(2048, 32))],
    ['RSASSA-PSS', certificate(pssKey)],
    ...(['ed25519', 'ed448', 'ml-dsa-44', 'ml-dsa-65'] as const).map(
      (kind) => [kind, ...many(3, certificate(otherKey(kind)))] as const,
    ),
    [
      'three of ML-DSA-87',
      ...many(3, oddCertificate({ ...subjects, own: mlDsa87, by: mlDsa87, extensions: [] }, null)),
    ],
    ['three hundred names', certificate(p256, [oddExtensions.names('dns', 1200)])],
    [
      'eighty names under twenty constraints',
      certificate(p256, [oddExtensions.names('dns', 320), oddExtensions.constraints('dns', 120)]),
    ],
    ['an extension that nobody knows', certificate(p256, [extensions.unknown(true)])],
  ];
  for (const [title, ...certificates] of rows) t.equal(objection(...certificates), null, title);
});

t.test('what is too dear', async (t) => {
  const spki = (algorithm: Buffer, key: Buffer): OddKey => ({ ...p256, key: der(0x30, algorithm, bits(key)) });
  const rows: readonly (readonly [detail: RegExp, ...certificates: readonly Buffer[]])[] = [
    [/certificate has an RSA key of 4104 bits, 4096 at most/, certificate(rsaKey(4104, 17))],
    [/certificate 2 of the client's has an RSA key of 8192 bits/, certificate(p256), certificate(rsaKey(8192, 17))],
    [/an exponent of 40 bits, 33 at most/, certificate(rsaKey(2048, 40))],
    [/an exponent of 3064 bits, 33 at most/, certificate(rsaKey(3072, 3064))],
    [/a curve of its own/, certificate(explicitCurveKey())],
    [/a curve of its own/, certificate(spki(der(0x30, oid('2a8648ce3d0201'), der(0x05)), Buffer.of(4)))],
    [/a compressed key/, certificate(curveKey('P-256', true))],
    [/a curve that does not sign/, certificate(curveKey('P-224', false))],
    [/a curve that does not sign/, certificate(curveKey('sect571r1', true))],
    [/a kind that does not sign/, certificate(dsaKey(2048))],
    [/a kind that does not sign/, certificate(otherKey('slh-dsa-sha2-128f'))],
    [/work of 51 signatures or more, 48 at most \(keys 50/, ...many(5, certificate(curveKey('P-384', false)))],
    [/work of 66 signatures/, ...many(3, certificate(curveKey('P-521', false)))],
    [/of names/, certificate(p256, [oddExtensions.names('dns', 2000), oddExtensions.constraints('ip', 6000)])],
    [/of names/, certificate(p256, [oddExtensions.constraints('ip', 6000)], longName(3000, 'a'))],
    [
      /of names/,
      certificate(p256, [oddExtensions.names('dns', 2000)]),
      certificate(p256, [oddExtensions.constraints('ip', 6000)]),
    ],
    [/elements/, ...many(2, certificate(curveKey('P-521', false), [oddExtensions.names('dns', 6000)]))],
    [/elements/, certificate(curveKey('P-521', false), [oddExtensions.indefinite(23_000)])],
    [/more than 8 certificates/, ...many(9, certificate(p256))],
    [new RegExp(`bytes, ${mostBytes} at most`), ...many(2, certificate(p256, [oddExtensions.policies(12_500)]))],
  ];
  for (const [detail, ...certificates] of rows) {
    t.match(objection(...certificates), { reason: 'client_too_costly', detail }, String(detail));
  }
});

t.test('what is not DER, or no list of certificates', async (t) => {
  const whole = certificate(p256, [extensions.authority()]);
  const message = certificateMessage([whole]).subarray(4);
  const changed = (at: number, ...bytes: readonly number[]): Buffer => {
    const copy = Buffer.from(whole);
    copy.set(bytes, at);
    return copy;
  };
  const rows: readonly (readonly [title: string, message: Buffer])[] = [
    ['no bytes', Buffer.alloc(0)],
    ['half a length', Buffer.of(0, 0)],
    ['a list shorter than it says', Buffer.of(0, 0, 0, 1)],
    ['a list longer than it says', Buffer.of(0, 0, 0, 0, 0)],
    ['a context longer than the message', Buffer.of(255, 0, 0, 0)],
    ['an empty certificate', Buffer.of(0, 0, 0, 5, 0, 0, 0, 0, 0)],
    ['a certificate longer than the list', Buffer.of(0, 0, 0, 5, 0, 0, 9, 0, 0)],
    ['extensions longer than the list', Buffer.concat([message.subarray(0, -2), Buffer.of(0, 9)])],
    ...(
      [
        ['another tag', changed(0, 0x31)],
        ['an indefinite length', changed(1, 0x80)],
        ['a length of more digits than it takes', Buffer.concat([Buffer.of(0x30, 0x83, 0), whole.subarray(2)])],
        ['a certificate in which one is', der(0x30, whole)],
        ['bytes behind it', Buffer.concat([whole, Buffer.of(0)])],
        ['bytes within it', der(0x30, whole.subarray(4), Buffer.of(5, 0))],
      ] as const
    ).map(([title, bytes]) => [title, certificateMessage([bytes]).subarray(4)] as const),
  ];
  for (const [title, bytes] of rows) t.match(objectionTo(bytes), { reason: 'malformed' }, title);
  for (let length = 0; length < message.length; length++) {
    if (objectionTo(message.subarray(0, length)) === null) t.fail(`cut off at ${length}`);
  }
});

t.test('whatever the bytes are, there is an answer', async () => {
  const leaf = new X509Certificate(workloadCertificate('orders', 'shop').certificatePem).raw;
  const message = certificateMessage([leaf, certificate(rsaKey(2048, 17))]).subarray(4);
  const changes = fc.array(fc.tuple(fc.nat(message.length - 1), fc.nat(255)), { minLength: 1, maxLength: 4 });
  fc.assert(
    fc.property(changes, (each) => {
      const copy = Buffer.from(message);
      for (const [at, byte] of each) copy[at] = byte;
      objectionTo(copy);
    }),
  );
  const nested = Buffer.alloc(20_000, 0x30);
  objectionTo(certificateMessage([nested]).subarray(4));
});
