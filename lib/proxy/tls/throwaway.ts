import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';

/**
 * A certificate of this process alone, for clients that verify nothing, as a kubelet in its HTTPS probes: ECDSA P-256, signed
 * by itself, without a name (RFC 5280 section 4.1).
 */
export function throwawayCertificate(): { readonly cert: string; readonly key: string } {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const name = sequence();
  const body = sequence(
    tagged(0xa0, integer(Buffer.from([2]))),
    integer(Buffer.concat([Buffer.from([1]), randomBytes(15)])),
    ecdsaWithSha256,
    name,
    sequence(time('20200101000000Z'), time('99991231235959Z')),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
  );
  const signature = sign('sha256', body, privateKey);
  const certificate = sequence(body, ecdsaWithSha256, tagged(0x03, Buffer.concat([Buffer.from([0]), signature])));
  const lines = certificate.toString('base64').replaceAll(/.{64}(?=.)/g, '$&\n');
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
}

/** DER: tag, length, content (X.690 section 8.1). */
function tagged(tag: number, content: Buffer): Buffer {
  const { length } = content;
  const long = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...long]), content]);
}

function sequence(...parts: readonly Buffer[]): Buffer {
  return tagged(0x30, Buffer.concat(parts));
}

function integer(bytes: Buffer): Buffer {
  return tagged(0x02, bytes);
}

function time(text: string): Buffer {
  return tagged(0x18, Buffer.from(text, 'latin1'));
}

/** 1.2.840.10045.4.3.2 (RFC 5758 section 3.2). */
const ecdsaWithSha256 = sequence(tagged(0x06, Buffer.from('2a8648ce3d040302', 'hex')));
