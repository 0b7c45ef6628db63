import { constants, createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import tls from 'node:tls';
import { dnsNamesOfCertificate, keyIdsOfCertificate } from '../certificate-names.ts';
import { type Complaint, complaintText } from '../errors/complaint.ts';
import { chainEndsAt } from './chain-end.ts';
import type { Validity } from './expiry.ts';

/** What TLS is served with. Immutable; each good load publishes a new one, and open connections keep theirs. */
export interface Credentials {
  readonly secureContext: tls.SecureContext;
  /** SNI names for which TLS is terminated here: lower case, never empty. */
  readonly names: readonly string[];
  /** By their SHA-256: those that have not expired. */
  readonly anchorIds: readonly string[];
  /** As `chainEndsAt`, to one of them, as of now. */
  readonly endOfChain: (leaf: X509Certificate, intermediates: readonly X509Certificate[]) => number | null;
  readonly notAfter: Date;
  /** Of our certificate, its intermediates, and all anchors, expired ones included. */
  readonly validities: readonly Validity[];
  /** Of our certificate. */
  readonly issuer: string;
  /** The subjects of the anchors. */
  readonly trusts: readonly string[];
  /** As lines of the log tell them apart, in hexadecimal. */
  readonly anchors: readonly { readonly subject: string; readonly keyId: string; readonly sha256: string }[];
  /** 1 for the first load. */
  readonly generation: number;
}

/** Why credentials cannot be used: one line, naming the file and the remedy. */
export interface CredentialFault extends Complaint {
  readonly file: string;
}

export interface CredentialFiles {
  readonly certFile: string;
  readonly keyFile: string;
  readonly trustAnchorsFile: string;
}

/** The files' contents, read at one moment. */
export interface CredentialBytes {
  readonly cert: string;
  readonly key: string;
  readonly trustAnchors: string;
}

export interface LoadContext {
  /** Instead of the certificate's DNS SANs. */
  readonly names?: readonly string[] | undefined;
  readonly now: Date;
  readonly generation: number;
}

export type CredentialsResult =
  | { readonly kind: 'usable'; readonly credentials: Credentials }
  /** `validFrom`: where the certificate is not valid yet, when it will be. */
  | { readonly kind: 'faulty'; readonly faults: readonly CredentialFault[]; readonly validFrom: Date | null };

export function credentialFaultText(fault: CredentialFault): string {
  return `${fault.file}: ${complaintText(fault)}`;
}

/**
 * Verifies certificate, key and trust anchors together and makes the TLS context. They are usable only if all of it holds:
 * every PEM block parses, there is an anchor that is still valid, the key is the certificate's, the certificate is within
 * its validity, its chain leads to an anchor, and there is a name to recognise in SNI. Anything less lists its faults;
 * above all, no usable anchor never means "trust the system's".
 */
export function verifyCredentials(
  files: CredentialFiles,
  bytes: CredentialBytes,
  context: LoadContext,
): CredentialsResult {
  try {
    return verify(files, bytes, context);
  } catch (error) {
    // OpenSSL's own objections, such as a key of a kind or size it does not serve.
    const message = `refused by OpenSSL: ${oneLine((error as Error).message)}`;
    const hint = 'use an ECDSA P-256 key and certificate';
    return faulty([{ file: files.certFile, code: 'refused-by-openssl', message, hint }]);
  }
}

function faulty(faults: readonly CredentialFault[], validFrom: Date | null = null): CredentialsResult {
  return { kind: 'faulty', faults, validFrom };
}

function verify(files: CredentialFiles, bytes: CredentialBytes, context: LoadContext): CredentialsResult {
  const faults: CredentialFault[] = [];
  const chain = certificates(files.certFile, bytes.cert, 'a certificate', faults);
  const bundle = certificates(files.trustAnchorsFile, bytes.trustAnchors, 'trust anchors', faults);
  const key = privateKey(files.keyFile, bytes.key, faults);
  const anchors = bundle.filter((anchor) => context.now <= anchor.validToDate);
  if (bundle.length > 0 && anchors.length === 0) {
    faults.push({
      file: files.trustAnchorsFile,
      code: 'anchors-expired',
      message: `every trust anchor has expired, the last on ${day(latest(bundle))}`,
      hint: 'replace the bundle with the current trust anchors',
    });
  }

  const [leaf, ...intermediates] = chain;
  if (leaf === undefined) return faulty(faults);
  if (key !== null && !leaf.checkPrivateKey(key)) {
    faults.push({
      file: files.keyFile,
      code: 'foreign-key',
      message: `the private key is not the one of the certificate in ${files.certFile}`,
      hint: 'write key and certificate of one issuance together; the first certificate in the file must be our own',
    });
  }
  if (key !== null) faults.push(...keyFaults(files.keyFile, key));
  faults.push(...validityFaults(files.certFile, leaf, context.now));
  if (
    anchors.length > 0 &&
    !hasSoundIssuers(leaf, chainEndsAt(leaf, intermediates, anchors, context.now), context.now)
  ) {
    faults.push({
      file: files.certFile,
      code: 'no-chain',
      message: `the certificate's chain leads to none of the trust anchors in ${files.trustAnchorsFile} (issuer: ${oneLine(leaf.issuer)})`,
      hint: 'append the intermediate certificates to the file, or add the issuing root to the trust anchors',
    });
  }
  const names = [...new Set((context.names ?? dnsNamesOfCertificate(leaf.raw)).map((name) => name.toLowerCase()))];
  if (names.length === 0) {
    faults.push({
      file: files.certFile,
      code: 'no-server-name',
      message: 'the certificate has no DNS name, so no client could ask for it by SNI',
      hint: 'set SALLYPORT_IDENTITY_NAME, or issue the certificate with a DNS SAN',
    });
  }
  if (faults.length > 0 || key === null) {
    return faulty(faults, context.now < leaf.validFromDate ? leaf.validFromDate : null);
  }

  return {
    kind: 'usable',
    credentials: Object.freeze({
      secureContext: tls.createSecureContext(secureContextOptions(chain, key, anchors, context.now)),
      names: Object.freeze(names),
      anchorIds: Object.freeze(anchors.map(({ fingerprint256 }) => fingerprint256)),
      endOfChain: (certificate: X509Certificate, issuers: readonly X509Certificate[]) =>
        chainEndsAt(certificate, issuers, anchors, new Date()),
      notAfter: leaf.validToDate,
      validities: Object.freeze([
        validity('certificate', files.certFile, leaf),
        ...intermediates.map((each) => validity('intermediate', files.certFile, each)),
        ...bundle.map((each) => validity('trust anchor', files.trustAnchorsFile, each)),
      ]),
      issuer: oneLine(leaf.issuer),
      trusts: Object.freeze(anchors.map(({ subject }) => oneLine(subject))),
      anchors: Object.freeze(anchors.map(shownAnchor)),
      generation: context.generation,
    }),
  };
}

function shownAnchor({ subject, raw, fingerprint256 }: X509Certificate): Credentials['anchors'][number] {
  const sha256 = fingerprint256.replaceAll(':', '').toLowerCase();
  return { subject: oneLine(subject), keyId: keyIdsOfCertificate(raw).own, sha256 };
}

/**
 * As Linkerd's proxies speak: TLS 1.3 with its three suites. No session is ever resumable, because who a client is comes
 * from the certificate of this very connection, checked against the anchors of now (CVE-2025-23419, CVE-2025-68121):
 * SSL_OP_NO_TICKET leaves only sessions that the server would have to remember, and nothing of ours remembers any
 * (Node has no internal server cache; it would ask `resumeSession` listeners, of which there are none).
 */
function secureContextOptions(
  chain: readonly X509Certificate[],
  key: KeyObject,
  anchors: readonly X509Certificate[],
  now: Date,
): tls.SecureContextOptions {
  return {
    cert: sentChain(chain, anchors, now)
      .map((certificate) => certificate.toString())
      .join(''),
    key: key.export({ type: 'pkcs8', format: 'pem' }),
    ca: anchors.map((anchor) => anchor.toString()),
    // An issuer in the bundle is an anchor in its own right, as for Linkerd, even where its root is absent.
    allowPartialTrustChain: true,
    minVersion: 'TLSv1.3' as const,
    ciphers: 'TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256',
    ecdhCurve: 'X25519MLKEM768:X25519:P-256:P-384',
    secureOptions: constants.SSL_OP_NO_TICKET,
    honorCipherOrder: true,
    // A session that came back without one, if any did, would be an error in OpenSSL.
    sessionIdContext: 'sallyport',
  };
}

/**
 * What clients are sent. To a certificate that comes alone OpenSSL would look for the issuer among the anchors, verify the
 * signature and send both, in each handshake; here that is done once.
 */
function sentChain(
  chain: readonly X509Certificate[],
  anchors: readonly X509Certificate[],
  now: Date,
): readonly X509Certificate[] {
  const [leaf, ...intermediates] = chain;
  if (leaf === undefined || intermediates.length > 0) return chain;
  const issuers = anchors.filter(
    (anchor) =>
      anchor.fingerprint256 !== leaf.fingerprint256 &&
      now >= anchor.validFromDate &&
      leaf.checkIssued(anchor) &&
      leaf.verify(anchor.publicKey),
  );
  const [longest] = issuers.sort((one, other) => other.validToDate.getTime() - one.validToDate.getTime());
  return longest === undefined ? chain : [leaf, longest];
}

/** All certificates of a PEM file; text between the blocks is allowed, a broken block or none at all is a fault. */
function certificates(file: string, text: string, what: string, faults: CredentialFault[]): X509Certificate[] {
  const hint = 'the file must hold PEM blocks that begin with -----BEGIN CERTIFICATE-----';
  const blocks = text.match(/-----BEGIN CERTIFICATE-----[^-]*(?:-----END CERTIFICATE-----)?/g) ?? [];
  if (blocks.length === 0) {
    const message = text.trim() === '' ? 'the file is empty' : 'the file holds no PEM certificate';
    faults.push({ file, code: 'no-certificate', message: `${message} where ${what} should be`, hint });
    return [];
  }
  const parsed: X509Certificate[] = [];
  for (const [index, block] of blocks.entries()) {
    try {
      parsed.push(new X509Certificate(block));
    } catch {
      faults.push({
        file,
        code: 'bad-certificate',
        message: `certificate ${index + 1} of ${blocks.length} cannot be parsed`,
        hint: 'copy it again whole; openssl x509 -text -noout -in FILE shows what can be read',
      });
      return [];
    }
  }
  return parsed;
}

function privateKey(file: string, text: string, faults: CredentialFault[]): KeyObject | null {
  try {
    return createPrivateKey(text);
  } catch (error) {
    const encrypted = /ENCRYPTED/.test(text) || (error as { code?: unknown }).code === 'ERR_MISSING_PASSPHRASE';
    faults.push({
      file,
      code: encrypted ? 'encrypted-key' : 'no-key',
      message: encrypted ? 'the private key is encrypted' : 'the file holds no readable private key',
      hint: encrypted
        ? 'store it without a passphrase: openssl pkey -in FILE -out NEW'
        : 'the file must hold a PEM block that begins with -----BEGIN PRIVATE KEY-----',
    });
    return null;
  }
}

/** Keys with which TLS 1.3 can sign (RFC 8446 section 4.2.3, RFC 8734): with any other a handshake never succeeds. */
const signingKeys: ReadonlySet<string> = new Set(['rsa', 'rsa-pss', 'ed25519', 'ed448']);
const signingCurves: ReadonlySet<string> = new Set([
  'prime256v1',
  'secp384r1',
  'secp521r1',
  'brainpoolP256r1',
  'brainpoolP384r1',
  'brainpoolP512r1',
]);

function keyFaults(file: string, key: KeyObject): CredentialFault[] {
  const { asymmetricKeyType: type = 'unknown', asymmetricKeyDetails: details = {} } = key;
  const curve = details.namedCurve ?? '';
  if (signingKeys.has(type) || (type === 'ec' && signingCurves.has(curve))) return [];
  const what = type === 'ec' ? `on the curve ${curve || 'of its own parameters'}` : `of type ${type}`;
  const message = `the private key is ${what}, with which TLS 1.3 cannot sign`;
  return [{ file, code: 'unusable-key', message, hint: 'use an ECDSA P-256 key and certificate' }];
}

function validityFaults(file: string, leaf: X509Certificate, now: Date): CredentialFault[] {
  if (now > leaf.validToDate) {
    const message = `the certificate expired on ${day(leaf.validToDate)}`;
    return [{ file, code: 'certificate-expired', message, hint: 'issue a new one' }];
  }
  if (now < leaf.validFromDate) {
    const message = `the certificate is not valid before ${day(leaf.validFromDate)}, and now is ${day(now)}`;
    return [
      { file, code: 'certificate-not-yet-valid', message, hint: 'check the clocks of this machine and of the issuer' },
    ];
  }
  return [];
}

/** Where the leaf itself has expired, that is a fault of its own. */
function hasSoundIssuers(leaf: X509Certificate, endsAtMs: number | null, now: Date): boolean {
  return endsAtMs !== null && (now.getTime() <= endsAtMs || endsAtMs === leaf.validToDate.getTime());
}

function validity(kind: Validity['kind'], file: string, certificate: X509Certificate): Validity {
  const {
    subject,
    subjectAltName = '',
    fingerprint256: id,
    validFromDate: notBefore,
    validToDate: notAfter,
  } = certificate;
  return { kind, file, subject: oneLine(subject) || subjectAltName, id, notBefore, notAfter };
}

function latest(bundle: readonly X509Certificate[]): Date {
  return new Date(Math.max(...bundle.map((anchor) => anchor.validToDate.getTime())));
}

const day = (date: Date): string => date.toISOString().replace('.000Z', 'Z');
// Empty for a certificate without a name; Node then has undefined, whatever its types say.
const oneLine = (name: string | undefined): string => (name ?? '').replaceAll('\n', ', ');
