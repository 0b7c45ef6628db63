/** Kinds of keys and of their uses that a client's certificate may have: where Linkerd makes something else of them. */

import { generateKeyPairSync } from 'node:crypto';
import { type AddressInfo, createServer } from 'node:net';
import tls from 'node:tls';
import forge from 'node-forge';
import t from 'tap';
import type { Handshake } from '../../../../lib/proxy/tls/handshake.ts';
import { testCertificate } from '../../../support/certificates.ts';
import { parseClientHello } from '../../../support/client-hello.ts';
import { terminationOf } from '../../../support/termination.ts';
import { until } from '../../../support/until.ts';

const name = 'web.shop';
const own = testCertificate({ dnsNames: [name] });

interface Pair {
  readonly certificate: forge.pki.Certificate;
  readonly key: forge.pki.rsa.PrivateKey;
}

/** With an RSA key, signed by another of these or by itself. */
function rsaCertificate(commonName: string, extensions: object[], by?: Pair): Pair {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    privateKeyEncoding: { type: 'pkcs1', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  });
  const key = forge.pki.privateKeyFromPem(privateKey) as forge.pki.rsa.PrivateKey;
  const certificate = forge.pki.createCertificate();
  certificate.publicKey = forge.pki.publicKeyFromPem(publicKey);
  certificate.serialNumber = by === undefined ? '01' : '02';
  certificate.validity.notBefore = new Date(Date.now() - 60_000);
  certificate.validity.notAfter = new Date(Date.now() + 3_600_000);
  const subject = [{ name: 'commonName', value: commonName }];
  certificate.setSubject(subject);
  certificate.setIssuer(by === undefined ? subject : by.certificate.subject.attributes);
  certificate.setExtensions(extensions);
  certificate.sign(by?.key ?? key, forge.md.sha256.create());
  return { certificate, key };
}

const authority = rsaCertificate('RSA authority', [
  { name: 'basicConstraints', cA: true, critical: true },
  { name: 'keyUsage', keyCertSign: true, critical: true },
]);
const leaf = (keyUsage: object): Pair =>
  rsaCertificate(
    'client',
    [
      { name: 'keyUsage', critical: true, ...keyUsage },
      { name: 'extKeyUsage', clientAuth: true },
      { name: 'subjectAltName', altNames: [{ type: 2, value: 'a.b' }] },
    ],
    authority,
  );

t.test('keys of clients', async (t) => {
  const rows: readonly (readonly [title: string, keyUsage: object, outcome: object])[] = [
    // To Linkerd, which asks for ECDSA alone, the client has none to show, and is anonymous.
    ['RSA is an identity', { digitalSignature: true }, { kind: 'established', identity: { form: 'dns', name: 'a.b' } }],
    // Linkerd looks at the extended key usage alone.
    ['a key that may not sign is refused', { keyEncipherment: true }, { kind: 'failed' }],
  ];
  for (const [title, keyUsage, outcome] of rows) {
    const termination = terminationOf(
      { ...own, trustAnchorsPem: forge.pki.certificateToPem(authority.certificate) },
      name,
      60_000,
    );
    const ended: Handshake[] = [];
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      socket.on('error', () => {});
      socket.once('data', (bytes: Buffer) => {
        const read = parseClientHello(bytes);
        if (read.kind !== 'hello') throw new Error('a whole hello was sent');
        socket.pause();
        termination.accept(socket, '127.0.0.1', bytes, read.hello, 'http/1.1', (handshake) => ended.push(handshake));
      });
      t.teardown(() => socket.destroy());
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.teardown(() => void server.close());
    const { certificate, key } = leaf(keyUsage);
    const client = tls.connect({
      port: (server.address() as AddressInfo).port,
      host: '127.0.0.1',
      servername: name,
      ca: own.trustAnchorsPem,
      cert: forge.pki.certificateToPem(certificate),
      key: forge.pki.privateKeyToPem(key),
    });
    client.on('error', () => {});
    t.teardown(() => client.destroy());
    await until('the handshake', () => ended.length === 1);
    t.match(ended[0], outcome, title);
  }
});
