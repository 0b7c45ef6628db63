import { createPublicKey, generateKeyPairSync, type KeyObject, randomBytes, sign, X509Certificate } from 'node:crypto';

/*
 * Certificates byte by byte: chains that no authority would issue, and keys whose signatures cost time to verify.
 */

export function der(tag: number, ...content: readonly Buffer[]): Buffer {
  const body = Buffer.concat(content);
  const length =
    body.length < 0x80
      ? [body.length]
      : body.length < 0x100
        ? [0x81, body.length]
        : body.length < 0x10000
          ? [0x82, body.length >> 8, body.length & 0xff]
          : [0x83, body.length >> 16, (body.length >> 8) & 0xff, body.length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...length]), body]);
}

export const oid = (hex: string): Buffer => der(0x06, Buffer.from(hex, 'hex'));
export const unsigned = (bytes: Buffer): Buffer =>
  der(0x02, (bytes[0] as number) < 0x80 ? bytes : Buffer.concat([Buffer.of(0), bytes]));
export const bits = (content: Buffer): Buffer => der(0x03, Buffer.of(0), content);
export const name = (cn: string): Buffer => der(0x30, der(0x31, der(0x30, oid('550403'), der(0x0c, Buffer.from(cn)))));
const time = (at: Date): Buffer => der(0x18, Buffer.from(`${at.toISOString().replace(/[-:T]/g, '').slice(0, 14)}Z`));

/** An odd number of that many bits. */
export function modulus(size: number): Buffer {
  const bytes = randomBytes(size / 8);
  bytes[0] = (bytes[0] as number) | 0x80;
  bytes[bytes.length - 1] = (bytes[bytes.length - 1] as number) | 1;
  return bytes;
}
/** A number that is below every modulus of that size. */
export const below = (size: number): Buffer => Buffer.concat([Buffer.of(1), randomBytes(size / 8 - 1)]);

/** X.509 extensions, each the whole SEQUENCE. `critical` as in RFC 5280 section 4.2. */
export function extension(id: string, value: Buffer, critical = false): Buffer {
  return der(0x30, oid(id), ...(critical ? [der(0x01, Buffer.of(0xff))] : []), der(0x04, value));
}
export const extensions = {
  authority: (pathLength?: number) =>
    extension(
      '551d13',
      der(0x30, der(0x01, Buffer.of(0xff)), ...(pathLength === undefined ? [] : [der(0x02, Buffer.of(pathLength))])),
      true,
    ),
  endEntity: () => extension('551d13', der(0x30), true),
  /** The first byte of the BIT STRING: 0x80 digitalSignature, 0x20 keyEncipherment, 0x04 keyCertSign. */
  keyUsage: (flags: number) => extension('551d0f', der(0x03, Buffer.of(0, flags)), true),
  dnsName: (...names: readonly string[]) =>
    extension('551d11', der(0x30, ...names.map((text) => der(0x82, Buffer.from(text))))),
  permittedDns: (text: string) =>
    extension('551d1e', der(0x30, der(0xa0, der(0x30, der(0x82, Buffer.from(text))))), true),
  usage: (purpose: 'serverAuth' | 'clientAuth') =>
    extension('551d25', der(0x30, oid(purpose === 'serverAuth' ? '2b06010505070301' : '2b06010505070302'))),
  unknown: (critical: boolean) => extension('2a0304', der(0x05), critical),
};

export interface CraftedSubject {
  readonly cn: string;
  readonly extensions?: readonly Buffer[];
  readonly notBefore?: Date;
  readonly notAfter?: Date;
  /** Of another certificate, to stand beside it. */
  readonly key?: KeyObject;
}

export interface Issuer {
  readonly cn: string;
  readonly key: KeyObject;
}

export interface Crafted extends Issuer {
  readonly certificate: X509Certificate;
}

export const ecdsaWithSha256 = der(0x30, oid('2a8648ce3d040302'));
export const rsaWithSha256 = der(0x30, oid('2a864886f70d01010b'), der(0x05));

function toBeSigned(subject: CraftedSubject, issuer: string, key: Buffer, algorithm: Buffer): Buffer {
  const { cn, notBefore = new Date(Date.now() - 60_000), notAfter = new Date(Date.now() + 864e5) } = subject;
  const { extensions: list = [] } = subject;
  return der(
    0x30,
    der(0xa0, der(0x02, Buffer.of(2))),
    unsigned(below(128)),
    algorithm,
    name(issuer),
    der(0x30, time(notBefore), time(notAfter)),
    name(cn),
    key,
    ...(list.length === 0 ? [] : [der(0xa3, der(0x30, ...list))]),
  );
}

/** The certificate of a P-256 key, or of its own, signed by `issuer`, or by itself: an authority's key is ECDSA or RSA. */
export function craft(subject: CraftedSubject, issuer?: Issuer): Crafted {
  const privateKey = subject.key ?? generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
  const by = issuer ?? { cn: subject.cn, key: privateKey };
  const key = createPublicKey(privateKey).export({ type: 'spki', format: 'der' });
  const algorithm = by.key.asymmetricKeyType === 'rsa' ? rsaWithSha256 : ecdsaWithSha256;
  const tbs = toBeSigned(subject, by.cn, key, algorithm);
  const certificate = new X509Certificate(der(0x30, tbs, algorithm, bits(sign('sha256', tbs, by.key))));
  return { cn: subject.cn, key: privateKey, certificate };
}

/** A key that nobody has, and what a signature by it looks like. Both say how much work it is to find that it is none. */
interface Costly {
  readonly algorithm: Buffer;
  readonly key: Buffer;
  signature(): Buffer;
}

export const costlyKeys: Readonly<Record<'rsa' | 'dsa', () => Costly>> = {
  /** An exponent as long as the modulus: 9 ms. */
  rsa: () => {
    const key = der(0x30, unsigned(modulus(3072)), unsigned(modulus(3072 - 8)));
    return {
      algorithm: rsaWithSha256,
      key: der(0x30, der(0x30, oid('2a864886f70d010101'), der(0x05)), bits(key)),
      signature: () => below(3072),
    };
  },
  /** The largest that OpenSSL takes: 20 ms. */
  dsa: () => {
    const parameters = der(0x30, unsigned(modulus(10_000)), unsigned(modulus(256)), unsigned(below(10_000)));
    return {
      algorithm: der(0x30, oid('608648016503040302')),
      key: der(0x30, der(0x30, oid('2a8648ce380401'), parameters), bits(unsigned(below(10_000)))),
      signature: () => der(0x30, unsigned(below(256)), unsigned(below(256))),
    };
  },
};

/** Authorities of one name and of such keys, signed by nobody. */
export function costlyIssuers(kind: keyof typeof costlyKeys, cn: string, count: number): X509Certificate[] {
  return Array.from({ length: count }, () => {
    const { algorithm, key, signature } = costlyKeys[kind]();
    const tbs = toBeSigned({ cn, extensions: [extensions.authority()] }, 'Nobody', key, algorithm);
    return new X509Certificate(der(0x30, tbs, algorithm, bits(signature())));
  });
}

/** PEM of a leaf and of `count` more, each of which claims to have issued the one before. */
export function costlyChain(
  kind: keyof typeof costlyKeys,
  count: number,
): { readonly cert: string; readonly key: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const { algorithm, key, signature } = costlyKeys[kind]();
  const own = publicKey.export({ type: 'spki', format: 'der' });
  const pem: string[] = [];
  for (let i = 0; i <= count; i++) {
    const subject = { cn: String(i), extensions: i === 0 ? [] : [extensions.authority()] };
    const tbs = toBeSigned(subject, String(i + 1), i === 0 ? own : key, algorithm);
    pem.push(new X509Certificate(der(0x30, tbs, algorithm, bits(signature()))).toString());
  }
  return { cert: pem.join(''), key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string };
}
