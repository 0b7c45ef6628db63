import type { Socket } from 'node:net';
import { lendReads, mayLendReads } from './node-streams.ts';

/** One for all clients of HTTP: what is read is dealt with, or copied, before the next read can happen. */
const lentData = Buffer.allocUnsafeSlow(64 * 1024);
/** What was read last: most reads are as long as the one before, and to look at the same bytes needs no new view. */
let view = lentData.subarray(0, 0);

/** Whether these bytes are only lent: they are others when the call that brought them has returned. */
export function isLent({ buffer }: Buffer): boolean {
  return buffer === lentData.buffer;
}

/**
 * From here on an accepted socket reads without a buffer for each read. To all others it is a stream like any: what `take`
 * does not want, and what comes while it is paused, waits or is emitted as `data`, copied.
 *
 * @param take gets what is read, which is only lent; false where it has not dealt with it.
 * @returns false, and nothing changes, where `mayLendReads` says no.
 */
export function lendData(socket: Socket, take: (bytes: Buffer) => boolean): boolean {
  if (!mayLendReads(socket)) return false;
  const callback = (length: number): boolean => {
    if (view.length !== length) view = lentData.subarray(0, length);
    const bytes = view;
    // `pause` stops reading, but the stream begins again where something was put back, or `resume` came just before.
    const isDirect = !socket.isPaused() && socket.readableLength === 0;
    return (isDirect && take(bytes)) || socket.push(Buffer.from(bytes));
  };
  lendReads(socket, { buffer: lentData, callback });
  return true;
}
