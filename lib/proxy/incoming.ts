import { Socket } from 'node:net';
import { systemErrorCode } from '../errors/coded-error.ts';
import { internalFault } from './guard.ts';
import { type Keeper, noKeeper } from './kept.ts';
import { type AcceptedHandle, descriptorOf, type MakeHandle, type MakeStream } from './node-handles.ts';
import { stopFirstRead, tellFirstRead } from './node-streams.ts';
import { type Accepted, closeNow, hasUnread, receiveNow, type SocketEnd, sendHeldBack } from './socket-calls.ts';

/** Who follows a connection to its end. */
export interface Follower {
  /** It is a stream: what is read, and its end, are events from now on. */
  streamed(socket: Socket): void;
  /** It has ended, a stream or not. */
  ended(): void;
}

/** Who waits for the first bytes of what is no stream yet. One of these is called, once. */
export interface FirstReader {
  came(bytes: Buffer): void;
  /** Nothing has come, and nothing will. */
  ended(): void;
  /** Somebody has made a stream of it meanwhile, from which they are to be read. */
  streamed(): void;
}

/** Less than `longRead`: what is read at once is no long work. One for all: it is copied before the next read. */
const early = Buffer.allocUnsafeSlow(4095);
/** Room for the last head and content of a connection. */
const last = Buffer.allocUnsafeSlow(8 * 1024);

const nothing = Buffer.alloc(0);

/** Under this a stream keeps the connection that it is of. */
const kept = Symbol('incoming');

/** What is called on its events: one function for all sockets, since connections that do nothing keep all that is theirs. */
interface OfIncoming extends Socket {
  [kept]?: Incoming;
}

function onClose(this: OfIncoming): void {
  this[kept]?.closed();
}

function onError(this: OfIncoming, error: unknown): void {
  this[kept]?.failed(error);
}

/** A connection that Node does not know of. */
class OnlyDescriptor implements AcceptedHandle {
  readonly peer: SocketEnd;
  readonly #makeHandle: MakeHandle;
  #fd: number;

  constructor({ fd, peer }: Accepted, makeHandle: MakeHandle) {
    this.#fd = fd;
    this.peer = peer;
    this.#makeHandle = makeHandle;
  }

  get fd(): number {
    return this.#fd;
  }

  close(): void {
    if (this.#fd >= 0) closeNow(this.#fd);
    this.#fd = -1;
  }

  /** This is nothing more from then on. */
  known(): AcceptedHandle | null {
    const handle = this.#fd < 0 ? null : this.#makeHandle(this.#fd);
    if (handle === null) this.close();
    this.#fd = -1;
    return handle;
  }
}

/**
 * An accepted connection. A stream of Node's, with its states, listeners and buffers, takes a third of the time that we spend on a
 * connection with a single request, and its memory half of what is collected afterwards. So a connection is bare at first: it is
 * read once, without waiting, and if that was all its client has to say, it may be answered and closed as it is. Whatever
 * else is to happen to it asks for its `socket`, which makes a stream of it for good.
 */
export class Incoming {
  readonly #make: MakeStream | null;
  /** Null once it is a stream, or closed. */
  #handle: AcceptedHandle | null;
  #socket: Socket | null;
  #first: Follower | null = null;
  #second: Follower | null = null;
  #errno = '';
  /** Who says who pays for what is kept of it before anybody knows what it is. */
  payer: { earlyKeeper(): Keeper } | null = null;
  /** Who waits for what comes first. */
  #reader: FirstReader | null = null;
  #received = 0;
  /** Read by the handle, which counts that itself for its stream. */
  #readFirst = 0;
  #sent = 0;

  private constructor(handle: AcceptedHandle | null, make: MakeStream | null, socket: Socket | null) {
    this.#handle = handle;
    this.#make = make;
    this.#socket = socket;
  }

  static bare(handle: AcceptedHandle, make: MakeStream): Incoming {
    return new Incoming(handle, make, null);
  }

  /** One that Node need not know of until there is more to it than what has come and its answer. */
  static ofDescriptor(accepted: Accepted, makeHandle: MakeHandle, make: MakeStream): Incoming {
    return new Incoming(new OnlyDescriptor(accepted, makeHandle), make, null);
  }

  /** What is a stream already: TLS, say. */
  static stream(socket: Socket): Incoming {
    return (socket as OfIncoming)[kept] ?? new Incoming(null, null, socket);
  }

  get socket(): Socket {
    return this.#socket ?? this.#streamed();
  }

  keeper(): Keeper {
    return this.payer?.earlyKeeper() ?? noKeeper;
  }

  get isBare(): boolean {
    return this.#socket === null;
  }

  /** Its client has yet to take what was written. */
  get needsDrain(): boolean {
    return this.#socket?.writableNeedDrain === true;
  }

  /** It is gone, or going: who begins to listen to it may hear nothing any more, not even its end. */
  get isOver(): boolean {
    return this.#socket === null ? this.#handle === null : this.#socket.destroyed;
  }

  get peer(): SocketEnd | null {
    return this.#handle instanceof OnlyDescriptor ? this.#handle.peer : null;
  }

  /** Null once it is closed. */
  get descriptor(): number | null {
    return this.#socket === null ? this.#bareDescriptor : descriptorOf(this.#socket);
  }

  get #bareDescriptor(): number | null {
    return this.#handle?.fd ?? null;
  }

  get bytesRead(): number {
    return this.#received + (this.#socket?.bytesRead ?? this.#readFirst);
  }

  get bytesWritten(): number {
    return this.#sent + (this.#socket?.bytesWritten ?? 0);
  }

  /** The system's name of what broke the stream; empty where nothing did. Only of one that is heeded. */
  get errno(): string {
    return this.#errno;
  }

  /** At most two do. One is told at once where it is a stream already, or over. */
  follow(follower: Follower): void {
    if (this.isBare && this.#handle === null) {
      follower.ended();
      return;
    }
    if (this.#first === null) this.#first = follower;
    else this.#second = follower;
    if (this.#socket === null) return;
    this.heed();
    follower.streamed(this.#socket);
  }

  unfollow(follower: Follower): void {
    if (this.#first === follower) this.#first = null;
    else if (this.#second === follower) this.#second = null;
  }

  /** An error of the stream ends it, and is known. Of one that is followed that is so already. */
  heed(): void {
    const socket: OfIncoming | null = this.#socket;
    if (socket === null || socket[kept] !== undefined) return;
    socket[kept] = this;
    socket.on('close', onClose);
    socket.on('error', onError);
  }

  closed(): void {
    for (const follower of [this.#first, this.#second]) {
      try {
        follower?.ended();
      } catch (error) {
        internalFault('the end of a connection', null, error);
      }
    }
  }

  failed(error: unknown): void {
    this.#errno = systemErrorCode(error);
    this.#socket?.destroy();
  }

  /** What has come already, or the beginning of it; empty where nothing has, or where it is a stream. */
  receive(): Buffer {
    const fd = this.#bareDescriptor;
    if (fd === null) return nothing;
    const length = receiveNow(fd, early);
    if (length <= 0) return nothing;
    this.#received += length;
    const bytes = Buffer.allocUnsafe(length);
    early.copy(bytes, 0, 0, length);
    return bytes;
  }

  /** Waits for what comes, and reads it. @returns false where that takes a stream, or it is closed. */
  awaitFirst(reader: FirstReader): boolean {
    this.#becomeKnown();
    if (this.#handle === null || !tellFirstRead(this.#handle, this)) return false;
    this.#reader = reader;
    return true;
  }

  #becomeKnown(): void {
    if (this.#handle instanceof OnlyDescriptor) this.#handle = this.#handle.known();
  }

  /** Nobody waits for what comes first any more. */
  forgetFirst(): void {
    if (this.#reader !== null && this.#handle !== null) stopFirstRead(this.#handle);
    this.#reader = null;
  }

  /** Of what is read first the handle says so. */
  firstRead(bytes: Buffer | null): void {
    const reader = this.#reader;
    this.#reader = null;
    this.#readFirst += bytes?.length ?? 0;
    if (bytes === null) reader?.ended();
    else reader?.came(bytes);
  }

  /**
   * Sends the last bytes of the connection, which leave together with its end.
   *
   * @param head one character per byte.
   * @returns false where nothing was sent: it is for the stream to do.
   */
  sendLast(head: string, content: Buffer): boolean {
    const fd = this.#bareDescriptor;
    const length = head.length + content.length;
    if (fd === null || length > last.length) return false;
    content.copy(last, last.write(head, 'latin1'));
    const sent = sendHeldBack(fd, last, length);
    if (sent < 0) return false;
    this.#sent += sent;
    if (sent < length) this.socket.write(Buffer.from(last.subarray(sent, length)));
    return true;
  }

  /** Ends it here and now, as it is; false where it cannot be, as there is more to read, or it is a stream. */
  endQuietly(): boolean {
    const fd = this.#bareDescriptor;
    // Bytes that nobody has read would make a reset of the end.
    if (fd === null || hasUnread(fd)) return false;
    this.#close();
    return true;
  }

  destroy(): void {
    if (this.#socket !== null) this.#socket.destroy();
    else this.#close();
  }

  #close(): void {
    const handle = this.#handle;
    if (handle === null) return;
    const reader = this.#reader;
    this.#reader = null;
    this.#handle = null;
    handle.close();
    this.#first?.ended();
    this.#second?.ended();
    reader?.ended();
  }

  #streamed(): Socket {
    const reader = this.#reader;
    this.forgetFirst();
    this.#becomeKnown();
    const handle = this.#handle;
    this.#handle = null;
    if (handle === null || this.#make === null) {
      this.#socket = new Socket().destroy();
      return this.#socket;
    }
    const socket = this.#make(handle);
    this.#socket = socket;
    this.heed();
    this.#first?.streamed(socket);
    this.#second?.streamed(socket);
    reader?.streamed();
    return socket;
  }
}
