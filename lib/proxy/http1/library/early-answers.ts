import type { Socket } from 'node:net';
import { hasSpoken } from '../../socket-calls.ts';
import { hearLastWords } from '../last-words.ts';
import { isRequestHead } from './undici-pool.ts';

/** How undici ends a head, with what it says of the content behind it; and its last chunk. */
const inChunks = 'transfer-encoding: chunked\r\n';
const ofLength = /\r\ncontent-length: ([0-9]+)\r\n\r\n$/;
const lastChunk = '\r\n0\r\n\r\n';

/** Bytes of content that come behind a head, as far as that says. */
function contentBehind(head: string): number {
  return head.endsWith(inChunks) ? Number.POSITIVE_INFINITY : Number(ofLength.exec(head)?.[1] ?? 0);
}

/**
 * undici gets to read what an app has said by the time a write to it fails.
 *
 * @param socket a connection to the app that undici has not used yet.
 */
export function withEarlyAnswers(socket: Socket): Socket {
  const read = socket.read.bind(socket);
  const write = socket.write.bind(socket);
  let requests = 0;
  let left = 0;
  const writing = (data: string | Uint8Array, ...rest: []): boolean => {
    if (isRequestHead(data)) {
      // Said before the request has left it is no response to that: response queue poisoning.
      if (requests > 0 && hasSpoken(socket)) {
        socket.destroy();
        return false;
      }
      requests++;
      left = contentBehind(data);
    } else if (typeof data !== 'string') {
      left -= data.length;
    } else if (data === lastChunk) {
      left = 0;
    }
    return write(data, ...rest);
  };
  socket.write = writing as Socket['write'];
  let words: Buffer | null = null;
  const reading = (size?: number): unknown => {
    const bytes: unknown = read(size);
    if (bytes !== null || words === null) return bytes;
    const last = words;
    words = null;
    return last;
  };
  socket.read = reading;
  // On a connection that has served others they may be about its being idle.
  const isWanted = (): boolean => requests === 1 || left > 0;
  const hear = (unread: Buffer): void => {
    if (unread.length === 0) return;
    words = unread;
    socket.emit('readable');
  };
  hearLastWords(socket, isWanted, hear);
  return socket;
}
