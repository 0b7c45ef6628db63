import type { Socket } from 'node:net';
import { CountedReads } from '../fairness/turn.ts';
import { writeWaiting } from '../node-writes.ts';
import { needsOrderlyEnd } from '../resets.ts';

/** Milliseconds without a byte after which a peer is taken to have read what was sent last. */
const quietMs = 1000;
/** Milliseconds for which a peer may go on sending after that, and bytes. It has had time to see that nobody listens. */
const lingerMs = 10_000;
const lingerBytes = 16 * 1024 * 1024;

/**
 * Ends our side, and the connection once the peer has ended its own, or has had the time to read what was sent last.
 * What it still sends is read away, never parsed: bytes that nobody reads make the kernel reset the connection, and a
 * peer whose next write fails for it never reads its response (RFC 9112 9.6), or why its session ended (RFC 9113 6.8).
 *
 * @param patience a slow peer may take its time for what is on its way (`patient`), one that has broken a rule or a
 *   deadline may not.
 */
export function endAfterLastBytes(socket: Socket, patience: 'patient' | 'impatient'): void {
  if (socket.destroyed) return;
  writeWaiting(socket);
  socket.removeAllListeners('data');
  socket.removeAllListeners('timeout');
  const end = (): void => {
    socket.destroy();
  };
  let left = lingerBytes;
  const counted = CountedReads.of(socket);
  const reader = { nextTurn: () => void socket.resume(), destroy: end };
  socket.on('data', (chunk: Buffer) => {
    left -= chunk.length;
    if (left < 0) socket.destroy();
    else if (!counted.take(chunk.length, reader)) socket.pause();
  });
  const linger = (): void => {
    if (socket.destroyed) return;
    socket.setTimeout(quietMs, end);
    const timer = setTimeout(end, lingerMs);
    socket.once('close', () => clearTimeout(timer));
  };
  if (socket.readableEnded) {
    // Nothing more will come.
    socket.end(end);
    return;
  }
  // A client that has ended its own side may still be reading: what waits for it is not dropped, as a response that ends with
  // its connection would look whole without it. One that reads nothing is the stall timeout's.
  socket.once('end', () => {
    if (socket.writableFinished) end();
    else socket.once('finish', end);
  });
  if (patience === 'patient' && socket.writableLength > 0) {
    socket.end(linger);
  } else {
    socket.end();
    linger();
  }
  socket.resume();
}

/**
 * Ends a connection behind the last response on it.
 *
 * @param isSilent the client has said that it sends nothing more. What the kernel has taken already still arrives, so
 *   its own FIN is enough.
 */
export function endAfterLastResponse(socket: Socket, isSilent: boolean): void {
  writeWaiting(socket);
  if (!isSilent) endAfterLastBytes(socket, 'patient');
  else if (!('encrypted' in socket) && socket.writableLength === 0 && !needsOrderlyEnd(socket)) socket.destroy();
  else socket.destroySoon();
}

/**
 * Ends a connection with a last response, after which nothing is read.
 *
 * @param status a status line's code and reason.
 */
export function endWithStatus(socket: Socket, status: string): void {
  if (socket.writable) socket.write(`HTTP/1.1 ${status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`);
  endAfterLastBytes(socket, 'impatient');
}
