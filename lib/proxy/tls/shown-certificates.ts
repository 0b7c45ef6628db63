/*
 * What a client's certificates may cost, found by a look at their bytes (RFC 5280 section 4.1), before OpenSSL reads them: it takes
 * a tenth of a second for one curve of 300 bytes that somebody has made up, and verifies what it has read wherever it leads.
 */

/** Why a client's certificates are not read. */
export interface Objection {
  readonly reason: 'client_too_costly' | 'malformed';
  /** In words of ours. */
  readonly detail: string;
}

/** Of the Certificate message. Chains of workloads have 1 to 6 KB; the largest keys that TLS knows (ML-DSA-87) make 22 KB of three. */
export const mostBytes = 24 * 1024;
/** A leaf, three intermediates and a root are five. */
const mostCertificates = 8;
/** Of an RSA key's modulus. */
const mostBits = 4096;
/** Of its exponent, 65,537 nearly always (as rustls bounds it). */
const mostExponentBits = 33;
/**
 * Of all of it, in signatures of ECDSA P-256 to verify: 40 us each on a machine on which an ordinary handshake takes 400. So many are
 * two keys of P-521, or four of P-384, and what else a chain of workloads has.
 */
const mostWork = 48;
/** What OpenSSL does in the time of such a signature: reads so many elements of DER, */
const elementsPerUnit = 128;
/** or holds so many names against constraints of names, each against each, in elements. */
const comparisonsPerUnit = 2048;

/** What a verification takes, by the OID of the key or of its curve, in hex: those with which TLS 1.3 can sign. */
const curves: ReadonlyMap<string, number> = new Map([
  ['2a8648ce3d030107', 1], // P-256
  ['2b81040022', 10], // P-384
  ['2b81040023', 22], // P-521
  ['2b2403030208010107', 6], // brainpoolP256r1
  ['2b240303020801010b', 11], // brainpoolP384r1
  ['2b240303020801010d', 16], // brainpoolP512r1
]);
const otherKeys: ReadonlyMap<string, number> = new Map([
  ['2b6570', 2], // Ed25519
  ['2b6571', 4], // Ed448
  ['608648016503040311', 2], // ML-DSA-44
  ['608648016503040312', 3], // ML-DSA-65
  ['608648016503040313', 5], // ML-DSA-87
]);
const rsaKeys: ReadonlySet<string> = new Set(['2a864886f70d010101', '2a864886f70d01010a']);
const ecKey = '2a8648ce3d0201';
const alternativeNames = Buffer.of(0x55, 0x1d, 0x11);
const nameConstraints = Buffer.of(0x55, 0x1d, 0x1e);

/** Deeper than anything in a certificate. */
const mostDepth = 24;

const tag = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  oid: 0x06,
  sequence: 0x30,
  version: 0xa0,
  issuerId: 0x81,
  subjectId: 0x82,
  extensions: 0xa3,
} as const;

/** Thrown in this file only. */
class NotAffordable extends Error {
  readonly objection: Objection;

  constructor(objection: Objection) {
    super(objection.detail);
    this.objection = objection;
  }
}

function malformed(): NotAffordable {
  return new NotAffordable({ reason: 'malformed', detail: "the client's certificates are not in DER" });
}

function costly(detail: string): NotAffordable {
  return new NotAffordable({ reason: 'client_too_costly', detail });
}

/** Of the element that begins at `at`; null where it is no DER (X.690 section 10), or does not end before `end`. */
function contentLength(bytes: Buffer, at: number, end: number): number | null {
  const from = at + 2;
  if (from > end || ((bytes[at] ?? 0) & 0x1f) === 0x1f) return null;
  const first = bytes[at + 1] ?? 0;
  if (first < 0x80) return from + first > end ? null : first;
  const digits = first - 0x80;
  if (digits < 1 || digits > 3 || from + digits > end) return null;
  const length = bytes.readUIntBE(from, digits);
  // In its shortest form.
  return headerLength(length) !== 2 + digits || from + digits + length > end ? null : length;
}

function headerLength(length: number): number {
  if (length < 0x80) return 2;
  if (length < 0x100) return 3;
  return length < 0x10000 ? 4 : 5;
}

/** How many elements there are, one behind the other and in each other; null where something is no DER. */
function elementsIn(bytes: Buffer, from: number, to: number): number | null {
  const outer: number[] = [];
  let end = to;
  let count = 0;
  for (let at = from; ; ) {
    while (at === end) {
      const next = outer.pop();
      if (next === undefined) return count;
      end = next;
    }
    const length = contentLength(bytes, at, end);
    if (length === null || outer.length === mostDepth) return null;
    count++;
    const isConstructed = ((bytes[at] ?? 0) & 0x20) !== 0;
    at += headerLength(length);
    if (isConstructed) {
      outer.push(end);
      end = at + length;
    } else {
      at += length;
    }
  }
}

/** Reads one element of DER after another, between two places. Whatever is no DER (X.690 section 10) is refused. */
class DerReader {
  readonly bytes: Buffer;
  at: number;
  readonly end: number;

  constructor(bytes: Buffer, at: number, end: number) {
    this.bytes = bytes;
    this.at = at;
    this.end = end;
  }

  get isAtEnd(): boolean {
    return this.at === this.end;
  }

  get next(): number {
    return this.isAtEnd ? -1 : (this.bytes[this.at] ?? -1);
  }

  /** The content of the next element; this reader goes on behind it. */
  take(wanted: number): DerReader {
    if (this.next !== wanted) throw malformed();
    return this.#content();
  }

  skip(wanted: number): void {
    if (this.next === wanted) this.#content();
  }

  /** Elements here, and in each other. What is no DER counts as many as there may be: two bytes each. */
  count(): number {
    const { bytes, at, end } = this;
    return elementsIn(bytes, at, end) ?? (end - at) >> 1;
  }

  is(wanted: Buffer): boolean {
    if (this.end - this.at !== wanted.length) return false;
    for (let i = 0; i < wanted.length; i++) if (this.bytes[this.at + i] !== wanted[i]) return false;
    return true;
  }

  hex(): string {
    return this.bytes.toString('hex', this.at, this.end);
  }

  #content(): DerReader {
    const length = contentLength(this.bytes, this.at, this.end);
    if (length === null) throw malformed();
    const from = this.at + headerLength(length);
    this.at = from + length;
    return new DerReader(this.bytes, from, from + length);
  }
}

/** What a list of certificates comes to. */
class Sum {
  #keys = 0;
  #elements = 0;
  #names = 0;
  #constraints = 0;

  get #work(): number {
    const comparisons = this.#names * this.#constraints;
    return this.#keys + Math.floor(this.#elements / elementsPerUnit) + Math.floor(comparisons / comparisonsPerUnit);
  }

  add(der: DerReader, place: string): void {
    this.#elements += der.count();
    const certificate = der.take(tag.sequence);
    if (!der.isAtEnd) throw malformed();
    const signed = certificate.take(tag.sequence);
    certificate.take(tag.sequence);
    certificate.take(tag.bitString);
    if (!certificate.isAtEnd) throw malformed();
    signed.skip(tag.version);
    signed.take(tag.integer);
    signed.take(tag.sequence);
    signed.take(tag.sequence);
    signed.take(tag.sequence);
    this.#names += signed.take(tag.sequence).count();
    this.#keys += workOf(signed.take(tag.sequence), place);
    signed.skip(tag.issuerId);
    signed.skip(tag.subjectId);
    if (!signed.isAtEnd) this.#extensions(signed.take(tag.extensions).take(tag.sequence));
    if (!signed.isAtEnd) throw malformed();
    if (this.#work > mostWork) throw costly(this.#told());
  }

  #extensions(list: DerReader): void {
    while (!list.isAtEnd) {
      const extension = list.take(tag.sequence);
      const id = extension.take(tag.oid);
      extension.skip(tag.boolean);
      const count = extension.take(tag.octetString).count();
      this.#elements += count;
      if (id.is(alternativeNames)) this.#names += count;
      else if (id.is(nameConstraints)) this.#constraints += count;
    }
  }

  #told(): string {
    const parts = `keys ${this.#keys}, ${this.#elements} elements, ${this.#names} of names, ${this.#constraints} of constraints`;
    return `the client's certificates take the work of ${this.#work} signatures or more, ${mostWork} at most (${parts})`;
  }
}

/** @param key a SubjectPublicKeyInfo. */
function workOf(key: DerReader, place: string): number {
  const algorithm = key.take(tag.sequence);
  const bits = key.take(tag.bitString);
  const id = algorithm.take(tag.oid).hex();
  if (rsaKeys.has(id)) return rsaWork(bits, place);
  const work = id === ecKey ? curveWork(algorithm, bits, place) : otherKeys.get(id);
  if (work === undefined) throw costly(`${place} has a key of a kind that does not sign in TLS`);
  return work;
}

function rsaWork(bits: DerReader, place: string): number {
  // Of unused bits there are none.
  const key = new DerReader(bits.bytes, bits.at + 1, bits.end).take(tag.sequence);
  const modulus = bitsOf(key.take(tag.integer));
  const exponent = bitsOf(key.take(tag.integer));
  if (modulus > mostBits) throw costly(`${place} has an RSA key of ${modulus} bits, ${mostBits} at most`);
  if (exponent > mostExponentBits) {
    throw costly(`${place} has an RSA key with an exponent of ${exponent} bits, ${mostExponentBits} at most`);
  }
  return modulus > 3072 ? 2 : 1;
}

function bitsOf(integer: DerReader): number {
  let { at } = integer;
  while (at < integer.end && integer.bytes[at] === 0) at++;
  return at === integer.end ? 0 : (integer.end - at) * 8 - (Math.clz32(integer.bytes[at] ?? 0) - 24);
}

function curveWork(algorithm: DerReader, bits: DerReader, place: string): number {
  if (algorithm.next !== tag.oid) throw costly(`${place} has a key on a curve of its own`);
  const work = curves.get(algorithm.take(tag.oid).hex());
  if (work === undefined) throw costly(`${place} has a key on a curve that does not sign in TLS`);
  // Behind the number of unused bits: SEC 1 section 2.3.3. A compressed one takes a root to find.
  if (bits.bytes[bits.at + 1] !== 0x04) throw costly(`${place} has a compressed key`);
  return work;
}

/** @param bytes of the Certificate message. */
export function tooLong(bytes: number): Objection {
  return {
    reason: 'client_too_costly',
    detail: `the client's certificates take ${bytes} bytes, ${mostBytes} at most`,
  };
}

/**
 * @param message the Certificate message of a client, without its header (RFC 8446 section 4.4.2).
 * @returns null where OpenSSL may read it.
 */
export function objectionTo(message: Buffer): Objection | null {
  try {
    look(message);
    return null;
  } catch (error) {
    if (error instanceof NotAffordable) return error.objection;
    throw error;
  }
}

function look(message: Buffer): void {
  if (message.length > mostBytes) throw new NotAffordable(tooLong(message.length));
  const contextBytes = message[0] ?? 0;
  const listAt = 1 + contextBytes + 3;
  if (listAt > message.length || message.readUIntBE(listAt - 3, 3) !== message.length - listAt) throw malformed();
  const sum = new Sum();
  let count = 0;
  for (let at = listAt; at < message.length; ) {
    if (++count > mostCertificates) {
      throw costly(`the client shows more than ${mostCertificates} certificates`);
    }
    if (at + 3 > message.length) throw malformed();
    const from = at + 3;
    const to = from + message.readUIntBE(at, 3);
    if (to + 2 > message.length) throw malformed();
    sum.add(
      new DerReader(message, from, to),
      count === 1 ? "the client's certificate" : `certificate ${count} of the client's`,
    );
    at = to + 2 + message.readUInt16BE(to);
    if (at > message.length) throw malformed();
  }
}
