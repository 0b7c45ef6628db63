import { X509Certificate } from 'node:crypto';
import type { ConnectionOptions } from 'node:tls';
import { type Authority, type CertificateRequest, createAuthority, issueCertificate } from '../../certs/authority.ts';

/** A certificate with all that its holder needs to speak TLS. */
export interface TestCertificate {
  readonly certificatePem: string;
  readonly keyPem: string;
  /** The leaf's DER, as `identityFromCertificate` takes it. */
  readonly der: Buffer;
  /** The authority that signed it. */
  readonly trustAnchorsPem: string;
}

let cached: Authority | undefined;

/** One authority for each test process. */
export function testAuthority(): Authority {
  cached ??= createAuthority({ commonName: 'Sallyport test authority', days: 30 });
  return cached;
}

/** Issues for a day from the process's authority unless the request or `authority` says otherwise. */
export function testCertificate(request: Partial<CertificateRequest>, authority = testAuthority()): TestCertificate {
  const { certificatePem, keyPem } = issueCertificate(authority, { days: 1, ...request });
  return {
    certificatePem,
    keyPem,
    der: Buffer.from(new X509Certificate(certificatePem).raw),
    trustAnchorsPem: authority.certificatePem,
  };
}

/** The name that Linkerd gives a ServiceAccount in a cluster with default settings. */
export function workloadName(serviceAccount: string, namespace: string): string {
  return `${serviceAccount}.${namespace}.serviceaccount.identity.linkerd.cluster.local`;
}

/** A mesh workload's certificate: the DNS name of its ServiceAccount as the only SAN. */
export function workloadCertificate(serviceAccount: string, namespace: string): TestCertificate {
  return testCertificate({ dnsNames: [workloadName(serviceAccount, namespace)] });
}

/** A certificate whose only name is a SPIFFE ID. */
export function spiffeCertificate(spiffeId: string): TestCertificate {
  return testCertificate({ spiffeIds: [spiffeId] });
}

/** Issued by an authority that nobody trusts. */
export function strangerCertificate(dnsName: string): TestCertificate {
  return testCertificate({ dnsNames: [dnsName] }, createAuthority({ commonName: 'Nobody you know', days: 30 }));
}

/** What a client of the mesh says in TLS to the workload of that name; it believes whatever certificate it is shown. */
export function meshClient(servername: string, own: TestCertificate): ConnectionOptions {
  const { certificatePem: cert, keyPem: key, trustAnchorsPem: ca } = own;
  return { servername, cert, key, ca, checkServerIdentity: () => undefined };
}
