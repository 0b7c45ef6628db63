import { checkPrimeSync, generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import {
  below,
  bits,
  type Crafted,
  der,
  ecdsaWithSha256,
  extension,
  extensions,
  modulus,
  name,
  oid,
  rsaWithSha256,
  unsigned,
} from './crafted-certificate.ts';

/*
 * Certificates that cost their reader what they can: keys that take long to read or to verify with, and extensions that take long
 * to read, or to hold against each other. Nobody has the keys, and no signature is one.
 */

/** A key, and what signatures by it look like. */
export interface OddKey {
  readonly key: Buffer;
  /** The AlgorithmIdentifier of its signatures. */
  readonly algorithm: Buffer;
  readonly signature: () => Buffer;
  /** Of its CertificateVerify (RFC 8446 section 4.2.3). */
  readonly scheme: number;
}

const spki = (algorithm: Buffer, key: Buffer): Buffer => der(0x30, algorithm, bits(key));
const bigBytes = (value: bigint): Buffer => {
  const hex = value.toString(16);
  return Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, 'hex');
};
const odd = (bytes: number): Buffer => modulus(bytes * 8);
const rs = (bytes: number): Buffer => der(0x30, unsigned(below(bytes * 8)), unsigned(below(bytes * 8)));

/** @param exponentBits a multiple of 8, or 17 for the usual one. */
export function rsaKey(size: number, exponentBits: number): OddKey {
  const exponent = exponentBits === 17 ? Buffer.of(1, 0, 1) : odd(exponentBits / 8);
  return {
    key: spki(der(0x30, oid('2a864886f70d010101'), der(0x05)), der(0x30, unsigned(odd(size / 8)), unsigned(exponent))),
    algorithm: rsaWithSha256,
    signature: () => below(size),
    scheme: 0x0804,
  };
}

const ecPublicKey = oid('2a8648ce3d0201');
const schemes: Readonly<Record<string, number>> = {
  'P-256': 0x0403,
  'P-384': 0x0503,
  'P-521': 0x0603,
  brainpoolP256r1: 0x081a,
  brainpoolP384r1: 0x081b,
  brainpoolP512r1: 0x081c,
};

/** A real point of a curve that OpenSSL knows. */
export function curveKey(curve: string, isCompressed: boolean): OddKey {
  const { publicKey } = generateKeyPairSync('ec', { namedCurve: curve });
  const whole = publicKey.export({ type: 'spki', format: 'der' });
  const pointAt = whole.indexOf(Buffer.of(0, 4), 12) + 1;
  const point = whole.subarray(pointAt);
  const bytes = (point.length - 1) / 2;
  const idAt = whole.indexOf(0x06, 4 + 9);
  const id = whole.subarray(idAt, idAt + 2 + (whole[idAt + 1] as number));
  const written = isCompressed ? Buffer.concat([Buffer.of(2), point.subarray(1, 1 + bytes)]) : point;
  return {
    key: spki(der(0x30, ecPublicKey, id), written),
    algorithm: ecdsaWithSha256,
    signature: () => rs(bytes),
    scheme: schemes[curve] ?? 0x0403,
  };
}

let slowPrime: bigint | null = null;

/** A prime of 661 bits, the most that OpenSSL takes, one less of which is divisible by 2 to the 600: roots take long. */
function primeOfSlowRoots(): bigint {
  for (let factor = (1n << 60n) + 1n; slowPrime === null; factor += 2n) {
    const candidate = (factor << 600n) + 1n;
    if (checkPrimeSync(candidate)) slowPrime = candidate;
  }
  return slowPrime;
}

/** A curve of its own, whose points are to be found by a root each. */
export function explicitCurveKey(): OddKey {
  const p = primeOfSlowRoots();
  const mod = (value: bigint): bigint => ((value % p) + p) % p;
  const x = BigInt(`0x${randomBytes(80).toString('hex')}`);
  const y = BigInt(`0x${randomBytes(80).toString('hex')}`);
  const b = mod(y * y - x * x * x);
  const padded = (value: bigint): Buffer => Buffer.from(value.toString(16).padStart(166, '0'), 'hex');
  const point = Buffer.concat([Buffer.of(2), padded(x)]);
  const field = der(0x30, oid('2a8648ce3d0101'), unsigned(bigBytes(p)));
  const curve = der(0x30, der(0x04, Buffer.of(0)), der(0x04, padded(b)));
  const order = unsigned(odd(82));
  const parameters = der(0x30, der(0x02, Buffer.of(1)), field, curve, der(0x04, point), order);
  return {
    key: spki(der(0x30, ecPublicKey, parameters), point),
    algorithm: ecdsaWithSha256,
    signature: () => rs(82),
    scheme: 0x0403,
  };
}

export function dsaKey(size: number): OddKey {
  const parameters = der(0x30, unsigned(odd(size / 8)), unsigned(odd(32)), unsigned(below(size)));
  return {
    key: spki(der(0x30, oid('2a8648ce380401'), parameters), unsigned(below(size))),
    algorithm: der(0x30, oid('608648016503040302')),
    signature: () => rs(32),
    scheme: 0x0403,
  };
}

const otherSchemes = { ed25519: 0x0807, ed448: 0x0808, 'ml-dsa-44': 0x0904, 'ml-dsa-65': 0x0905, 'ml-dsa-87': 0x0906 };
const otherSignatures = { ed25519: 64, ed448: 114, 'ml-dsa-44': 2420, 'ml-dsa-65': 3309, 'ml-dsa-87': 4627 };
export type OtherKey = keyof typeof otherSchemes | 'slh-dsa-sha2-128f';
export const otherKeys: readonly OtherKey[] = [
  'ed25519',
  'ed448',
  'ml-dsa-44',
  'ml-dsa-65',
  'ml-dsa-87',
  'slh-dsa-sha2-128f',
];

export function otherKey(kind: OtherKey): OddKey {
  const { publicKey } = generateKeyPairSync(kind as 'ed25519');
  const key = publicKey.export({ type: 'spki', format: 'der' });
  // The key's and the signature's AlgorithmIdentifier are one.
  const first = key[1] as number;
  const at = first < 0x80 ? 2 : 2 + (first & 0x7f);
  const algorithm = key.subarray(at, at + 2 + (key[at + 1] as number));
  const length = kind === 'slh-dsa-sha2-128f' ? 17_088 : otherSignatures[kind];
  return {
    ...{ key, algorithm, signature: () => Buffer.concat([randomBytes(length - 1), Buffer.of(0)]) },
    scheme: kind === 'slh-dsa-sha2-128f' ? 0x0807 : otherSchemes[kind],
  };
}

/** What a name, or the base of a constraint, is made of: as many as fit. */
export type NameKind = 'dns' | 'email' | 'uri' | 'ip' | 'directory' | 'other';
export const nameKinds: readonly NameKind[] = ['dns', 'email', 'uri', 'ip', 'directory', 'other'];

function generalName(kind: NameKind, i: number, isBase: boolean): Buffer {
  const word = `x${i.toString(36)}`;
  switch (kind) {
    case 'dns':
      return der(0x82, Buffer.from(word));
    case 'email':
      return der(0x81, Buffer.from(isBase ? `${word}.a` : `u@${word}`));
    case 'uri':
      return der(0x86, Buffer.from(isBase ? word : `s://${word}/`));
    case 'ip':
      return der(
        0x87,
        isBase ? Buffer.from([10, i >> 8, i & 255, 0, 255, 255, 255, 0]) : Buffer.from([10, i >> 8, i, 1]),
      );
    case 'directory':
      return der(0xa4, name(word));
    case 'other':
      // id-on-SmtpUTF8Mailbox
      return der(0xa0, oid('2b06010505070809'), der(0xa0, der(0x0c, Buffer.from(`ü@xn--${word}-`))));
  }
}

const filled = (bytes: number, make: (i: number) => Buffer): Buffer[] => {
  const made: Buffer[] = [];
  for (let left = bytes, i = 0; left > 0; i++) {
    const next = make(i);
    left -= next.length;
    if (left >= 0) made.push(next);
  }
  return made;
};

export const oddExtensions = {
  names: (kind: NameKind, bytes: number): Buffer =>
    extension('551d11', der(0x30, ...filled(bytes, (i) => generalName(kind, i, false)))),
  constraints: (kind: NameKind, bytes: number): Buffer =>
    extension('551d1e', der(0x30, der(0xa1, ...filled(bytes, (i) => der(0x30, generalName(kind, i, true))))), true),
  addresses: (bytes: number): Buffer =>
    extension(
      '2b06010505070107',
      der(
        0x30,
        der(
          0x30,
          der(0x04, Buffer.of(0, 1)),
          der(0x30, ...filled(bytes, (i) => bits(Buffer.from([10, i >> 8, i & 255])))),
        ),
      ),
      true,
    ),
  systems: (bytes: number): Buffer =>
    extension(
      '2b06010505070108',
      der(
        0x30,
        der(0xa0, der(0x30, ...filled(bytes, (i) => unsigned(Buffer.from([1, (i >> 7) & 255, (2 * i) & 255]))))),
      ),
      true,
    ),
  policies: (bytes: number): Buffer =>
    extension(
      '551d20',
      der(0x30, ...filled(bytes, (i) => der(0x30, der(0x06, Buffer.from([0x2a, i >> 7, i & 0x7f]))))),
    ),
  mappings: (bytes: number): Buffer =>
    extension(
      '551d21',
      der(0x30, ...filled(bytes, (i) => der(0x30, oid('2a03'), der(0x06, Buffer.from([0x2a, i >> 7, i & 0x7f]))))),
    ),
  points: (bytes: number): Buffer =>
    extension(
      '551d1f',
      der(0x30, ...filled(bytes, (i) => der(0x30, der(0xa0, der(0xa0, generalName('uri', i, false)))))),
    ),
  uses: (bytes: number): Buffer =>
    extension('551d25', der(0x30, ...filled(bytes, (i) => der(0x06, Buffer.from([0x2a, i >> 7, i & 0x7f]))))),
  many: (bytes: number): Buffer[] =>
    filled(bytes, (i) => extension(`2a03${Buffer.from([i >> 7, i & 0x7f]).toString('hex')}`, der(0x05))),
  /** The same, of a length that DER does not have. */
  indefinite: (bytes: number): Buffer =>
    extension(
      '551d11',
      Buffer.concat([Buffer.of(0x30, 0x80), ...filled(bytes, (i) => generalName('dns', i, false)), Buffer.of(0, 0)]),
    ),
};
export type OddExtension = keyof typeof oddExtensions;

/** A distinguished name of many parts. */
export const longName = (bytes: number, cn: string): Buffer =>
  der(
    0x30,
    ...filled(bytes, (i) => der(0x31, der(0x30, oid('550403'), der(0x0c, Buffer.from(`n${i.toString(36)}`))))),
    der(0x31, der(0x30, oid('550403'), der(0x0c, Buffer.from(cn)))),
  );

export interface OddCertificate {
  readonly subject: Buffer;
  readonly issuer: Buffer;
  readonly own: OddKey;
  /** By which it claims to be signed. */
  readonly by: OddKey;
  readonly extensions: readonly Buffer[];
}

const from = der(0x17, Buffer.from('250101000000Z'));
const until = der(0x17, Buffer.from('491231235959Z'));

/** @param authority signs it; null: nobody does. */
export function oddCertificate(odd: OddCertificate, authority: Crafted | null): Buffer {
  const algorithm = authority === null ? odd.by.algorithm : ecdsaWithSha256;
  const tbs = der(
    0x30,
    der(0xa0, der(0x02, Buffer.of(2))),
    unsigned(below(64)),
    algorithm,
    authority === null ? odd.issuer : name(authority.cn),
    der(0x30, from, until),
    odd.subject,
    odd.own.key,
    der(0xa3, der(0x30, ...odd.extensions)),
  );
  const signature = authority === null ? odd.by.signature() : sign('sha256', tbs, authority.key);
  return der(0x30, tbs, algorithm, bits(signature));
}

export const authority = (): Buffer => extensions.authority();
