import type { ClientIdentity } from './client.ts';

/** The identity that a DNS name of a certificate gives, in lower case; null where it is none that a client can have. */
export function dnsIdentity(text: string): ClientIdentity | null {
  const name = text.toLowerCase();
  return isDnsName(name) ? { form: 'dns', name } : null;
}

/** The identity that a URI of a certificate gives; null for anything but a SPIFFE ID. */
export function spiffeIdentity(text: string): ClientIdentity | null {
  return isSpiffeId(text) ? { form: 'spiffe', name: text } : null;
}

/** The identity of a client whose certificate has this name and no other. */
export function identityOfName(text: string): ClientIdentity | null {
  return text.includes('://') ? spiffeIdentity(text) : dnsIdentity(text);
}

/**
 * A lower-case DNS name that can be an identity: no wildcard, no trailing dot, and no all-numeric final label, with which
 * it could be read as an IPv4 address (RFC 1123 section 2.1).
 */
function isDnsName(name: string): boolean {
  if (name.length > 253) return false;
  const labels = name.split('.');
  return labels.every((label) => dnsLabel.test(label)) && !/^[0-9]+$/.test(labels.at(-1) ?? '');
}
const dnsLabel = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;

/**
 * SPIFFE-ID section 2: at most 2048 bytes; a trust domain in lower case without user or port; path segments that are
 * neither empty nor dots, of unreserved characters only, so no escapes, query or fragment.
 */
function isSpiffeId(text: string): boolean {
  if (text.length > 2048) return false;
  const parts = /^spiffe:\/\/([a-z0-9._-]{1,255})((?:\/[A-Za-z0-9._-]+)*)$/.exec(text);
  return parts !== null && !(parts[2] ?? '').split('/').some((segment) => segment === '.' || segment === '..');
}
