import type { Socket } from 'node:net';
import { latin1Slice } from '../node-internals.ts';

/** Up to this size a text is faster than a buffer: the system gets it from the stack. */
const smallText = 1024;
/** The same where the system does not get it at once: TLS, and sockets that hold back what is written. */
const heldText = 8 * 1024;
/** More content than this is written by itself: to copy it would cost as much as the system call that is spared. */
const mostJoined = 32 * 1024;

/** Fewer bytes are copied into a buffer of their own as fast. */
const leastInRoom = 8 * 1024;

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
  const holdsBack = isHeld(socket);
  if (length <= (holdsBack ? heldText : smallText)) {
    return socket.write(head + latin1Slice(content, 0, length), 'latin1');
  }
  if (holdsBack || length > mostJoined || head.length > mostJoined) {
    socket.write(head, 'latin1');
    return isLent ? writeLent(socket, content) : socket.write(content);
  }
  const at = room.write(head, 'latin1');
  content.copy(room, at);
  return writeRoom(socket, at + length);
}

/**
 * Writes bytes whose buffer is used for something else when this returns.
 *
 * @returns false when the peer is slow.
 */
export function writeLent(socket: Socket, bytes: Buffer): boolean {
  const { length } = bytes;
  // What waits does so in a buffer of its own size: a client may send its content one byte at a time to a slow app.
  if (length < leastInRoom || length > roomBytes || isHeld(socket) || socket.writableLength > 0) {
    return socket.write(Buffer.from(bytes));
  }
  bytes.copy(room);
  return writeRoom(socket, length);
}

/** The system does not get what is written at once. */
function isHeld(socket: Socket): boolean {
  return 'encrypted' in socket || socket.writableCorked > 0;
}

function writeRoom(socket: Socket, length: number): boolean {
  const mayGoOn = socket.write(room.subarray(0, length));
  // The system has not taken it all: the rest waits where it is.
  if (socket.writableLength > 0) room = Buffer.allocUnsafeSlow(roomBytes);
  return mayGoOn;
}
