import type { X509Certificate } from 'node:crypto';
import { identityFromCertificate } from '../../certificate-names.ts';
import type { ClientIdentity } from '../../client.ts';

/** A chain that led from a certificate to a trust anchor. */
export interface SoundChain {
  readonly kind: 'sound';
  /** Of the anchors. */
  readonly generation: number;
  /** When the first certificate of it expires, on the clock of `Date.now()`. */
  readonly untilMs: number;
}

/** What follows from the bytes of a client's certificate, whoever shows it and on whichever connection. */
export class KnownCertificate {
  readonly identity: ClientIdentity | null;
  /** On the clock of `Date.now()`. */
  readonly expiresAtMs: number;
  /** The last one that was read: it vouches for these bytes, whichever client sent it. Null: none yet. */
  chain: SoundChain | null = null;

  constructor(certificate: X509Certificate) {
    this.identity = identityFromCertificate(certificate.raw);
    this.expiresAtMs = certificate.validToDate.getTime();
  }
}

/**
 * Clients come back with the certificate that they had, and reading names takes a thirtieth of a handshake. Only what has
 * verified is added, so nobody can fill this with certificates of their own making.
 */
const maxKnown = 256;
const maxKnownBytes = 4096;

/** By all their bytes, which alone decide. */
export class KnownCertificates {
  readonly #known = new Map<string, KnownCertificate>();

  /** @param der null for none, which nobody knows. */
  find(der: Buffer | null): KnownCertificate | null {
    if (der === null || der.length > maxKnownBytes) return null;
    return this.#known.get(der.toString('latin1')) ?? null;
  }

  /** @param certificate has verified. */
  add(certificate: X509Certificate): KnownCertificate {
    const known = new KnownCertificate(certificate);
    const { raw } = certificate;
    if (raw.length > maxKnownBytes) return known;
    if (this.#known.size >= maxKnown) this.#known.clear();
    this.#known.set(raw.toString('latin1'), known);
    return known;
  }
}

const sequence = 0x30;
/** What comes before it are numbers and texts, and two times. */
const peer = 0xa3;

/**
 * The peer's certificate out of a TLS session, as `TLSSocket.getSession` has it (i2d_SSL_SESSION(3)), uncopied: a ninth of
 * the time that Node takes for an object of the certificate, which also copies all that came with it.
 *
 * @returns null where there is none, and for anything else that is not understood.
 */
export function certificateInSession(session: Buffer | undefined): Buffer | null {
  if (session === undefined || session[0] !== sequence) return null;
  const { from, to } = contentAt(session, 0);
  if (to !== session.length) return null;
  for (let at = from; at < to; ) {
    const element = contentAt(session, at);
    if (element.to > to || element.to <= at) return null;
    if (session[at] === peer) return session.subarray(element.from, element.to);
    at = element.to;
  }
  return null;
}

/** Where the content of the element that begins at `at` is; an end before that where it cannot be said. */
function contentAt(bytes: Buffer, at: number): { readonly from: number; readonly to: number } {
  const first = bytes[at + 1] ?? 0x80;
  if (first < 0x80) return { from: at + 2, to: at + 2 + first };
  const digits = first - 0x80;
  // The indefinite length is no DER, and no session has four gigabytes.
  if (!(digits >= 1 && digits <= 3) || at + 2 + digits > bytes.length) return { from: at, to: -1 };
  const from = at + 2 + digits;
  return { from, to: from + bytes.readUIntBE(at + 2, digits) };
}
