import net from 'node:net';
import { missing } from './node-missing.ts';

// What of Node's handles is used without being documented. `checkNode` (node-internals.ts) looks for each at the start.

/** What a socket and a listener keep in `_handle`. */
export interface Handle {
  readonly writeQueueSize: number;
  readonly fd: number;
  setNoDelay(on: boolean): number;
  setKeepAlive(on: boolean, delaySeconds: number): number;
  readStart(): number;
  readStop(): number;
  useUserBuffer(buffer: Buffer): void;
  writeBuffer(request: object, bytes: Buffer): number;
  writeLatin1String(request: object, text: string): number;
  open(fd: number): number;
  listen(backlog: number): number;
  onconnection(this: object, status: number, accepted?: AcceptedHandle): void;
}

/** What a listener has accepted, before it is a stream. */
export interface AcceptedHandle {
  readonly fd: number;
  /** At once, and without an event. */
  close(): void;
}

/** Makes a stream of an accepted handle, as Node does for each. */
export type MakeStream = (handle: AcceptedHandle) => net.Socket;

export function handleOf(holder: object): Partial<Handle> | null {
  return (holder as { readonly _handle?: Partial<Handle> | null })._handle ?? null;
}

/** Whether sockets and listeners name it so. Their source says so, and no socket need be made for it. */
export function keepsHandle(): boolean {
  return [net.Socket.prototype.connect, net.Server.prototype.close].every((method) =>
    String(method).includes('this._handle'),
  );
}

/** Bytes that the kernel, or TLS, has not taken yet; they become fewer as the peer reads. */
export function queuedBytes(socket: object): number {
  return handleOf(socket)?.writeQueueSize ?? 0;
}

/** Of a socket, or of a listener; null for one that is closed. */
export function descriptorOf(holder: net.Socket | net.Server): number | null {
  const fd = handleOf(holder)?.fd;
  return fd === undefined || fd < 0 ? null : fd;
}

/** Whether the system's socket is read: TLS reads through it, past the `pause` of what it was made of. */
export function letRead(socket: object, on: boolean): void {
  const handle = handleOf(socket);
  if (on) handle?.readStart?.();
  else handle?.readStop?.();
}

/**
 * Linux gives an accepted socket the options of its listener. Asked to set them, Node makes five system calls for every
 * connection; one with a single request takes ten or eleven without them.
 *
 * @returns false where Node does not let us: then each connection must be asked.
 */
export function setOnListener(server: net.Server, keepAliveMs: number): boolean {
  const handle = handleOf(server);
  if (handle?.setNoDelay === undefined || handle.setKeepAlive === undefined) return false;
  handle.setNoDelay(true);
  handle.setKeepAlive(true, keepAliveMs / 1000);
  return true;
}

/**
 * Has a server that listens give away what it accepts, before it makes a stream of it. Errors are events as before.
 *
 * @returns how each becomes a stream; null where Node does not let us: then its `connection` events go on.
 */
export function takeHandles(
  server: net.Server,
  take: (handle: AcceptedHandle, make: MakeStream) => void,
): MakeStream | null {
  const listening = handleOf(server);
  const accept = listening?.onconnection;
  if (listening === null || accept === undefined) return null;
  let made: net.Socket | null = null;
  server.on('connection', (socket) => {
    made = socket;
  });
  const make: MakeStream = (handle) => {
    accept.call(listening, 0, handle);
    const socket = made;
    made = null;
    if (socket === null) throw missing("event 'connection' of a net.Server for each connection", 'accepting');
    return socket;
  };
  const onconnection: Handle['onconnection'] = (status, handle) => {
    if (handle === undefined) accept.call(listening, status);
    else take(handle, make);
  };
  Object.assign(listening, { onconnection });
  return make;
}

/** What makes the handle of an accepted connection: 0 for one that does not listen. */
type HandleClass = new (kind: 0) => AcceptedHandle & { open?(fd: number): number };

/** Makes the handle of a connection from its descriptor; null where Node does not let us. */
export type MakeHandle = (fd: number) => AcceptedHandle | null;

/** Of connections that Node has not accepted, as if this listener had, which may have closed since. */
export function handleMaker(server: net.Server): MakeHandle {
  const Handle = handleOf(server)?.constructor as HandleClass | undefined;
  return (fd) => {
    const handle = Handle === undefined ? null : new Handle(0);
    if (handle?.open?.(fd) === 0) return handle;
    handle?.close();
    return null;
  };
}

/**
 * Hardly anybody waits to be accepted from now on but those who do already: listen(2), again. One, since with none the
 * kernel takes the next for a flood, and its cookie tells a client that he is connected when he is not.
 *
 * @returns false where Node does not let us.
 */
export function letFewWait(server: net.Server): boolean {
  return handleOf(server)?.listen?.(1) === 0;
}

/** Whether a listener's handle has that callback. Its source says so. */
export function givesHandles(): boolean {
  return String(Reflect.get(net.Server.prototype, '_listen2')).includes('this._handle.onconnection = ');
}
