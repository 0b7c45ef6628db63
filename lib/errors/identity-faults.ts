import { type FaultRow, faultsOf } from './fault-row.ts';

const fault = faultsOf('identity');

/** Certificate, key and trust anchors: the proxy does not start with them, or keeps the previous ones. */
export const identityFaults = {
  'identity-unreadable': fault(
    'A file of the identity cannot be read.',
    'Check the three variables, permissions, and that the volume is mounted.',
  ),
  'no-certificate': fault(
    'A file holds no certificate.',
    'Write PEM blocks that begin with -----BEGIN CERTIFICATE-----.',
  ),
  'bad-certificate': fault('A certificate cannot be parsed.', 'Write it whole, as PEM.'),
  'no-key': fault('A file holds no private key.', 'Write a PEM block that begins with -----BEGIN PRIVATE KEY-----.'),
  'encrypted-key': fault(
    'The private key is encrypted.',
    'Store it without a passphrase: openssl pkey -in FILE -out NEW.',
  ),
  'foreign-key': fault(
    'The private key is not the one of the certificate.',
    'Write key and certificate of one issuance together, our own certificate first.',
  ),
  'unusable-key': fault('TLS 1.3 cannot sign with the private key.', 'Use an ECDSA P-256 key and certificate.'),
  'certificate-expired': fault('The certificate has expired.', 'Issue a new one.'),
  'certificate-not-yet-valid': fault(
    'The certificate is not valid yet.',
    'Check the clocks of this machine and of the issuer.',
  ),
  'anchors-expired': fault('Every trust anchor has expired.', 'Replace the bundle with the current trust anchors.'),
  'no-chain': fault(
    'The chain of the certificate leads to none of the trust anchors.',
    'Append the intermediate certificates, or add the issuing root to the trust anchors.',
  ),
  'no-server-name': fault(
    'The certificate has no DNS name, so that no client could ask for it.',
    'Set SALLYPORT_IDENTITY_NAME, or issue the certificate with a DNS SAN.',
  ),
  'refused-by-openssl': fault('OpenSSL refuses certificate or key.', 'Use an ECDSA P-256 key and certificate.'),
  'certificate-expiring': fault(
    'Our certificate, or an intermediate of it, comes to its end; a warning.',
    'See why nobody has renewed it; the files are read again by themselves.',
  ),
  'anchor-expiring': fault(
    'A trust anchor comes to its end; a warning.',
    'Add its successor to the bundle, here and at every peer, before certificates are issued by it.',
  ),
  'anchor-expired': fault(
    'A trust anchor has expired, and clients whose certificates lead to it are refused; a warning.',
    'Take it out of the bundle once its successor is there.',
  ),
  'identity-stale': fault(
    'The identity on disk could not be used some time ago, and still cannot; the last good one stays in use.',
    'Fix what its faults name before the certificate in use expires.',
  ),
} as const satisfies Readonly<Record<string, FaultRow>>;
