import type { Socket } from 'node:net';
import { unreadOf } from '../socket-calls.ts';

/**
 * An app that answers early (413, say) and closes resets its connection for what comes after. A write then may fail before the
 * response is read, and Node closes at once.
 *
 * @param isWanted whether what the app has said last can be about a request that is under way.
 * @param hear gets that before the socket is destroyed; it is empty where there was nothing.
 */
export function hearLastWords(socket: Socket, isWanted: () => boolean, hear: (words: Buffer) => void): void {
  const destroy = socket.destroy;
  const destroyBehind = (error?: NodeJS.ErrnoException): Socket => {
    if (error?.syscall === 'write' && !socket.destroyed && isWanted()) hear(unreadOf(socket));
    return destroy.call(socket, error);
  };
  socket.destroy = destroyBehind;
}
