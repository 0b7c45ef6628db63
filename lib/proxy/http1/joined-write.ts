import type { Socket } from 'node:net';
import { latin1Slice } from '../node-internals.ts';

/** Up to this size a text is faster than a buffer: the system gets it from the stack. */
const smallText = 1024;
/** The same where the system does not get it at once: TLS, and sockets that hold back what is written. */
const heldText = 8 * 1024;
/** More content than this is written by itself: to copy it would cost as much as the system call that is spared. */
const mostJoined = 32 * 1024;

/** Room for one head and its content. */
const roomBytes = 2 * mostJoined;
let room = Buffer.allocUnsafeSlow(roomBytes);

/**
 * Writes a head and the content behind it, together where that is cheaper: one system call, and the peer wakes up once.
 *
 * @param head one character per byte.
 * @param isLent the content's buffer is used for something else when this returns.
 * @returns false when the peer is slow.
 */
export function writeJoined(socket: Socket, head: string, content: Buffer, isLent: boolean): boolean {
  const { length } = content;
  if (length === 0) return socket.write(head, 'latin1');
  const isHeld = 'encrypted' in socket || socket.writableCorked > 0;
  if (length <= (isHeld ? heldText : smallText)) {
    return socket.write(head + latin1Slice(content, 0, length), 'latin1');
  }
  if (isHeld || length > mostJoined || head.length > mostJoined) {
    socket.write(head, 'latin1');
    return socket.write(isLent ? Buffer.from(content) : content);
  }
  const at = room.write(head, 'latin1');
  content.copy(room, at);
  const mayGoOn = socket.write(room.subarray(0, at + length));
  // The system has not taken it all: the rest waits where it is.
  if (socket.writableLength > 0) room = Buffer.allocUnsafeSlow(roomBytes);
  return mayGoOn;
}
