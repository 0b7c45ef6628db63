import net from 'node:net';

/*
 * How sockets read into memory that is lent, without the streams of Node between: undocumented, and used where it is there.
 * What node-internals.ts says of the rest holds for this as well, and for how they write (node-writes.ts).
 */

/** Of what a connected socket keeps in `_handle`. */
export interface StreamHandle {
  /** Whether the system's socket is read. */
  reading: boolean;
  /** Called after each read; what it returns is where the next one goes. */
  onread: (this: StreamHandle, arrayBuffer?: ArrayBuffer) => Buffer | undefined;
  readStart(): number;
  readStop(): number;
  useUserBuffer(buffer: Buffer): void;
  [direct]?: DirectReads;
  [first]?: FirstRead;
  /** A negative number of the system, or 0. */
  writeBuffer(request: WriteRequest, bytes: Buffer): number;
  /** The same of a text with one character per byte; more than 16 KiB of it are never written at once. */
  writeLatin1String(request: WriteRequest, text: string): number;
}

/** What Node calls back for a write that was not over when it returned. */
export interface WriteRequest {
  oncomplete?: (this: WriteRequest, status: number) => void;
  /** What is being written must not be freed. */
  buffer?: Buffer;
  /** Of which stream it is a write, and what says so when it is over. */
  socket?: net.Socket;
  done?: ((error?: Error | null) => void) | null;
}

/** What is behind the sockets of `net`: the results of their calls. */
export interface StreamBinding {
  readonly WriteWrap: new () => WriteRequest;
  readonly streamBaseState: Int32Array;
  /** Where in that. */
  readonly kReadBytesOrError: number;
  readonly kArrayBufferOffset: number;
  readonly kLastWriteWasAsync: number;
}

function findBinding(): StreamBinding | null {
  try {
    const { binding } = process as { readonly binding?: (name: string) => Partial<StreamBinding> };
    const found = binding?.('stream_wrap') ?? {};
    const { WriteWrap, streamBaseState: state, kReadBytesOrError, kArrayBufferOffset, kLastWriteWasAsync } = found;
    if (WriteWrap === undefined || !(state instanceof Int32Array)) return null;
    if (kReadBytesOrError === undefined || !(kReadBytesOrError in state)) return null;
    if (kArrayBufferOffset === undefined || !(kArrayBufferOffset in state)) return null;
    if (kLastWriteWasAsync === undefined || !(kLastWriteWasAsync in state)) return null;
    return { WriteWrap, streamBaseState: state, kReadBytesOrError, kArrayBufferOffset, kLastWriteWasAsync };
  } catch {
    // Node's permissions may forbid it, and a later Node may not have it.
    return null;
  }
}

let foundBinding: StreamBinding | null | undefined;

/** Null where there is none: then each read and write is the stream's. */
export function streamBinding(): StreamBinding | null {
  if (foundBinding === undefined) foundBinding = findBinding();
  return foundBinding;
}

/** Whether an `Outlet` does more than to `write`, as far as can be known without a socket. */
export function canWriteAtOnce(): boolean {
  return streamBinding() !== null;
}

export function streamHandleOf(socket: net.Socket): StreamHandle | null {
  return (socket as { readonly _handle?: StreamHandle | null })._handle ?? null;
}

/** Who is told what is read first. */
interface FirstRead {
  /** Null where the connection has ended, or is broken. */
  firstRead(bytes: Buffer | null): void;
}

/** Under this a handle keeps who that is. */
const first = Symbol('first read');

/** An accepted connection, of which Node has made no stream. */
type BareHandle = Partial<Pick<StreamHandle, 'onread' | 'readStart' | 'readStop' | typeof first>>;

/** One for all handles: see `StreamHandle.onread`. */
function tellFirst(this: StreamHandle, arrayBuffer?: ArrayBuffer): undefined {
  this.readStop();
  const { streamBaseState, kReadBytesOrError, kArrayBufferOffset } = foundBinding as StreamBinding;
  const length = streamBaseState[kReadBytesOrError] ?? 0;
  // The memory may be larger than what was read.
  const bytes =
    arrayBuffer === undefined || length <= 0
      ? null
      : Buffer.from(arrayBuffer, streamBaseState[kArrayBufferOffset] ?? 0, length);
  this[first]?.firstRead(bytes);
}

/** Whether handles of this class tell what they read, as far as can be known without a connection. */
export function canTellFirstRead(handle: object): boolean {
  return streamBinding() !== null && 'onread' in handle && 'readStart' in handle && 'readStop' in handle;
}

/**
 * Has the handle of an accepted connection tell what is read first itself; nothing is read behind that.
 *
 * @returns false where the handle cannot: then a stream can.
 */
export function tellFirstRead(handle: object, reader: FirstRead): boolean {
  const bare: BareHandle = handle;
  if (!canTellFirstRead(bare)) return false;
  bare[first] = reader;
  bare.onread = tellFirst;
  return bare.readStart?.() === 0;
}

/** Nothing is told any more: a stream may be made of the handle. */
export function stopFirstRead(handle: object): void {
  (handle as BareHandle).readStop?.();
}

/** Under which symbols a socket keeps its option `onread`. */
interface LendingKeys {
  readonly buffer: symbol;
  readonly next: symbol;
  readonly callback: symbol;
}

/** Looked for in a socket that has the option, and is never connected; null where they are not found. */
function findLendingKeys(): LendingKeys | null {
  const onread = { buffer: (): Buffer => Buffer.alloc(1), callback: (): boolean => true };
  const socket = new net.Socket({ onread });
  const keyOf = (name: string, value: unknown): symbol | null =>
    Object.getOwnPropertySymbols(socket).find(
      (key) => key.description === name && Reflect.get(socket, key) === value,
    ) ?? null;
  const [buffer, next, callback] = [
    keyOf('kBuffer', true),
    keyOf('kBufferGen', onread.buffer),
    keyOf('kBufferCb', onread.callback),
  ];
  return buffer === null || next === null || callback === null ? null : { buffer, next, callback };
}

let lendingKeys: LendingKeys | null | undefined;

/** Whether `lendReads` can be, as far as can be known without a connection. */
export function canLend(): boolean {
  return keysForLending() !== null;
}

function keysForLending(): LendingKeys | null {
  if (lendingKeys === undefined) lendingKeys = findLendingKeys();
  return lendingKeys;
}

/** Where the next read goes, and who gets it: see the option `onread` of `net.Socket`. */
interface Lender {
  readonly buffer: () => Buffer;
  /** Called as a method of the socket. */
  readonly callback: (this: net.Socket, length: number) => boolean;
}

/** The same, where every read goes to one place. */
interface FixedLender {
  readonly buffer: Buffer | (() => Buffer);
  readonly callback: Lender['callback'];
}

/**
 * Whether `lendReads` may be asked: not of a socket that has read something that waits in it. One of TLS may be lent more
 * after it was paused: the records that were read together with the one before.
 */
export function mayLendReads(socket: net.Socket): boolean {
  if (socket.readableLength > 0 || socket.readableEnded) return false;
  return keysForLending() !== null && streamHandleOf(socket)?.useUserBuffer !== undefined;
}

/**
 * From here on an accepted socket reads as one does that was made with `onread`: without a buffer of its own for each read, which
 * takes a tenth of what a small message costs. It emits no `data` any more. Does nothing where `mayLendReads` says no.
 */
export function lendReads(socket: net.Socket, lender: Lender | FixedLender): void {
  const keys = keysForLending();
  if (keys === null || !mayLendReads(socket)) return;
  const isAsked = typeof lender.buffer === 'function';
  const first = isAsked ? lender.buffer() : lender.buffer;
  // A handle keeps each buffer that it is told of until the connection ends.
  const isTold = !isAsked && Reflect.get(socket, keys.buffer) === first && Reflect.get(socket, keys.next) === null;
  Reflect.set(socket, keys.buffer, first);
  Reflect.set(socket, keys.next, isAsked ? lender.buffer : null);
  Reflect.set(socket, keys.callback, lender.callback);
  if (!isTold) streamHandleOf(socket)?.useUserBuffer?.(first);
  readDirectly(socket, lender);
}

/**
 * Where a socket that lends what it reads is to read into next, instead of what it has been told. The handle keeps a little for
 * each time until the connection ends.
 *
 * @returns false, and nothing changes, where it cannot be told.
 */
export function readNextInto(socket: net.Socket, buffer: Buffer): boolean {
  const handle = streamHandleOf(socket);
  if (handle?.useUserBuffer === undefined || socket.destroyed) return false;
  handle.useUserBuffer(buffer);
  const reads = handle[direct];
  if (reads !== undefined) reads.told = buffer;
  return true;
}

/** Under this a handle keeps who gets what it reads. */
const direct = Symbol('direct reads');

/** Of one socket, in its handle. */
class DirectReads {
  readonly socket: net.Socket;
  readonly lender: Lender | FixedLender;
  /** What Node does for sockets with a timeout, at ends and after errors is left to Node. */
  readonly asEver: StreamHandle['onread'];
  /** Where the next read goes, as Node has been told; null where that may be another. */
  told: Buffer | null = null;

  constructor(socket: net.Socket, lender: Lender | FixedLender, asEver: StreamHandle['onread']) {
    this.socket = socket;
    this.lender = lender;
    this.asEver = asEver;
  }
}

/** One for all handles: see `StreamHandle.onread`. */
function tellLender(this: StreamHandle, arrayBuffer?: ArrayBuffer): Buffer | undefined {
  const reads = this[direct] as DirectReads;
  const { socket, lender } = reads;
  const { streamBaseState, kReadBytesOrError } = foundBinding as StreamBinding;
  const length = streamBaseState[kReadBytesOrError] ?? 0;
  if (length <= 0 || socket.destroyed || hasTimeout(socket)) {
    reads.told = null;
    return reads.asEver.call(this, arrayBuffer);
  }
  if (!lender.callback.call(socket, length)) {
    this.reading = false;
    if (!socket.destroyed) this.readStop();
  }
  if (typeof lender.buffer !== 'function') return undefined;
  const next = lender.buffer();
  if (next === reads.told) return undefined;
  reads.told = next;
  return next;
}

/** A connected socket that lends what it reads, as `lendReads` makes one and the option `onread` does, tells its lender itself. */
export function readDirectly(socket: net.Socket, lender: Lender | FixedLender): void {
  const handle = streamHandleOf(socket);
  if (streamBinding() === null || handle?.onread === undefined) return;
  // A connection that leaves one protocol for another has another lender, and Node's own function still.
  const asEver = handle[direct]?.asEver ?? handle.onread;
  handle[direct] = new DirectReads(socket, lender, asEver);
  handle.onread = tellLender;
}

/** Then Node does something at each read and write. */
export function hasTimeout(socket: net.Socket): boolean {
  return socket.timeout !== undefined && socket.timeout !== 0;
}
