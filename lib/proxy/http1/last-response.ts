import type { Socket } from 'node:net';

/** Milliseconds in which a refused client may still send what was on its way: an immediate close would reset the response. */
const lingerMs = 1000;

/**
 * Ends a connection that is out of step; what the client still sends is read away, never parsed.
 *
 * @param status a status line's code and reason, for a last response; null when it has been given.
 */
export function endWith(socket: Socket, status: string | null): void {
  socket.removeAllListeners('data');
  if (status === null) socket.end();
  else socket.end(`HTTP/1.1 ${status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`);
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), lingerMs);
  socket.once('end', () => socket.destroy());
  socket.once('close', () => clearTimeout(timer));
}
