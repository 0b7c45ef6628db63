import { createPrivateKey, X509Certificate } from 'node:crypto';
import t from 'tap';
import { throwawayCertificate } from '../../../../lib/proxy/tls/throwaway.ts';

t.test('a certificate that OpenSSL reads, signed by its own key, and another each time', async (t) => {
  const [one, two] = [throwawayCertificate(), throwawayCertificate()];
  const certificate = new X509Certificate(one.cert);
  t.ok(certificate.verify(certificate.publicKey), 'signed by itself');
  t.ok(certificate.checkPrivateKey(createPrivateKey(one.key)), 'with its key');
  t.same([certificate.subject, certificate.issuer, certificate.subjectAltName], [undefined, undefined, undefined]);
  t.ok(certificate.validFromDate < new Date() && certificate.validToDate.getUTCFullYear() === 9999);
  t.not(new X509Certificate(two.cert).serialNumber, certificate.serialNumber);
  t.not(one.key, two.key);
});
