import type { Socket } from 'node:net';
import tls from 'node:tls';
import { belowTls, contentType, SealedRecords } from './tls-records.ts';

/*
 * A client of TLS 1.3 that writes the second part of its handshake itself: certificates that no library would send, in
 * records as no library cuts them.
 */

function message(type: number, ...content: readonly Buffer[]): Buffer {
  const body = Buffer.concat(content);
  return Buffer.concat([Buffer.of(type), number(body.length, 3), body]);
}

function number(value: number, bytes: number): Buffer {
  const written = Buffer.alloc(bytes);
  written.writeUIntBE(value, 0, bytes);
  return written;
}

/** RFC 8446 section 4.4.2. */
export function certificateMessage(certificates: readonly Buffer[]): Buffer {
  const list = certificates.map((der) => Buffer.concat([number(der.length, 3), der, number(0, 2)]));
  const body = Buffer.concat(list);
  return message(11, Buffer.of(0), number(body.length, 3), body);
}

/** RFC 8446 section 4.4.3. */
export function certificateVerify(scheme: number, signature: Buffer): Buffer {
  return message(15, number(scheme, 2), number(signature.length, 2), signature);
}

export interface ShowingOptions extends tls.ConnectionOptions {
  readonly port: number;
  readonly servername: string;
  /** In one piece with the ClientHello. */
  readonly behindHello?: Buffer;
}

/** A handshake up to where the server waits for the client's certificate. */
export class ShowingClient {
  readonly raw: Socket;
  readonly records: SealedRecords;
  readonly closed: Promise<void>;

  private constructor(raw: Socket, records: SealedRecords, closed: Promise<void>) {
    this.raw = raw;
    this.records = records;
    this.closed = closed;
  }

  static async connect({ port, behindHello = Buffer.alloc(0), ...options }: ShowingOptions): Promise<ShowingClient> {
    let writes = 0;
    // Its first write is the ClientHello.
    const { raw, stream } = belowTls(port, (written) =>
      writes++ === 0 ? Buffer.concat([written, behindHello]) : Buffer.alloc(0),
    );
    const closed = new Promise<void>((resolve) => raw.once('close', resolve));
    raw.once('end', () => raw.end());
    const secure = tls.connect({ ...options, rejectUnauthorized: false, minVersion: 'TLSv1.3', socket: stream });
    secure.on('error', () => {});
    raw.once('close', () => secure.destroy());
    let secret: Buffer | null = null;
    secure.on('keylog', (line: Buffer) => {
      const [name, , hex = ''] = String(line).trim().split(' ');
      if (name === 'CLIENT_HANDSHAKE_TRAFFIC_SECRET') secret = Buffer.from(hex, 'hex');
    });
    await new Promise<void>((resolve, reject) => {
      secure.once('secureConnect', resolve);
      raw.once('close', () => reject(new Error('the server has closed the connection')));
    });
    if (secret === null) throw new Error('no secret of its own');
    return new ShowingClient(raw, new SealedRecords(secure.getCipher().standardName, secret), closed);
  }

  /** Handshake messages in records of so many bytes each. */
  sealed(messages: Buffer, recordBytes = 16_384, padding = 0): Buffer {
    const records: Buffer[] = [];
    for (let at = 0; at < messages.length; at += recordBytes) {
      records.push(this.records.record(contentType.handshake, messages.subarray(at, at + recordBytes), padding));
    }
    return Buffer.concat(records);
  }

  destroy(): void {
    this.raw.destroy();
  }
}
