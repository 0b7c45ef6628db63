import forge from 'node-forge';
import type { ClientIdentity } from './client.ts';
import { dnsIdentity, spiffeIdentity } from './identity-name.ts';

/**
 * Names out of X.509 certificates, read from the signed bytes. Node's display text (`subjectaltname: 'DNS:a, DNS:b'`)
 * is never used: a comma or a NUL inside one name forges a second one there (CVE-2021-44532).
 */

const oid = {
  basicConstraints: '2.5.29.19',
  subjectAltName: '2.5.29.17',
  extendedKeyUsage: '2.5.29.37',
  subjectKeyIdentifier: '2.5.29.14',
  authorityKeyIdentifier: '2.5.29.35',
  clientAuth: '1.3.6.1.5.5.7.3.2',
} as const;

/** GeneralName's context tags (RFC 5280 section 4.2.1.6). */
const generalName = { rfc822: 1, dns: 2, directory: 4, uri: 6, ip: 7, registeredId: 8 } as const;

const { Class, Type } = forge.asn1;

/** Thrown inside this file only: whatever reads a certificate turns it into "no name". */
class UnusableCertificate extends Error {}

interface SubjectAltName {
  readonly kind: 'dns' | 'uri';
  /** Visible ASCII without commas, as it stands in the certificate. */
  readonly text: string;
}

/**
 * The identity of a client whose certificate chain TLS has already verified: its first SAN that is a usable DNS name or
 * SPIFFE ID, as Linkerd takes it. The subject's CN never counts; IP and e-mail SANs are passed over.
 *
 * Null, which satisfies no identity rule, for everything in doubt: no SAN or none usable; a SAN holding NUL, control
 * characters, white space or a comma; more than one URI (X.509-SVID section 2 allows one); a URI that is no SPIFFE ID, or a
 * malformed one, before any usable name; an extendedKeyUsage without clientAuth; a CA's own certificate; a repeated or malformed extension; bytes that are not DER.
 */
export function identityFromCertificate(der: Buffer): ClientIdentity | null {
  return orElse(null, () => {
    const extensions = extensionsOf(der);
    if (isAuthority(extensions) || !mayAuthenticateClients(extensions)) return null;
    const names = subjectAltNames(extensions);
    if (names.filter((name) => name.kind === 'uri').length > 1) return null;
    for (const { kind, text } of names) {
      // To Linkerd a URI is the identity, whatever its scheme, and one that no policy can name unless it is a SPIFFE ID: falling
      // through to the next name would give its bearer another one.
      if (kind === 'uri') return spiffeIdentity(text);
      const identity = dnsIdentity(text);
      if (identity !== null) return identity;
    }
    return null;
  });
}

/**
 * The DNS names of our own certificate, in lower case and each once: the SNI names for which TLS is terminated here
 * unless configuration names them. Empty, so that nothing is terminated, when there are none or the certificate is in doubt.
 */
export function dnsNamesOfCertificate(der: Buffer): readonly string[] {
  return orElse([], () => {
    const names = subjectAltNames(extensionsOf(der))
      .filter(({ kind }) => kind === 'dns')
      .flatMap(({ text }) => dnsIdentity(text)?.name ?? []);
    return [...new Set(names)];
  });
}

/** Which key a certificate holds, and which has signed it, in hexadecimal; empty where it does not say. */
export interface KeyIds {
  readonly own: string;
  readonly issuer: string;
}

/** Bytes of a certificate that is looked into for nothing but a line of the log. */
const longestShown = 8192;

/** To tell authorities of one name apart (RFC 5280 sections 4.2.1.1 and 4.2.1.2). Nobody is let in by them. */
export function keyIdsOfCertificate(der: Buffer): KeyIds {
  return orElse({ own: '', issuer: '' }, () => {
    if (der.length > longestShown) throw new UnusableCertificate('too long for a line');
    const extensions = extensionsOf(der);
    const own = extensions.get(oid.subjectKeyIdentifier);
    const issuer = extensions.get(oid.authorityKeyIdentifier);
    // AuthorityKeyIdentifier ::= SEQUENCE { keyIdentifier [0] IMPLICIT OCTET STRING OPTIONAL, … }
    const ofIssuer = issuer === undefined ? [] : childrenOf(parse(issuer), Type.SEQUENCE);
    const named = ofIssuer.find((field) => field.tagClass === Class.CONTEXT_SPECIFIC && (field.type as number) === 0);
    return {
      own: own === undefined ? '' : textOf(parse(own), Type.OCTETSTRING, hexadecimal),
      issuer: typeof named?.value === 'string' ? hexadecimal(named.value) : '',
    };
  });
}

/** A leaf that could also sign others is no workload's certificate; webpki, and so Linkerd, refuses it as an end entity. */
function isAuthority(extensions: ReadonlyMap<string, Buffer>): boolean {
  const value = extensions.get(oid.basicConstraints);
  if (value === undefined) return false;
  const [first] = childrenOf(parse(value), Type.SEQUENCE);
  return first !== undefined && isUniversal(first, Type.BOOLEAN) && first.value !== '\0';
}

/** Without the extension any use is allowed (RFC 5280 section 4.2.1.12). With it, clientAuth itself must be listed. */
function mayAuthenticateClients(extensions: ReadonlyMap<string, Buffer>): boolean {
  const value = extensions.get(oid.extendedKeyUsage);
  if (value === undefined) return true;
  return childrenOf(parse(value), Type.SEQUENCE).some((usage) => textOf(usage, Type.OID, oidText) === oid.clientAuth);
}

/** DNS and URI names in the order of the certificate. Other kinds are passed over, but not if any of them is malformed. */
function subjectAltNames(extensions: ReadonlyMap<string, Buffer>): SubjectAltName[] {
  const value = extensions.get(oid.subjectAltName);
  if (value === undefined) return [];
  const names: SubjectAltName[] = [];
  for (const name of childrenOf(parse(value), Type.SEQUENCE)) {
    if (name.tagClass !== Class.CONTEXT_SPECIFIC) throw new UnusableCertificate('a SAN that is no GeneralName');
    const tag: number = name.type;
    const { value } = name;
    if (typeof value !== 'string') {
      // otherName, x400Address, directoryName, ediPartyName: structures that never name a workload.
      if (tag === 0 || (tag >= 3 && tag <= 5)) continue;
      throw new UnusableCertificate('a structured SAN where text belongs');
    }
    switch (tag) {
      case generalName.rfc822:
        visibleText(value);
        break;
      case generalName.dns:
        names.push({ kind: 'dns', text: visibleText(value) });
        break;
      case generalName.uri:
        names.push({ kind: 'uri', text: visibleText(value) });
        break;
      case generalName.ip:
        if (value.length !== 4 && value.length !== 16) throw new UnusableCertificate('an IP SAN of odd length');
        break;
      case generalName.registeredId:
        break;
      default:
        throw new UnusableCertificate('a SAN of unknown kind');
    }
  }
  return names;
}

/** Refuses whatever could be read as two names, or as fewer bytes than were signed. */
function visibleText(value: string): string {
  if (!/^[\x21-\x2b\x2d-\x7e]+$/.test(value)) throw new UnusableCertificate('a SAN with characters no name has');
  return value;
}

/** extnValue by OID. RFC 5280 section 4.2 allows each extension once; a second one could hide the first. */
function extensionsOf(der: Buffer): ReadonlyMap<string, Buffer> {
  const extensions = new Map<string, Buffer>();
  const [tbs] = childrenOf(parse(der), Type.SEQUENCE);
  if (tbs === undefined) throw new UnusableCertificate('no TBSCertificate');
  const wrappers = childrenOf(tbs, Type.SEQUENCE).filter(
    (field) => field.tagClass === Class.CONTEXT_SPECIFIC && (field.type as number) === 3,
  );
  if (wrappers.length === 0) return extensions;
  const [list, ...surplus] = wrappers.flatMap((wrapper) => childrenOf(wrapper));
  if (list === undefined || surplus.length > 0) throw new UnusableCertificate('more than one list of extensions');
  for (const extension of childrenOf(list, Type.SEQUENCE)) {
    const [id, ...rest] = childrenOf(extension, Type.SEQUENCE);
    // Extension ::= SEQUENCE { extnID, critical BOOLEAN DEFAULT FALSE, extnValue OCTET STRING }
    const octets = rest.length === 2 && rest[0] && isUniversal(rest[0], Type.BOOLEAN) ? rest[1] : rest[0];
    if (id === undefined || octets === undefined || rest.at(-1) !== octets) {
      throw new UnusableCertificate('an extension of unknown shape');
    }
    const name = textOf(id, Type.OID, oidText);
    if (extensions.has(name)) throw new UnusableCertificate('a repeated extension');
    extensions.set(name, textOf(octets, Type.OCTETSTRING, latin1));
  }
  return extensions;
}

/**
 * Parses exactly one DER value. forge also reads BER (indefinite and padded lengths) where two parsers can disagree;
 * encoding the result again must give back the very bytes, or they were not DER.
 */
function parse(der: Buffer): forge.asn1.Asn1 {
  const bytes = der.toString('latin1');
  // The options object is newer than forge's type declarations. BIT STRINGs stay opaque: none of them is needed.
  const options = { strict: true, parseAllBytes: true, decodeBitStrings: false, maxDepth: 16 };
  const value = forge.asn1.fromDer(bytes, options as unknown as boolean);
  if (forge.asn1.toDer(value).getBytes() !== bytes) throw new UnusableCertificate('not DER');
  return value;
}

function childrenOf(value: forge.asn1.Asn1, type?: forge.asn1.Type): forge.asn1.Asn1[] {
  if (typeof value.value === 'string' || (type !== undefined && !isUniversal(value, type))) {
    throw new UnusableCertificate('not the structure that belongs here');
  }
  return value.value;
}

function textOf<T>(value: forge.asn1.Asn1, type: forge.asn1.Type, read: (text: string) => T): T {
  if (typeof value.value !== 'string' || !isUniversal(value, type)) {
    throw new UnusableCertificate('not the value that belongs here');
  }
  return read(value.value);
}

function isUniversal(value: forge.asn1.Asn1, type: forge.asn1.Type): boolean {
  return value.tagClass === Class.UNIVERSAL && value.type === type;
}

/** A padded arc (X.690 8.19.2) is no DER, and to others no OID, or another one. */
function oidText(value: string): string {
  const padded = [...value].some((byte, i) => byte === '\x80' && (value.charCodeAt(i - 1) || 0) < 0x80);
  if (padded) throw new UnusableCertificate('a padded OID');
  return forge.asn1.derToOid(value);
}
const latin1 = (value: string): Buffer => Buffer.from(value, 'latin1');

function hexadecimal(value: string): string {
  return latin1(value).toString('hex');
}

/** forge throws its own errors on malformed input, so every one of them means the same here: no name. */
function orElse<T>(none: T, read: () => T): T {
  try {
    return read();
  } catch {
    return none;
  }
}
