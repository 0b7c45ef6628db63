import net from 'node:net';
import type { Writable } from 'node:stream';
import { getSystemErrorName } from 'node:util';
import {
  type StreamBinding,
  type StreamHandle,
  streamBinding,
  streamHandleOf,
  type WriteRequest,
} from './node-streams.ts';

/*
 * How one write goes to the system, or to TLS, past the stream of Node that it is of: undocumented, and used where it is
 * there. What node-internals.ts says of the rest holds for this as well; node-writes.ts says when that may be.
 */

/** Of a connected socket, whose stream has nothing that waits when `put` is called. */
export interface DirectWrites {
  /** Bytes go to the system as they are, in one call. */
  readonly isPlain: boolean;
  /**
   * What is not taken at once waits in the stream, as ever.
   *
   * @param data a text has one character per byte.
   * @param written called once the bytes are free, unless they are when this returns.
   * @returns whether they are.
   */
  put(data: Buffer | string, written?: () => void): boolean;
  /** What the stream does next it does behind what was put. */
  settle(): void;
}

/** Null where each write is the stream's. */
export function directWritesOf(stream: Writable): DirectWrites | null {
  const binding = streamBinding();
  if (!(stream instanceof net.Socket) || stream.connecting || binding === null) return null;
  const handle = streamHandleOf(stream);
  if (handle?.writeBuffer === undefined || handle.writeLatin1String === undefined) return null;
  if (!('encrypted' in stream)) return new PlainWrites(stream, handle, binding);
  const below = belowOf(handle);
  return below === null ? null : new SecureWrites(stream, handle, binding, below);
}

function hand(handle: StreamHandle, request: WriteRequest, data: Buffer | string): number {
  return typeof data === 'string' ? handle.writeLatin1String(request, data) : handle.writeBuffer(request, data);
}

/** What a write that is over when it returns leaves untouched, and the next one takes. */
let unused: WriteRequest | null = null;

class PlainWrites implements DirectWrites {
  readonly isPlain = true;
  readonly #socket: net.Socket;
  readonly #handle: StreamHandle;
  readonly #binding: StreamBinding;

  constructor(socket: net.Socket, handle: StreamHandle, binding: StreamBinding) {
    this.#socket = socket;
    this.#handle = handle;
    this.#binding = binding;
  }

  put(data: Buffer | string, written?: () => void): boolean {
    const { streamBaseState, kLastWriteWasAsync, WriteWrap } = this.#binding;
    unused ??= new WriteWrap();
    const request = unused;
    const status = hand(this.#handle, request, data);
    if (status === 0 && streamBaseState[kLastWriteWasAsync] === 0) return true;
    unused = null;
    const done = adopt(this.#socket, data, written);
    if (status !== 0) {
      done?.(systemError(status));
      return false;
    }
    if (typeof data !== 'string') request.buffer = data;
    request.socket = this.#socket;
    request.done = done;
    request.oncomplete = completed;
    return false;
  }

  settle(): void {}
}

/** See `WriteRequest.oncomplete`. */
function completed(this: WriteRequest, status: number): void {
  this.done?.(status < 0 && this.socket?.destroyed === false ? systemError(status) : null);
}

/** Of what TLS writes to. */
interface Below {
  /** Bytes that the system has not taken. */
  readonly writeQueueSize: number;
}

/** Null for TLS on anything but a socket of the system's, and where Node does not keep it. */
function belowOf(handle: StreamHandle): Below | null {
  const { _parent: below } = handle as { readonly _parent?: Partial<Below> };
  return typeof below?.writeQueueSize === 'number' ? (below as Below) : null;
}

interface SecureRequest extends WriteRequest {
  writes?: SecureWrites | null;
}

/** More requests than this are seldom under way. */
const mostSpare = 64;
/** Requests that are over. Node may still look at those when they say so; at the end of the turn others take them. */
let over: SecureRequest[] = [];
let spare: SecureRequest[] = [];

/** To be called where nothing of Node's is under way. */
export function renewRequests(): void {
  if (spare.length === 0) [spare, over] = [over, spare];
}

/**
 * TLS has encrypted what it is given when it returns, and has given it on, but says only in the next turn that it is over, and
 * must be given nothing until then. That is nearly always before anybody writes again, so that the stream need not know.
 */
class SecureWrites implements DirectWrites {
  readonly isPlain = false;
  readonly #socket: net.Socket;
  readonly #handle: StreamHandle;
  readonly #binding: StreamBinding;
  readonly #below: Below;
  #inFlight: SecureRequest | null = null;

  constructor(socket: net.Socket, handle: StreamHandle, binding: StreamBinding, below: Below) {
    this.#socket = socket;
    this.#handle = handle;
    this.#binding = binding;
    this.#below = below;
  }

  put(data: Buffer | string, written?: () => void): boolean {
    if (this.#inFlight !== null) {
      this.settle();
      // The bytes are somebody else's when this returns.
      if (typeof data === 'string') this.#socket.write(data, 'latin1', written);
      else this.#socket.write(written === undefined ? Buffer.from(data) : data, written);
      return written === undefined;
    }
    const request: SecureRequest = spare.pop() ?? new this.#binding.WriteWrap();
    request.writes = this;
    request.oncomplete = secureCompleted;
    this.#inFlight = request;
    const status = hand(this.#handle, request, data);
    if (status !== 0) {
      this.#inFlight = null;
      adopt(this.#socket, data)?.(systemError(status));
    } else if (this.#inFlight === request && this.#below.writeQueueSize > 0) {
      // The peer is slow: who looks at what the stream holds finds it.
      request.done = adopt(this.#socket, data);
    }
    return true;
  }

  settle(): void {
    const request = this.#inFlight;
    if (request !== null) request.done ??= adopt(this.#socket, nothing) ?? settled;
  }

  completed(request: SecureRequest, status: number): void {
    const { done = null } = request;
    this.#inFlight = null;
    request.done = null;
    request.writes = null;
    if (over.length < mostSpare) over.push(request);
    const error = status < 0 && !this.#socket.destroyed ? systemError(status) : null;
    if (done !== null) done(error);
    else if (error !== null) this.#socket.destroy(error);
  }
}

const nothing = Buffer.alloc(0);

/** A stream that takes no write any more has none that could be over. */
const settled = (): void => {};

/** See `WriteRequest.oncomplete`. */
function secureCompleted(this: SecureRequest, status: number): void {
  this.writes?.completed(this, status);
}

type WriteDone = (error?: Error | null) => void;
type Write = (this: net.Socket, data: Buffer | string, encoding?: 'latin1', written?: () => void) => boolean;

const { write } = net.Socket.prototype as { write: Write };

let adopted: WriteDone | null = null;

function takeDone(_chunk: Buffer, _encoding: BufferEncoding, done: WriteDone): void {
  adopted = done;
}

/**
 * The socket has a write as any other, which has been handed to the system already, and is over when the result is called.
 * What was put on top of its `write` is not asked.
 */
function adopt(socket: net.Socket, data: Buffer | string, written?: () => void): WriteDone | null {
  socket._write = takeDone;
  write.call(socket, data, 'latin1', written);
  socket._write = net.Socket.prototype._write;
  const done = adopted;
  adopted = null;
  return done;
}

function systemError(status: number): Error {
  const code = getSystemErrorName(status);
  return Object.assign(new Error(`write ${code}`), { errno: status, code, syscall: 'write' });
}
