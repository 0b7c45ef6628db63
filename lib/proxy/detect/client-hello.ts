/** What we need of a ClientHello (RFC 8446 4.1.2): who is called, and which protocols are offered. */
export interface ClientHello {
  /** server_name (RFC 6066 3), lower case; null where absent or unusable. */
  readonly serverName: string | null;
  /** ALPN protocol names (RFC 7301), in the client's order; empty where the extension is absent. */
  readonly alpn: readonly string[];
}

export type HelloResult =
  | { readonly kind: 'hello'; readonly hello: ClientHello }
  /** A prefix of what could be a ClientHello. */
  | { readonly kind: 'partial' }
  | { readonly kind: 'not-tls' };

/** A hello longer than this is taken for something else (Linkerd's limit too). */
export const maxHelloBytes = 8192;

const notTls: HelloResult = { kind: 'not-tls' };
const partial: HelloResult = { kind: 'partial' };

/**
 * Reads a ClientHello from the first bytes of a connection, across TLS records if it is split.
 * Anything malformed is `not-tls`: the bytes then count as plaintext, which carries no identity.
 */
export function parseClientHello(stream: Buffer): HelloResult {
  // What lies beyond must not count: it may be here already, or not yet.
  const bytes = stream.subarray(0, maxHelloBytes);
  if (bytes.length === 0) return partial;
  if (bytes[0] !== 22) return notTls;
  const message = handshakeMessage(bytes);
  return Buffer.isBuffer(message) ? readHello(message) : message;
}

/** Joins the fragments of the first handshake message (RFC 8446 5.1 lets it span records). */
function handshakeMessage(bytes: Buffer): Buffer | HelloResult {
  const fragments: Buffer[] = [];
  let offset = 0;
  let have = 0;
  let want = -1;
  for (;;) {
    if (bytes.length > offset && bytes[offset] !== 22) return notTls;
    if (bytes.length > offset + 1 && bytes[offset + 1] !== 3) return notTls;
    if (bytes.length > offset + 2 && (bytes[offset + 2] === 0 || (bytes[offset + 2] as number) > 4)) return notTls;
    if (bytes.length < offset + 5) return bytes.length >= maxHelloBytes ? notTls : partial;
    const recordLength = bytes.readUInt16BE(offset + 3);
    if (recordLength === 0 || recordLength > 16384) return notTls;
    const fragment = bytes.subarray(offset + 5, offset + 5 + recordLength);
    fragments.push(fragment);
    have += fragment.length;
    if (want === -1 && have >= 4) {
      const head = fragments.length === 1 ? fragment : Buffer.concat(fragments);
      if (head[0] !== 1) return notTls;
      want = 4 + head.readUIntBE(1, 3);
      if (want > maxHelloBytes) return notTls;
    }
    if (want !== -1 && have >= want) return Buffer.concat(fragments).subarray(4, want);
    if (fragment.length < recordLength) return bytes.length >= maxHelloBytes ? notTls : partial;
    offset += 5 + recordLength;
  }
}

function readHello(body: Buffer): HelloResult {
  try {
    let at = 2 + 32;
    at += 1 + body.readUInt8(at); // legacy_session_id
    at += 2 + body.readUInt16BE(at); // cipher_suites
    at += 1 + body.readUInt8(at); // legacy_compression_methods
    let serverName: string | null = null;
    let alpn: readonly string[] = [];
    if (at > body.length) return notTls;
    if (at < body.length) {
      const end = at + 2 + body.readUInt16BE(at);
      if (end > body.length) return notTls;
      at += 2;
      while (at + 4 <= end) {
        const type = body.readUInt16BE(at);
        const next = at + 4 + body.readUInt16BE(at + 2);
        if (next > end) return notTls;
        const data = body.subarray(at + 4, next);
        if (type === 0) serverName = readServerName(data);
        else if (type === 16) alpn = readAlpn(data);
        at = next;
      }
    }
    return { kind: 'hello', hello: { serverName, alpn } };
  } catch {
    // A length that points past the end: no TLS library would accept it either.
    return notTls;
  }
}

function readServerName(data: Buffer): string | null {
  if (data.length < 5 || data[2] !== 0) return null;
  const end = 5 + data.readUInt16BE(3);
  if (end > data.length) return null;
  const name = data.subarray(5, end).toString('latin1').toLowerCase();
  return /^[a-z0-9_]([a-z0-9_.-]{0,252}[a-z0-9_.])?$/.test(name) ? name : null;
}

function readAlpn(data: Buffer): string[] {
  const names: string[] = [];
  let at = 2;
  while (at < data.length) {
    const length = data.readUInt8(at);
    names.push(data.subarray(at + 1, at + 1 + length).toString('latin1'));
    at += 1 + length;
  }
  return names;
}
