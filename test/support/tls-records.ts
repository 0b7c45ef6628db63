import { createCipheriv, createHmac } from 'node:crypto';
import { once } from 'node:events';
import { connect as connectRaw, type Socket } from 'node:net';
import { Duplex } from 'node:stream';
import tls from 'node:tls';

/** Of RFC 8446 section 5.1. */
export const contentType = { alert: 21, handshake: 22, data: 23 } as const;

const ciphers: Readonly<Record<string, CipherSpec>> = {
  TLS_AES_128_GCM_SHA256: ['aes-128-gcm', 16, 'sha256'],
  TLS_AES_256_GCM_SHA384: ['aes-256-gcm', 32, 'sha384'],
  TLS_CHACHA20_POLY1305_SHA256: ['chacha20-poly1305', 32, 'sha256'],
};

/** HKDF-Expand-Label without a context, for no more than one block (RFC 8446 section 7.1). */
function expand(hash: string, secret: Buffer, label: string, length: number): Buffer {
  const name = `tls13 ${label}`;
  const info = Buffer.concat([Buffer.of(length >> 8, length & 0xff, name.length), Buffer.from(name), Buffer.of(0, 1)]);
  return createHmac(hash, secret).update(info).digest().subarray(0, length);
}

type CipherSpec = readonly [name: 'aes-128-gcm' | 'aes-256-gcm' | 'chacha20-poly1305', keyBytes: number, hash: string];

/** Records by the keys of one traffic secret, from the first on (RFC 8446 section 5.2). */
export class SealedRecords {
  readonly #cipher: CipherSpec;
  readonly #key: Buffer;
  readonly #iv: Buffer;
  readonly secret: Buffer;
  #sent = 0n;

  /** @param suite by its standard name. */
  constructor(suite: string, secret: Buffer) {
    const cipher = ciphers[suite];
    if (cipher === undefined) throw new Error(`no records of ${suite}`);
    const [, keyBytes, hash] = cipher;
    this.#cipher = cipher;
    this.secret = secret;
    this.#key = expand(hash, secret, 'key', keyBytes);
    this.#iv = expand(hash, secret, 'iv', 12);
  }

  /** @param padding zeros behind it, which nobody but its reader sees. */
  record(type: number, content: Buffer, padding = 0): Buffer {
    const inner = Buffer.concat([content, Buffer.of(type), Buffer.alloc(padding)]);
    const head = Buffer.of(23, 3, 3, 0, 0);
    head.writeUInt16BE(inner.length + 16, 3);
    const nonce = Buffer.from(this.#iv);
    nonce.writeBigUInt64BE(nonce.readBigUInt64BE(4) ^ this.#sent++, 4);
    const cipher = createCipheriv(this.#cipher[0] as 'aes-128-gcm', this.#key, nonce, { authTagLength: 16 }).setAAD(
      head,
    );
    return Buffer.concat([head, cipher.update(inner), cipher.final(), cipher.getAuthTag()]);
  }

  /** With the next keys (RFC 8446 section 7.2). */
  updated(suite: string): SealedRecords {
    const [, , hash] = this.#cipher;
    return new SealedRecords(suite, expand(hash, this.secret, 'traffic upd', this.secret.length));
  }
}

/** A connection whose client is TLS above it, and can be written to below that. */
export interface Below {
  readonly raw: Socket;
  readonly stream: Duplex;
}

/** @param passes what goes out of what TLS itself writes. */
export function belowTls(port: number, passes: (written: Buffer) => Buffer = (written) => written): Below {
  const raw = connectRaw({ port, host: '127.0.0.1', noDelay: true, allowHalfOpen: true });
  const stream = new Duplex({
    read() {},
    write(bytes: Buffer, _encoding, done) {
      const passed = passes(bytes);
      if (passed.length === 0) done();
      else raw.write(passed, done);
    },
  });
  raw.on('data', (bytes) => stream.push(bytes));
  raw.on('end', () => stream.push(null));
  raw.on('close', () => stream.destroy());
  raw.on('error', () => {});
  stream.on('error', () => {});
  return { raw, stream };
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
  readonly #suite: string;
  #records: SealedRecords;

  private constructor(raw: Socket, secure: tls.TLSSocket, secret: Buffer) {
    this.raw = raw;
    this.secure = secure;
    this.#suite = secure.getCipher().standardName;
    this.#records = new SealedRecords(this.#suite, secret);
  }

  static async connect(port: number, options: tls.ConnectionOptions): Promise<RecordClient> {
    const { raw, stream } = belowTls(port);
    const secure = tls.connect({ ...options, minVersion: 'TLSv1.3', socket: stream });
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

  /** @param padding zeros behind it, which nobody but its reader sees. */
  record(type: number, content: Buffer, padding = 0): Buffer {
    return this.#records.record(type, content, padding);
  }

  data(text: string): Buffer {
    return this.record(contentType.data, Buffer.from(text));
  }

  /** Everything behind it has the next keys (RFC 8446 section 4.6.3). */
  keyUpdate(asks: boolean, padding = 0): Buffer {
    const record = this.record(contentType.handshake, Buffer.of(24, 0, 0, 1, asks ? 1 : 0), padding);
    this.#records = this.#records.updated(this.#suite);
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
