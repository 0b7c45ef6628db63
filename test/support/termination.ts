import { X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { TlsTermination } from '../../lib/proxy/tls/termination.ts';
import type { TestCertificate } from './certificates.ts';

/** TLS that ends here, for one name, with anchors that never change. */
export function terminationOf(own: TestCertificate, name: string, timeoutMs?: number): TlsTermination {
  const credentials = {
    names: new Set([name]),
    secureContext: createSecureContext({
      cert: own.certificatePem,
      key: own.keyPem,
      ca: own.trustAnchorsPem,
      minVersion: 'TLSv1.3',
    }),
    anchors: { generation: 0, endOfChain: () => Number.POSITIVE_INFINITY },
    own: {
      names: [name],
      issuer: new X509Certificate(own.certificatePem).issuer,
      notAfter: new X509Certificate(own.certificatePem).validToDate,
      trusts: [new X509Certificate(own.trustAnchorsPem).subject],
      anchors: [],
    },
  } as const;
  return new TlsTermination(credentials, timeoutMs);
}
