import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { markReset } from './node-internals.ts';

/** RST where the transport can, so that the other side never takes a broken stream for a finished one. */
export function resetOrDestroy(stream: Duplex): void {
  if (stream.destroyed) return;
  if (mayReset(stream)) destroyByReset(stream);
  else stream.destroy();
}

/**
 * Where our end has been said already, it has been said; not as long as bytes before it wait. TLS has a truncation of its own,
 * the end of TCP without close_notify, which many a client takes for an end: what carries it is reset.
 */
function mayReset(stream: Duplex): stream is Socket {
  return stream instanceof Socket && (!stream.writableEnded || stream.writableLength > 0);
}

/**
 * RST, at once: Node's own `resetAndDestroy` ends the stream first and waits for all that is unsent, and when anything
 * destroys the socket while that end is under way, libuv refuses the reset (EINVAL) and the descriptor is never closed.
 */
function destroyByReset(socket: Socket): void {
  if (markReset(socket) || 'encrypted' in socket) socket.destroy();
  else socket.resetAndDestroy();
}

/** Sockets whose orderly end is what makes whole what is sent on them. */
const wholeByEnd = new WeakSet<Socket>();

/**
 * From here on only an orderly end says that what is sent is whole: whatever else ends the socket, before that end and all
 * that waits before it have been handed over, resets it.
 */
export function resetUnlessEnded(socket: Socket): void {
  if (wholeByEnd.has(socket)) return;
  wholeByEnd.add(socket);
  const destroy = socket.destroy.bind(socket);
  const destroyOrReset = (error?: Error): Socket => {
    if (!socket.destroyed && mayReset(socket)) markReset(socket);
    return destroy(error);
  };
  socket.destroy = destroyOrReset;
}

/**
 * The two sides of a tunnel: bytes say nothing of their own about being whole, so that whoever ends one of them before it has
 * been ended in order (a limit, policy, a stop) breaks it off.
 */
export function cutMeansReset(client: Duplex, app: Duplex): void {
  for (const stream of [client, app]) if (stream instanceof Socket) resetUnlessEnded(stream);
}

/** Whether to end it the short way, with no end of ours before, would be taken for a break. */
export function needsOrderlyEnd(socket: Socket): boolean {
  return wholeByEnd.has(socket);
}
