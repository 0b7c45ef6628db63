import type { X509Certificate } from 'node:crypto';
import { keyIdsOfCertificate } from '../../certificate-names.ts';
import type { HandshakeFailure, HandshakeReason, OwnCertificate, ShownCertificate } from '../recorder.ts';
import type { Objection } from './shown-certificates.ts';

/** What handshakes are held against: our own certificate, at a moment by `Date.now()`. */
export interface HandshakeContext {
  readonly own: OwnCertificate;
  readonly clockMs: number;
}

type Cause = readonly [reason: HandshakeReason, detail: string];

/** What OpenSSL finds in a client's certificate (X509_verify_cert_error_string(3)); all else is `client_invalid`. */
const certificateCauses: ReadonlyMap<string, HandshakeReason> = new Map([
  ['UNABLE_TO_GET_ISSUER_CERT', 'unknown_issuer'],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'unknown_issuer'],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'unknown_issuer'],
  ['SELF_SIGNED_CERT_IN_CHAIN', 'unknown_issuer'],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'unknown_issuer'],
  // Another authority of the same name: a root that was made anew.
  ['CERT_SIGNATURE_FAILURE', 'unknown_issuer'],
  ['CERT_HAS_EXPIRED', 'client_expired'],
  ['CERT_NOT_YET_VALID', 'client_not_yet_valid'],
]);

const certificateTexts: Partial<Record<HandshakeReason, string>> = {
  unknown_issuer: "the client's certificate leads to none of our trust anchors",
  client_expired: "the client's certificate, or one of its issuers', has expired",
  client_not_yet_valid: "the client's certificate, or one of its issuers', is not valid yet",
};

/** The client has shown a certificate that does not verify. `fault`: Node's `authorizationError`. */
export function certificateFailure(
  certificate: X509Certificate,
  fault: string,
  context: HandshakeContext,
): HandshakeFailure {
  const reason = certificateCauses.get(fault) ?? 'client_invalid';
  const text = certificateTexts[reason] ?? "the client's certificate does not verify";
  return { reason, detail: `${text} (${fault})`, certificate: () => shown(certificate), ...context };
}

/** Alerts about the certificate that we have shown (RFC 8446 section 6.2), by number. */
const distrust: ReadonlySet<number> = new Set([42, 43, 44, 45, 46, 48, 49]);

/** Alert 70: our answer does not fit what it speaks. */
const protocolVersion = 70;

/** Errors of the handshake by Node's code; texts are ours, because OpenSSL's name its source lines. */
const errorCauses: ReadonlyMap<string, Cause> = new Map<string, Cause>([
  ['ERR_SSL_UNSUPPORTED_PROTOCOL', ['no_shared_version', 'the client does not offer TLS 1.3']],
  ['ERR_SSL_NO_SHARED_CIPHER', ['no_shared_cipher', 'the client offers none of our cipher suites']],
  ['ERR_SSL_NO_SUITABLE_KEY_SHARE', ['no_shared_group', 'the client offers none of our key exchanges']],
  ['ERR_SSL_NO_SUITABLE_GROUPS', ['no_shared_group', 'the client offers none of our key exchanges']],
  [
    'ERR_SSL_NO_SUITABLE_SIGNATURE_ALGORITHM',
    ['no_shared_signature', 'the client takes no signature that our key can make'],
  ],
  ['ERR_TLS_HANDSHAKE_TIMEOUT', ['timeout', 'the handshake took too long']],
]);

/** Records that are none, and messages that make no sense: OpenSSL has some fifty words for these. */
const malformed =
  /http.request|wrong.version|bad.record|bad.(packet|length|message|extension|hello)|unexpected|decode|decrypt|decryption|length|record|bad.mac|missing/i;

/** @param error of Node's `tlsClientError`. */
export function errorFailure(error: unknown, context: HandshakeContext): HandshakeFailure {
  return failure(causeOf(error), context);
}

/** The client is gone, and TLS says nothing of it. */
export function closedFailure(context: HandshakeContext): HandshakeFailure {
  return failure(['closed', 'the client closed the connection during the handshake'], context);
}

/** The client's certificates have not been read. */
export function objectionFailure({ reason, detail }: Objection, context: HandshakeContext): HandshakeFailure {
  return failure([reason, detail], context);
}

/** A fault of ours, which is reported as one. */
export function internalFailure(context: HandshakeContext): HandshakeFailure {
  return failure(['other', 'internal error'], context);
}

/** Who distrusts us, or goes away without a word, has a reason while our own certificate is out of date. */
function failure([reason, detail]: Cause, { own, clockMs }: HandshakeContext): HandshakeFailure {
  const refused = reason === 'client_distrusts_us' || reason === 'closed';
  const expired = refused && clockMs > own.notAfter.getTime();
  const cause: Cause = expired ? ['own_expired', `our own certificate has expired; ${detail}`] : [reason, detail];
  return { reason: cause[0], detail: cause[1], certificate: null, own, clockMs };
}

function causeOf(error: unknown): Cause {
  const { code = '', message = '', reason = '' } = error as { code?: string; message?: string; reason?: string };
  const known = errorCauses.get(code);
  if (known !== undefined) return known;
  // A connection that ends is told by a code of the system's.
  if (code === 'ECONNRESET' || code === 'EPIPE') {
    return ['closed', 'the client closed the connection during the handshake'];
  }
  const alert = /SSL alert number (\d+)/.exec(message)?.[1];
  if (alert !== undefined) return alertCause(Number(alert), reason);
  const text = reason === '' ? `${code || 'unknown'}` : `${reason} (${code})`;
  return [code.startsWith('ERR_SSL_') && malformed.test(code) ? 'malformed' : 'other', text];
}

function alertCause(number: number, reason: string): Cause {
  const name = reason.replace(/^.*?alert /, '');
  const text = `the client sent alert ${number} (${name})`;
  if (distrust.has(number)) return ['client_distrusts_us', text];
  return [number === protocolVersion ? 'no_shared_version' : 'client_alert', text];
}

function shown(certificate: X509Certificate): ShownCertificate {
  const { validFromDate, validToDate } = certificate;
  return {
    // Empty for workloads, which have names alone; Node then has undefined.
    subject: nameText(certificate.subject),
    names: certificate.subjectAltName ?? '',
    issuer: nameText(certificate.issuer),
    authority: authorityOf(certificate),
    notBefore: dateText(validFromDate, certificate.validFrom),
    notAfter: dateText(validToDate, certificate.validTo),
  };
}

/** Certificates of a chain that are looked at for a line. */
const longestChain = 8;

function authorityOf(leaf: X509Certificate): ShownCertificate['authority'] {
  let last = leaf;
  for (let i = 0; i < longestChain && last.issuerCertificate !== undefined; i++) {
    if (last.issuerCertificate === last || last.issuer === last.subject) break;
    last = last.issuerCertificate;
  }
  const { own, issuer } = keyIdsOfCertificate(last.raw);
  // Who signs itself need not say with which key.
  const isRoot = last.issuer === last.subject;
  return { name: nameText(last.issuer), keyId: issuer === '' && isRoot ? own : issuer };
}

/** A distinguished name of `X509Certificate`, which has each part in a line of its own, in one. */
function nameText(name: string | undefined): string {
  return (name ?? '').replaceAll('\n', ', ');
}

/** The client's text where it is no date. */
function dateText(date: Date, text: string): string {
  return Number.isNaN(date.getTime()) ? text : date.toISOString();
}
