import http from 'node:http';
import net from 'node:net';
import type { Duplex } from 'node:stream';
import type { CodedLog } from '../errors/complaint.ts';
import { givesHandles, type Handle, handleOf, keepsHandle } from './node-handles.ts';
import { canIntercept } from './node-intercept.ts';
import { missing } from './node-missing.ts';
import { canLend, canTellFirstRead, canWriteAtOnce } from './node-streams.ts';

/*
 * All that is used of Node without being documented, but for handles (node-handles.ts), how sockets read and write at once (node-streams.ts,
 * node-writes.ts), how their bytes are had before TLS has them (node-intercept.ts), and for TLS sockets (tls/node-tls.ts).
 * Nothing else in lib/ reaches for such a thing, and `checkNode` looks for each at the start.
 * What undici does not document is in http1/library/undici-pool.ts: its pieces, and one message.
 */

interface Resettable {
  resetAndClosing?: boolean;
}

/** Whether a socket that is destroyed looks at the mark. Nothing else of it is to be seen before. */
function heedsReset(): boolean {
  return String(Reflect.get(net.Socket.prototype, '_destroy')).includes('.resetAndClosing');
}

const canReset = heedsReset();

/** What destroys the socket next resets it. False, and nothing changes, where Node has no such mark. */
export function markReset(socket: net.Socket): boolean {
  if (canReset) (carrierOf(socket) as Resettable).resetAndClosing = true;
  return canReset;
}

/** What a TLS socket is on, which is destroyed with it; any other socket is its own. */
function carrierOf(socket: net.Socket): net.Socket {
  const { _parent: carrier } = socket as { readonly _parent?: unknown };
  return 'encrypted' in socket && carrier instanceof net.Socket ? carrier : socket;
}

interface Latin1 {
  latin1Slice?(start: number, end: number): string;
}

/** As `toString('latin1', start, end)`, which ends up there; faster by a tenth. */
export const latin1Slice: (bytes: Buffer, start: number, end: number) => string =
  (Buffer.prototype as Latin1).latin1Slice === undefined
    ? (bytes, start, end) => bytes.toString('latin1', start, end)
    : (bytes, start, end) => (bytes as unknown as Required<Latin1>).latin1Slice(start, end);

/** A response on a connection that the parser has let go of. */
export function responseOn(request: http.IncomingMessage, socket: Duplex): http.ServerResponse {
  const response = new http.ServerResponse(request);
  response.assignSocket(socket as net.Socket);
  return response;
}

/** Whether the connection may go on after this response, as far as the request's head says. */
export function staysOpen(response: http.ServerResponse): boolean {
  return response.shouldKeepAlive;
}

/** Says in the response's head, and sees to it, that the connection ends with it. */
export function endAfter(response: http.ServerResponse): void {
  response.shouldKeepAlive = false;
}

/** The socket is no longer the response's: it goes on as a tunnel. */
export function detach(response: http.ServerResponse, socket: Duplex): void {
  response.detachSocket(socket as net.Socket);
}

/**
 * How Node's HTTP server, and all others that would have it destroyed soon, end a connection. Its own way is to close at
 * once after the last response, which resets the connection where the client is still sending.
 */
export function endBy(socket: net.Socket, end: () => void): void {
  socket.destroySoon = end;
}

/** What a parser of an HTTP server is fed through. */
export interface Feed {
  /** @returns how many bytes the parser has taken; it drops the others, if nobody gives them to it again. */
  data(piece: Buffer): number;
  end(): void;
}

interface HttpParser {
  execute: (bytes: Buffer) => unknown;
}

/** Of what a parser was given last. */
let taken = 0;

function executeCounting(this: HttpParser, bytes: Buffer): unknown {
  const result = (Object.getPrototypeOf(this) as HttpParser).execute.call(this, bytes);
  taken = typeof result === 'number' ? result : bytes.length;
  return result;
}

/** Parsers are used again, by one connection after another: it is done once to each. */
function countTaken(parser: HttpParser): void {
  if (!Object.hasOwn(parser, 'execute')) Object.assign(parser, { execute: executeCounting });
}

/** Takes a socket away from the HTTP server that has just been given it; what it yields feeds the server's parser. */
export function takeFeed(socket: net.Socket): Feed {
  const [data] = socket.listeners('data') as ((piece: Buffer) => void)[];
  // Others, Node's own stream among them, have listened for the end before.
  const end = socket.listeners('end').at(-1) as (() => void) | undefined;
  if (data === undefined || end === undefined) {
    throw missing("the http.Server's listener for data, or the one for the end", 'HTTP/1 beyond the plain');
  }
  socket.removeListener('data', data);
  socket.removeListener('end', end);
  const { parser } = socket as { readonly parser?: HttpParser };
  if (parser !== undefined) countTaken(parser);
  const given = (piece: Buffer): number => {
    taken = piece.length;
    data.call(socket, piece);
    return taken;
  };
  return { data: given, end: end.bind(socket) };
}

/** What of a running proxy's business depends on its configuration. */
export interface NodeUses {
  /** It listens for redirected connections. */
  readonly redirected: boolean;
  /** TLS ends here. */
  readonly secured: boolean;
}

/** Whether the handle of a TLS socket has what it writes to under this name. Its source says so; TLS is loaded by then anyway. */
function keepsParent(): boolean {
  const { TLSSocket } = process.getBuiltinModule('node:tls');
  return String(Reflect.get(TLSSocket.prototype, '_wrapHandle')).includes('._parent = ');
}

interface NodeInterface {
  readonly name: string;
  readonly use: string;
  readonly isNeeded: (uses: NodeUses) => boolean;
  /** What is worse without it; null: nothing goes on without it. */
  readonly without: string | null;
  readonly isThere: (handle: Partial<Handle>) => boolean;
}

const always = (): boolean => true;

/** `takeFeed` looks for the one that is not here, since to have a parser at the start would take 14 ms. */
const interfaces: readonly NodeInterface[] = [
  {
    name: '_handle.fd of a net.Socket',
    use: 'the original destination of redirected connections',
    isNeeded: ({ redirected }) => redirected,
    without: null,
    isThere: ({ fd }) => typeof fd === 'number',
  },
  {
    name: 'http.ServerResponse.prototype.assignSocket and detachSocket',
    use: 'responses to upgrades',
    isNeeded: always,
    without: null,
    isThere: () => {
      const { assignSocket, detachSocket } = http.ServerResponse.prototype;
      return typeof assignSocket === 'function' && typeof detachSocket === 'function';
    },
  },
  {
    name: 'shouldKeepAlive of an http.ServerResponse',
    use: 'ending HTTP/1 connections in good order',
    isNeeded: always,
    without: null,
    isThere: () => typeof new http.OutgoingMessage().shouldKeepAlive === 'boolean',
  },
  {
    name: '_handle.writeQueueSize of a net.Socket',
    use: 'telling slow readers from those that have stopped',
    isNeeded: always,
    without: 'where memory is short, a client that reads slowly is cut off as one that does not read',
    isThere: ({ writeQueueSize }) => typeof writeQueueSize === 'number',
  },
  {
    name: 'resetAndClosing of a net.Socket',
    use: 'breaking off connections',
    isNeeded: always,
    without: 'a connection that is broken off may keep its descriptor',
    isThere: heedsReset,
  },
  {
    name: '_handle.setNoDelay and setKeepAlive of a net.Server',
    use: 'options of accepted connections',
    isNeeded: () => process.platform === 'linux',
    without: 'each connection takes five more system calls',
    isThere: ({ setNoDelay, setKeepAlive }) => typeof setNoDelay === 'function' && typeof setKeepAlive === 'function',
  },
  {
    name: '_handle.onconnection of a net.Server',
    use: 'connections with a single request',
    isNeeded: () => process.platform === 'linux',
    without: 'a connection with a single request takes a third more time',
    isThere: givesHandles,
  },
  {
    name: '_handle.open of a net.Server',
    use: 'connections that another worker has accepted',
    isNeeded: () => process.platform === 'linux',
    without: 'a connection with a single request that another worker has accepted takes a third more time',
    isThere: ({ open }) => typeof open === 'function',
  },
  {
    name: '_handle.readStart and readStop of a net.Socket',
    use: 'TLS handshakes that end a few at a time',
    isNeeded: always,
    without: 'hundreds of TLS clients that answer at one moment hold up the others',
    isThere: ({ readStart, readStop }) => typeof readStart === 'function' && typeof readStop === 'function',
  },
  {
    name: '_handle.onread of a net.Socket',
    use: 'connections with a single request that comes late',
    isNeeded: () => process.platform === 'linux',
    without: 'a connection with a single request takes a third more time, where its request comes behind it',
    isThere: canTellFirstRead,
  },
  {
    name: "_handle.useUserBuffer and the symbols of a net.Socket's onread",
    use: 'reading clients without a buffer for each read',
    isNeeded: always,
    without: 'each read of a client takes a buffer of its own, and more time',
    isThere: ({ useUserBuffer }) => typeof useUserBuffer === 'function' && canLend(),
  },
  {
    name: "process.binding('stream_wrap') with WriteWrap and streamBaseState, and _handle.writeBuffer and writeLatin1String of a net.Socket",
    use: 'writing what the system takes at once, and together what one turn of the event loop has',
    isNeeded: always,
    without: 'each write takes more time',
    isThere: ({ writeBuffer, writeLatin1String }) =>
      typeof writeBuffer === 'function' && typeof writeLatin1String === 'function' && canWriteAtOnce(),
  },
  {
    name: '_parent of the handle of a tls.TLSSocket',
    use: 'writing what TLS takes at once',
    isNeeded: ({ secured }) => secured,
    without: 'each write over TLS takes more time',
    isThere: keepsParent,
  },
  {
    name: 'HTTPParser of node:_http_common with execute, consume, unconsume and getCurrentBuffer',
    use: 'reading what TLS is to read before it does',
    isNeeded: always,
    without:
      'each connection over TLS takes 16 KiB more memory, and a read of it, or its certificates, may hold up others for a tenth of a second or more',
    isThere: canIntercept,
  },
  {
    name: 'Buffer.prototype.latin1Slice',
    use: 'reading HTTP/2 heads',
    isNeeded: always,
    without: 'HTTP/2 heads take more time',
    isThere: () => typeof (Buffer.prototype as Latin1).latin1Slice === 'function',
  },
];

interface ProbeHandle {
  readonly handle: Partial<Handle>;
  release(): void;
}

/** What `listen` makes its handle with; a number where the system refuses. */
type CreateHandle = (address: string, port: number, addressType: 4, fd: number, flags: number) => object | number;

/**
 * A handle of the class that sockets and listeners of TCP have. `listen` has a function for just that, which takes a fifth
 * of a millisecond in a new process: it binds, and nothing listens. Without it, a whole socket: 2 ms.
 */
function probeHandle(): ProbeHandle {
  const create = (net as { readonly _createServerHandle?: CreateHandle })._createServerHandle;
  const handle = create?.('127.0.0.1', 0, 4, -1, 0);
  if (typeof handle === 'object') {
    const { close } = handle as { close?(): void };
    return { handle, release: () => close?.call(handle) };
  }
  // Ended before its connect can begin: no packet is sent.
  const socket = net.connect({ host: '127.0.0.1', port: 9 });
  return { handle: handleOf(socket) ?? {}, release: () => socket.destroy() };
}

/**
 * Looks for every interface that this list has, once at the start: half a millisecond in a new process.
 *
 * @param warn called for each that is missing and can be done without.
 * @throws `ERR_SALLYPORT_NODE` for one that cannot.
 */
export function checkNode(uses: NodeUses, warn: CodedLog['warn']): void {
  const { handle, release } = probeHandle();
  // Where sockets do not keep theirs under this name, nothing of it can be reached.
  const reached = keepsHandle() ? handle : {};
  try {
    for (const { name, use, isNeeded, without, isThere } of interfaces) {
      if (!isNeeded(uses) || isThere(reached)) continue;
      if (without === null) throw missing(name, use);
      warn(
        { code: 'node-interface', node: process.version, missing: name, use },
        `An interface of Node is gone: ${without}`,
      );
    }
  } finally {
    release();
  }
}
