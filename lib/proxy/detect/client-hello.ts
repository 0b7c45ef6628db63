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

/** The first byte of TLS: a record of the handshake. */
export const handshakeRecord = 22;

export const notTls = { kind: 'not-tls' } as const satisfies HelloResult;
const partial: HelloResult = { kind: 'partial' };

/**
 * Reads a ClientHello from the first bytes of a connection, across TLS records if it is split (RFC 8446 5.1 lets it span
 * them), and looks at each byte once, however they arrive. Anything malformed is `not-tls`: the bytes then count as
 * plaintext, which carries no identity.
 */
export class HelloScan {
  /** The beginning of the next record, or of what has not come of this one. */
  #offset = 0;
  #leftOfRecord = 0;
  /** Where the pieces of the handshake message lie in the stream. */
  readonly #pieces: { readonly from: number; to: number }[] = [];
  #have = 0;
  /** The length of the whole message, once its head is there. */
  #want = -1;

  /** @param stream all that has come, the earlier bytes included. */
  look(stream: Buffer): HelloResult {
    // What lies beyond must not count: it may be here already, or not yet.
    const bytes = stream.length > maxHelloBytes ? stream.subarray(0, maxHelloBytes) : stream;
    while (this.#want === -1 || this.#have < this.#want) {
      if (this.#leftOfRecord === 0) {
        const head = this.#readRecordHead(bytes);
        if (head !== null) return head;
      }
      const taken = Math.min(this.#leftOfRecord, bytes.length - this.#offset);
      if (taken === 0) return bytes.length >= maxHelloBytes ? notTls : partial;
      this.#take(taken);
      if (this.#want === -1 && this.#have >= 4) {
        const head = this.#message(bytes);
        if (head[0] !== 1) return notTls;
        this.#want = 4 + head.readUIntBE(1, 3);
        if (this.#want > maxHelloBytes) return notTls;
      }
    }
    return readHello(this.#message(bytes).subarray(4, this.#want));
  }

  /** Null where it is whole and good. */
  #readRecordHead(bytes: Buffer): HelloResult | null {
    const at = this.#offset;
    if (bytes.length > at && bytes[at] !== handshakeRecord) return notTls;
    if (bytes.length > at + 1 && bytes[at + 1] !== 3) return notTls;
    if (bytes.length > at + 2 && (bytes[at + 2] === 0 || (bytes[at + 2] as number) > 4)) return notTls;
    if (bytes.length < at + 5) return bytes.length >= maxHelloBytes ? notTls : partial;
    const length = bytes.readUInt16BE(at + 3);
    if (length === 0 || length > 16384) return notTls;
    this.#leftOfRecord = length;
    this.#offset = at + 5;
    return null;
  }

  #take(count: number): void {
    const from = this.#offset;
    const last = this.#pieces.at(-1);
    if (last !== undefined && last.to === from) last.to += count;
    else this.#pieces.push({ from, to: from + count });
    this.#offset += count;
    this.#leftOfRecord -= count;
    this.#have += count;
  }

  #message(bytes: Buffer): Buffer {
    const [first, ...more] = this.#pieces;
    if (first === undefined) return bytes.subarray(0, 0);
    if (more.length === 0) return bytes.subarray(first.from, first.to);
    return Buffer.concat(this.#pieces.map(({ from, to }) => bytes.subarray(from, to)));
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
