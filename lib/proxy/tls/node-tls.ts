import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { missing } from '../node-missing.ts';

/* What is used of Node's TLS sockets without being documented. `checkTls` looks for it before TLS ends here. */

/** A TLS socket on the server's side, with what `tls.Server` does for those that it makes. */
interface TlsInternals {
  readonly _handle: {
    /** Null where OpenSSL has verified the chain of the client's certificate. */
    verifyError?(): { readonly code?: string } | null;
    receive?(bytes: Buffer): void;
  } | null;
  /** From then on its errors are events. Before, Node takes them for the handshake's, and keeps them to itself. */
  _releaseControl?(): boolean;
  /** While it is true, HTTP/2 of Node waits for an event that only a client's socket has. */
  secureConnecting?: boolean;
  /** Its listeners: a function for each event, or an array of them. */
  _events?: Record<string | symbol, unknown>;
}

const internalsOf = (socket: TLSSocket): TlsInternals => socket as unknown as TlsInternals;

/** Why the client's certificate does not verify, by OpenSSL's name for it; null only where it does. */
export function verifyErrorOf(socket: TLSSocket): string | null {
  const handle = internalsOf(socket)._handle;
  const error = handle?.verifyError?.();
  if (error === null) return null;
  return error?.code ?? 'UNSPECIFIED';
}

/** The handshake is over: what goes wrong with the socket from now on is its own error. */
export function releaseTls(socket: TLSSocket): void {
  const internals = internalsOf(socket);
  internals.secureConnecting = false;
  internals._releaseControl?.();
}

/**
 * Of a new TLS socket on a connection that was accepted: Node waits for the connect. One by one: all of an event at once would
 * make a table of the listeners.
 */
export function leaveOutListeners(secure: TLSSocket, accepted: Socket): void {
  for (const listener of accepted.rawListeners('connect')) accepted.removeListener('connect', asListener(listener));
  const internals = internalsOf(secure);
  const { _events: events } = internals;
  if (events !== undefined) internals._events = shaped(events);
}

/**
 * Node listens to a TLS socket before it is a stream, and its listeners are a table then, of half a kilobyte. In a stream's
 * they are an object, whose properties all of them share, as here: the events that we heed are named once.
 */
function shaped(events: Readonly<Record<string | symbol, unknown>>): Record<string | symbol, unknown> {
  const made: Record<string | symbol, unknown> = {
    close: undefined,
    error: undefined,
    end: undefined,
    data: undefined,
    drain: undefined,
    secure: undefined,
    keylog: undefined,
  };
  for (const type of Reflect.ownKeys(events)) if (events[type] !== undefined) made[type] = events[type];
  return made;
}

/** For two listeners of its end: where there were three for a while, their array has room for twenty. */
export function renewListeners(socket: Socket): void {
  const last = socket.rawListeners('close').at(-1);
  if (last === undefined) return;
  socket.removeListener('close', asListener(last));
  socket.on('close', asListener(last));
}

const asListener = (listener: unknown): (() => void) => listener as () => void;

/**
 * Less than the first buffer of a TLS connection in Node has room for (1 KiB). Once that has been full, there is a second
 * one of 16 KiB, for as long as the connection lives.
 */
const tlsPiece = 1023;

/**
 * Has TLS read what was read of its connection before.
 *
 * @param isLarge part of something that needs the second buffer.
 */
export function feedTls(socket: TLSSocket, bytes: Buffer, isLarge: boolean): void {
  const piece = isLarge ? bytes.length : tlsPiece;
  for (let at = 0; at < bytes.length; at += piece) {
    // A piece may be the end of it.
    internalsOf(socket)._handle?.receive?.(bytes.subarray(at, at + piece));
  }
}

/**
 * Looks for all of that on a socket that was made for it.
 *
 * @throws `ERR_SALLYPORT_NODE`
 */
export function checkTls(sample: TLSSocket): void {
  const { _handle: handle, _releaseControl: release } = internalsOf(sample);
  const isThere: Readonly<Record<string, boolean>> = {
    '_handle.verifyError of a tls.TLSSocket': typeof handle?.verifyError === 'function',
    '_handle.receive of a tls.TLSSocket': typeof handle?.receive === 'function',
    '_releaseControl of a tls.TLSSocket': typeof release === 'function',
    "event 'secure' of a tls.TLSSocket": String(Reflect.get(sample, '_finishInit')).includes("emit('secure')"),
  };
  for (const [name, there] of Object.entries(isThere)) if (!there) throw missing(name, 'TLS that ends here');
}
