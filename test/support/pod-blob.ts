import { createCipheriv, createHash } from 'node:crypto';

/** Bytes in which any loss, doubling or swap shows; the same each time, in whichever process. */
export function blob(bytes: number): Buffer {
  return createCipheriv('aes-128-ctr', Buffer.alloc(16, 7), Buffer.alloc(16)).update(Buffer.alloc(bytes));
}

export function sha256(data: Buffer): string {
  return createHash('sha256').update(data).digest('hex');
}
