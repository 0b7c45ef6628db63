import type { Socket } from 'node:net';

/** Milliseconds for the peer to read a last GOAWAY. */
const lingerMs = 1000;

/**
 * Closes a connection once the peer has read our last frames, or has had the time for it. What it still sends is read
 * away: bytes that nobody reads would make the kernel reset the connection, and our frames with it.
 *
 * @param patient a slow peer may take its time to read its last responses; one that broke the rules may not.
 */
export function endAfterLastFrames(socket: Socket, patient: boolean): void {
  if (socket.isPaused()) socket.resume();
  const linger = (): void => {
    if (socket.destroyed) return;
    const timer = setTimeout(() => socket.destroy(), lingerMs);
    socket.once('close', () => clearTimeout(timer));
  };
  socket.once('end', () => socket.destroy());
  if (patient) {
    socket.end(linger);
  } else {
    socket.end();
    linger();
  }
}
