import type { Socket } from 'node:net';
import { latin1Slice } from '../node-internals.ts';
import { outletOf } from '../node-writes.ts';

/** Up to this size a text is faster than a buffer: the system gets it from the stack. */
const smallText = 1024;
/** The same where the system does not get it at once: a socket that holds back what is written, or one of TLS that is busy. */
const heldText = 8 * 1024;
/** Fewer bytes are copied into a buffer of their own as fast, where they do not leave at once. */
const mostCopied = 32 * 1024;

/**
 * Writes a text. Where nothing waits it leaves at the end of this turn of the event loop.
 *
 * @param text one character per byte.
 * @returns false when the peer is slow.
 */
export function writeText(socket: Socket, text: string): boolean {
  return outletOf(socket).text(text);
}

/**
 * Writes a head and the content behind it, together where that is cheaper: one system call, and the peer wakes up once.
 *
 * @param head one character per byte.
 * @param isLent the content's buffer is used for something else when this returns.
 * @returns false when the peer is slow.
 */
export function writeJoined(socket: Socket, head: string, content: Buffer, isLent: boolean): boolean {
  const { length } = content;
  const outlet = outletOf(socket);
  if (length === 0) return outlet.text(head);
  const mayBeText = length <= (outlet.isDirect ? smallText : heldText);
  if (!mayBeText || outlet.isSecure) {
    const joined = length > mostCopied ? null : outlet.copy(head, content, length);
    if (joined !== null) return joined;
  }
  if (mayBeText) return outlet.text(head + latin1Slice(content, 0, length));
  outlet.text(head);
  return writeBytes(socket, content, isLent);
}

/**
 * Writes bytes whose buffer is used for something else when this returns.
 *
 * @returns false when the peer is slow.
 */
export function writeLent(socket: Socket, bytes: Buffer): boolean {
  // What waits in the stream does so in a buffer of its own size: a client may send its content one byte at a time to a slow app.
  return outletOf(socket).copy('', bytes, bytes.length) ?? socket.write(Buffer.from(bytes));
}

/**
 * Writes bytes.
 *
 * @param isLent as with `writeJoined`.
 * @returns false when the peer is slow.
 */
export function writeBytes(socket: Socket, bytes: Buffer, isLent: boolean): boolean {
  return isLent ? writeLent(socket, bytes) : socket.write(bytes);
}
