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

/** Gets what is read, which is only lent; false where it has not dealt with it. */
export type TakeLent = (bytes: Buffer, socket: Socket) => boolean;

/** Under this a socket keeps who that is. */
const taker = Symbol('taker');

interface Lending extends Socket {
  [taker]?: TakeLent;
}

/** One for all sockets. */
const lender = {
  buffer: lentData,
  callback(this: Lending, length: number): boolean {
    if (view.length !== length) view = lentData.subarray(0, length);
    const bytes = view;
    // `pause` stops reading, but the stream begins again where something was put back, or `resume` came just before.
    const isDirect = !this.isPaused() && this.readableLength === 0;
    return (isDirect && this[taker]?.(bytes, this) === true) || this.push(Buffer.from(bytes));
  },
};

/**
 * From here on an accepted socket reads without a buffer for each read. To all others it is a stream like any: what `take`
 * does not want, and what comes while it is paused, waits or is emitted as `data`, copied.
 *
 * @param take best the same function for many sockets, which each keep it.
 * @returns false, and nothing changes, where `mayLendReads` says no.
 */
export function lendData(socket: Socket, take: TakeLent): boolean {
  if (!mayLendReads(socket)) return false;
  (socket as Lending)[taker] = take;
  lendReads(socket, lender);
  return true;
}
