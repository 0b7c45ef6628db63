import { createCipheriv, createHmac } from 'node:crypto';
import { once } from 'node:events';
import { connect as connectRaw, type Socket } from 'node:net';
import { Duplex } from 'node:stream';
import tls from 'node:tls';

/** Of RFC 8446 section 5.1. */
export const contentType = { alert: 21, handshake: 22, data: 23 } as const;

const ciphers: Readonly<
  Record<string, readonly [name: 'aes-128-gcm' | 'aes-256-gcm', keyBytes: number, hash: string]>
> = {
  TLS_AES_128_GCM_SHA256: ['aes-128-gcm', 16, 'sha256'],
  TLS_AES_256_GCM_SHA384: ['aes-256-gcm', 32, 'sha384'],
};

/** HKDF-Expand-Label without a context, for no more than one block (RFC 8446 section 7.1). */
function expand(hash: string, secret: Buffer, label: string, length: number): Buffer {
  const name = `tls13 ${label}`;
  const info = Buffer.concat([Buffer.of(length >> 8, length & 0xff, name.length), Buffer.from(name), Buffer.of(0, 1)]);
  return createHmac(hash, secret).update(info).digest().subarray(0, length);
}

/**
 * A client of TLS 1.3 whose handshake is over, and which encrypts its records itself from then on: those that no library
 * sends, or not so many of them.
 */
export class RecordClient {
  /** Below TLS. */
  readonly raw: Socket;
  /** What the server says: reads only. */
  readonly secure: tls.TLSSocket;
  #secret: Buffer;
  #sent = 0n;
  readonly #cipher: readonly [name: 'aes-128-gcm' | 'aes-256-gcm', keyBytes: number, hash: string];
  #key: Buffer;
  #iv: Buffer;

  private constructor(raw: Socket, secure: tls.TLSSocket, secret: Buffer) {
    this.raw = raw;
    this.secure = secure;
    const { standardName } = secure.getCipher();
    const cipher = ciphers[standardName];
    if (cipher === undefined) throw new Error(`no records of ${standardName}`);
    this.#cipher = cipher;
    this.#secret = secret;
    [this.#key, this.#iv] = this.#keys();
  }

  static async connect(port: number, options: tls.ConnectionOptions): Promise<RecordClient> {
    const raw = connectRaw({ port, host: '127.0.0.1', noDelay: true, allowHalfOpen: true });
    const below = new Duplex({
      read() {},
      write: (bytes: Buffer, _encoding, done) => void raw.write(bytes, done),
    });
    raw.on('data', (bytes) => below.push(bytes));
    raw.on('end', () => below.push(null));
    raw.on('close', () => below.destroy());
    raw.on('error', () => {});
    below.on('error', () => {});
    const secure = tls.connect({ ...options, minVersion: 'TLSv1.3', socket: below });
    secure.on('error', () => {});
    let secret: Buffer | null = null;
    secure.on('keylog', (line: Buffer) => {
      const [name, , hex = ''] = String(line).trim().split(' ');
      if (name === 'CLIENT_TRAFFIC_SECRET_0') secret = Buffer.from(hex, 'hex');
    });
    await once(secure, 'secureConnect');
    if (secret === null) throw new Error('no secret of its own');
    return new RecordClient(raw, secure, secret);
  }

  #keys(): [Buffer, Buffer] {
    const [, keyBytes, hash] = this.#cipher;
    return [expand(hash, this.#secret, 'key', keyBytes), expand(hash, this.#secret, 'iv', 12)];
  }

  /** @param padding zeros behind it, which nobody but its reader sees. */
  record(type: number, content: Buffer, padding = 0): Buffer {
    const inner = Buffer.concat([content, Buffer.of(type), Buffer.alloc(padding)]);
    const head = Buffer.of(23, 3, 3, 0, 0);
    head.writeUInt16BE(inner.length + 16, 3);
    const nonce = Buffer.from(this.#iv);
    nonce.writeBigUInt64BE(nonce.readBigUInt64BE(4) ^ this.#sent++, 4);
    const cipher = createCipheriv(this.#cipher[0], this.#key, nonce).setAAD(head);
    return Buffer.concat([head, cipher.update(inner), cipher.final(), cipher.getAuthTag()]);
  }

  data(text: string): Buffer {
    return this.record(contentType.data, Buffer.from(text));
  }

  /** Everything behind it has the next keys (RFC 8446 section 4.6.3). */
  keyUpdate(asks: boolean, padding = 0): Buffer {
    const record = this.record(contentType.handshake, Buffer.of(24, 0, 0, 1, asks ? 1 : 0), padding);
    const [, , hash] = this.#cipher;
    this.#secret = expand(hash, this.#secret, 'traffic upd', this.#secret.length);
    this.#sent = 0n;
    [this.#key, this.#iv] = this.#keys();
    return record;
  }

  keyUpdates(count: number, asks = false, padding = 0): Buffer {
    return Buffer.concat(Array.from({ length: count }, () => this.keyUpdate(asks, padding)));
  }

  destroy(): void {
    this.secure.destroy();
    this.raw.destroy();
  }
}
