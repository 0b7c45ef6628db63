import {
  createHash,
  createPrivateKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
  X509Certificate,
} from 'node:crypto';
import { isIP } from 'node:net';
import forge from 'node-forge';
import { parseIp } from '../lib/ip.ts';

/**
 * A certificate authority for development and tests: node-forge lays out the X.509 structures, node:crypto makes the keys
 * and signatures. ECDSA P-256 with SHA-256 throughout: Linkerd's proxies serve nothing else, and a handshake costs a
 * fraction of what RSA takes (forge itself knows RSA and Ed25519 only).
 */
export interface Authority {
  readonly certificatePem: string;
  readonly keyPem: string;
}

export interface IssuedCertificate {
  readonly certificatePem: string;
  readonly keyPem: string;
}

export interface AuthorityRequest {
  readonly commonName: string;
  readonly days: number;
  readonly notBefore?: Date;
}

export type KeyUsagePurpose = 'serverAuth' | 'clientAuth';

export interface CertificateRequest {
  readonly dnsNames?: readonly string[];
  readonly spiffeIds?: readonly string[];
  readonly ipAddresses?: readonly string[];
  /** May be fractional, or negative together with an early `notBefore`. */
  readonly days: number;
  /** A minute ago where absent, for clocks that are a little behind. */
  readonly notBefore?: Date;
  /** Subject CN; the subject is empty where absent, as workload certificates have it. */
  readonly commonName?: string;
  /** Both where absent; null leaves the extendedKeyUsage extension out. */
  readonly usages?: readonly KeyUsagePurpose[] | null;
  /** Makes an intermediate authority: basicConstraints cA, keyCertSign. */
  readonly authority?: boolean;
  /** Further SANs by context tag and raw content, after the others: what hostile tests need. */
  readonly extraSans?: readonly RawGeneralName[];
  /** Further extensions as they are, after the others. */
  readonly extraExtensions?: readonly RawExtension[];
}

export interface RawGeneralName {
  /** 1 rfc822Name, 2 dNSName, 6 URI, 7 iPAddress (RFC 5280 section 4.2.1.6). */
  readonly tag: number;
  readonly content: Buffer;
}

export interface RawExtension {
  readonly oid: string;
  readonly critical: boolean;
  readonly value: Buffer;
}

type Asn1 = forge.asn1.Asn1;
const { Class, Type } = forge.asn1;

const oid = {
  commonName: '2.5.4.3',
  ecdsaWithSha256: '1.2.840.10045.4.3.2',
  subjectKeyIdentifier: '2.5.29.14',
  keyUsage: '2.5.29.15',
  subjectAltName: '2.5.29.17',
  basicConstraints: '2.5.29.19',
  authorityKeyIdentifier: '2.5.29.35',
  extendedKeyUsage: '2.5.29.37',
  serverAuth: '1.3.6.1.5.5.7.3.1',
  clientAuth: '1.3.6.1.5.5.7.3.2',
} as const;

/** Bits of KeyUsage, counted from the most significant (RFC 5280 section 4.2.1.3). */
const usageBit = { digitalSignature: 0, keyCertSign: 5, cRLSign: 6 } as const;

const dayMs = 24 * 60 * 60 * 1000;
const clockSkewMs = 60 * 1000;

/** A self-signed root. */
export function createAuthority(request: AuthorityRequest): Authority {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const subject = nameOf(request.commonName);
  const keyId = keyIdentifier(publicKey);
  const certificatePem = signed(privateKey, {
    issuer: subject,
    subject,
    publicKey,
    ...validity(request.days, request.notBefore),
    extensions: [...authorityExtensions(), subjectKeyIdentifier(keyId)],
  });
  return { certificatePem, keyPem: pkcs8(privateKey) };
}

/** A certificate with a fresh key, signed by the authority. The chain's intermediates are for the caller to append. */
export function issueCertificate(authority: Authority, request: CertificateRequest): IssuedCertificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const issuer = new X509Certificate(authority.certificatePem);
  const signer = createPrivateKey(authority.keyPem);
  if (signer.asymmetricKeyDetails?.namedCurve !== 'prime256v1') {
    throw new TypeError('the authority key is not an ECDSA P-256 key');
  }
  if (!issuer.checkPrivateKey(signer)) throw new TypeError('the authority key does not belong to its certificate');
  const sans = generalNames(request);
  const usages = request.usages === undefined ? (['serverAuth', 'clientAuth'] as const) : request.usages;
  const extensions = request.authority
    ? authorityExtensions()
    : [
        extension(oid.basicConstraints, true, sequence([])),
        extension(oid.keyUsage, true, namedBits([usageBit.digitalSignature])),
        ...(usages === null
          ? []
          : [extension(oid.extendedKeyUsage, false, sequence(usages.map((usage) => objectId(oid[usage]))))]),
      ];
  extensions.push(
    subjectKeyIdentifier(keyIdentifier(publicKey)),
    extension(
      oid.authorityKeyIdentifier,
      false,
      sequence([contextual(0, keyIdentifier(issuer.publicKey).toString('latin1'))]),
    ),
  );
  // RFC 5280 section 4.2.1.6: critical where the subject is empty, since then only the SAN names the holder.
  if (sans.length > 0) extensions.push(extension(oid.subjectAltName, request.commonName === undefined, sequence(sans)));
  for (const raw of request.extraExtensions ?? []) extensions.push(rawExtension(raw.oid, raw.critical, raw.value));
  const certificatePem = signed(signer, {
    issuer: subjectOf(issuer),
    subject: nameOf(request.commonName),
    publicKey,
    ...validity(request.days, request.notBefore),
    extensions,
  });
  return { certificatePem, keyPem: pkcs8(privateKey) };
}

interface ToBeSigned {
  readonly issuer: Asn1;
  readonly subject: Asn1;
  readonly publicKey: KeyObject;
  readonly notBefore: Date;
  readonly notAfter: Date;
  readonly extensions: readonly Asn1[];
}

/** Certificate ::= SEQUENCE { tbsCertificate, signatureAlgorithm, signatureValue } (RFC 5280 section 4.1), as PEM. */
function signed(signer: KeyObject, certificate: ToBeSigned): string {
  const algorithm = sequence([objectId(oid.ecdsaWithSha256)]);
  const tbs = sequence([
    contextualSet(0, [integer(Buffer.from([2]))]), // v3
    integer(serialNumber()),
    algorithm,
    certificate.issuer,
    sequence([time(certificate.notBefore), time(certificate.notAfter)]),
    certificate.subject,
    fromDer(certificate.publicKey.export({ type: 'spki', format: 'der' })),
    contextualSet(3, [sequence([...certificate.extensions])]),
  ]);
  const signature = sign('sha256', toDer(tbs), { key: signer, dsaEncoding: 'der' });
  const der = toDer(sequence([tbs, algorithm, bitString(signature, 0)]));
  return new X509Certificate(der).toString();
}

/** 128 random bits, positive and never with a leading zero octet, so that DER takes them as they are. */
function serialNumber(): Buffer {
  const serial = randomBytes(16);
  serial[0] = ((serial[0] ?? 0) & 0x7f) | 0x40;
  return serial;
}

function validity(days: number, from = new Date(Date.now() - clockSkewMs)): { notBefore: Date; notAfter: Date } {
  return { notBefore: from, notAfter: new Date(from.getTime() + days * dayMs) };
}

/** UTCTime up to 2049 and GeneralizedTime from 2050, to the second (RFC 5280 section 4.1.2.5). */
function time(date: Date): Asn1 {
  const general = `${date.toISOString().slice(0, 19).replaceAll(/[-:T]/g, '')}Z`;
  const year = date.getUTCFullYear();
  return year >= 1950 && year < 2050
    ? primitive(Type.UTCTIME, general.slice(2))
    : primitive(Type.GENERALIZEDTIME, general);
}

function authorityExtensions(): Asn1[] {
  return [
    extension(oid.basicConstraints, true, sequence([primitive(Type.BOOLEAN, '\xff')])),
    extension(oid.keyUsage, true, namedBits([usageBit.keyCertSign, usageBit.cRLSign])),
  ];
}

function subjectKeyIdentifier(keyId: Buffer): Asn1 {
  return extension(oid.subjectKeyIdentifier, false, primitive(Type.OCTETSTRING, keyId.toString('latin1')));
}

/** RFC 5280 section 4.2.1.2, method 1: SHA-1 of the subjectPublicKey's bits. An identifier, not a signature. */
function keyIdentifier(publicKey: KeyObject): Buffer {
  const { x = '', y = '' } = publicKey.export({ format: 'jwk' });
  const point = Buffer.concat([Buffer.from([4]), Buffer.from(x, 'base64url'), Buffer.from(y, 'base64url')]);
  return createHash('sha1').update(point).digest();
}

function generalNames(request: CertificateRequest): Asn1[] {
  return [
    ...(request.dnsNames ?? []).map((name) => contextual(2, name)),
    ...(request.spiffeIds ?? []).map((id) => contextual(6, id)),
    ...(request.ipAddresses ?? []).map((address) => contextual(7, addressOctets(address).toString('latin1'))),
    ...(request.extraSans ?? []).map(({ tag, content }) => contextual(tag, content.toString('latin1'))),
  ];
}

function addressOctets(text: string): Buffer {
  const ip = isIP(text) === 0 ? undefined : parseIp(text);
  if (ip === undefined) throw new TypeError(`not an IP address: ${text}`);
  const words = ip.family === 4 ? [ip.value] : ip.words;
  const octets = Buffer.alloc(words.length * 4);
  for (const [index, word] of words.entries()) octets.writeUInt32BE(word, index * 4);
  return octets;
}

/** Name with one CN, or the empty name. */
function nameOf(commonName: string | undefined): Asn1 {
  if (commonName === undefined) return sequence([]);
  const attribute = sequence([
    objectId(oid.commonName),
    primitive(Type.UTF8, Buffer.from(commonName).toString('latin1')),
  ]);
  return sequence([forge.asn1.create(Class.UNIVERSAL, Type.SET, true, [attribute])]);
}

/** The subject exactly as the issuer's certificate encodes it: verifiers compare issuer and subject by bytes. */
function subjectOf(certificate: X509Certificate): Asn1 {
  const tbs = children(fromDer(certificate.raw))[0];
  // version [0], serialNumber, signature, issuer, validity, subject
  const subject = tbs === undefined ? undefined : children(tbs)[5];
  if (subject === undefined) throw new TypeError('the authority certificate is not an X.509 v3 certificate');
  return subject;
}

/** Extension ::= SEQUENCE { extnID, critical BOOLEAN DEFAULT FALSE, extnValue }; DER leaves defaults out. */
function extension(id: string, critical: boolean, value: Asn1): Asn1 {
  return rawExtension(id, critical, toDer(value));
}
function rawExtension(id: string, critical: boolean, value: Buffer): Asn1 {
  return sequence([
    objectId(id),
    ...(critical ? [primitive(Type.BOOLEAN, '\xff')] : []),
    primitive(Type.OCTETSTRING, value.toString('latin1')),
  ]);
}

/** A named bit list: trailing zero bits are removed in DER (X.690 section 11.2.2). */
function namedBits(bits: readonly number[]): Asn1 {
  const highest = Math.max(...bits);
  const octet = bits.reduce((sum, bit) => sum | (0x80 >> bit), 0);
  return bitString(Buffer.from([octet]), 7 - highest);
}

function bitString(content: Buffer, unusedBits: number): Asn1 {
  return primitive(Type.BITSTRING, String.fromCharCode(unusedBits) + content.toString('latin1'));
}
function integer(content: Buffer): Asn1 {
  return primitive(Type.INTEGER, content.toString('latin1'));
}
function objectId(id: string): Asn1 {
  return primitive(Type.OID, forge.asn1.oidToDer(id).getBytes());
}
function primitive(type: forge.asn1.Type, content: string): Asn1 {
  return forge.asn1.create(Class.UNIVERSAL, type, false, content);
}
function sequence(items: Asn1[]): Asn1 {
  return forge.asn1.create(Class.UNIVERSAL, Type.SEQUENCE, true, items);
}
/** `[tag] IMPLICIT` of a primitive type. */
function contextual(tag: number, content: string): Asn1 {
  return forge.asn1.create(Class.CONTEXT_SPECIFIC, tag, false, content);
}
/** `[tag] EXPLICIT`. */
function contextualSet(tag: number, items: Asn1[]): Asn1 {
  return forge.asn1.create(Class.CONTEXT_SPECIFIC, tag, true, items);
}

function children(value: Asn1): Asn1[] {
  if (typeof value.value === 'string') throw new TypeError('not a structure');
  return value.value;
}
function fromDer(der: Buffer): Asn1 {
  return forge.asn1.fromDer(der.toString('latin1'));
}
function toDer(value: Asn1): Buffer {
  return Buffer.from(forge.asn1.toDer(value).getBytes(), 'latin1');
}
function pkcs8(key: KeyObject): string {
  return key.export({ type: 'pkcs8', format: 'pem' });
}
