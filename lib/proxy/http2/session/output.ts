import type { Socket } from 'node:net';
import { type Ending, guarded, internalFault } from '../../guard.ts';
import type { Keeper } from '../../kept.ts';
import { type Outlet, outletOf, turnServed } from '../../node-writes.ts';
import { flag, frameHeaderBytes, frameType, maxPayload } from './protocol.ts';

/** Holds two whole frames of data. */
const bufferBytes = 40 * 1024;

/** Buffers that nobody uses: as many as connections write in one turn of the event loop, not one per connection. */
const spare: Buffer[] = [];
const maxSpare = 32;

/** A dynamic table size update: no bytes (RFC 7541 6.3). */
const tableOfNone = Buffer.of(0x20);

/** Outputs that have something to send when this turn ends. */
const due: Output[] = [];

function flushDue(): void {
  turnServed();
  // Whatever becomes of one, the others leave, and the next turn begins with none.
  for (const output of due) {
    try {
      output.flush();
    } catch (error) {
      internalFault('writing to an HTTP/2 peer', output.owner, error);
    }
  }
  due.length = 0;
}

function giveBack(buffer: Buffer): void {
  if (spare.length < maxSpare) spare.push(buffer);
}

/**
 * Frames on their way out. Whatever one turn of the event loop makes for a connection leaves it with one write: a system
 * call costs more than anything else here.
 */
export class Output {
  /** The kernel took less than it was given: no DATA until `onDrain`. */
  blocked = false;
  /** Frames that were added meanwhile. DATA is not among them, and so they are few for a peer that asks for none. */
  backlog = 0;
  /** Ends with a fault of ours. */
  readonly owner: Ending;
  readonly #socket: Socket;
  readonly #outlet: Outlet;
  readonly #keeper: Keeper;
  #buffer: Buffer | null = null;
  #length = 0;
  #due = false;
  /** Where the frame that was added last begins, and its stream: it may still get END_STREAM. */
  #lastAt = 0;
  #lastStream = 0;
  #tableShrunk = false;
  #writes = 0;

  /** @param keeper who pays for what waits. */
  constructor(socket: Socket, owner: Ending, keeper: Keeper, onDrain: () => void) {
    this.owner = owner;
    this.#keeper = keeper;
    this.#socket = socket;
    this.#outlet = outletOf(socket);
    const drained = guarded('an HTTP/2 peer that takes more', owner, onDrain);
    socket.on('drain', () => {
      this.blocked = false;
      this.backlog = 0;
      drained();
    });
  }

  /** Bytes that have not reached the kernel. */
  get pending(): number {
    return this.#length + this.#socket.writableLength;
  }

  /**
   * Adds a frame; its payload must be filled in at once.
   *
   * @returns where in `buffer` the payload belongs.
   */
  frame(type: number, flags: number, streamId: number, length: number): number {
    if (this.#length + frameHeaderBytes + length > bufferBytes) this.#send();
    if (this.blocked) this.backlog++;
    this.#buffer ??= spare.pop() ?? Buffer.allocUnsafeSlow(bufferBytes);
    if (!this.#due) {
      this.#due = true;
      if (due.push(this) === 1) setImmediate(flushDue);
    }
    const buffer = this.#buffer;
    const at = this.#length;
    buffer[at] = length >>> 16;
    buffer[at + 1] = length >>> 8;
    buffer[at + 2] = length;
    buffer[at + 3] = type;
    buffer[at + 4] = flags;
    buffer[at + 5] = streamId >>> 24;
    buffer[at + 6] = streamId >>> 16;
    buffer[at + 7] = streamId >>> 8;
    buffer[at + 8] = streamId;
    this.#lastAt = at;
    this.#lastStream = streamId;
    this.#length = at + frameHeaderBytes + length;
    return at + frameHeaderBytes;
  }

  /** Stands for what has been added so far; see `hasLeft`. */
  get mark(): number {
    return this.#writes;
  }

  /** Whether any of what was added last, when `mark` was asked, has been written. */
  hasLeft(mark: number): boolean {
    return this.#writes > mark;
  }

  /** Valid until the next frame is added. */
  get buffer(): Buffer {
    return this.#buffer as Buffer;
  }

  /** A frame whose payload is one number: RST_STREAM, WINDOW_UPDATE. */
  number(type: number, streamId: number, value: number): void {
    const at = this.frame(type, 0, streamId, 4);
    this.buffer.writeUInt32BE(value, at);
  }

  /**
   * The peer has made its table of header fields smaller. We use none, but it may insist that the next block says so
   * (RFC 7541 4.2; nghttp2 ends the connection otherwise).
   */
  shrinkTable(): void {
    this.#tableShrunk = true;
  }

  /** A header block, in as many frames as it takes. */
  headers(streamId: number, fields: Buffer, endStream: boolean): void {
    const end = endStream ? flag.endStream : 0;
    let block = fields;
    if (this.#tableShrunk) {
      this.#tableShrunk = false;
      block = Buffer.concat([tableOfNone, fields]);
    }
    if (block.length <= maxPayload) {
      const at = this.frame(frameType.headers, flag.endHeaders | end, streamId, block.length);
      block.copy(this.buffer, at);
      return;
    }
    for (let from = 0; from < block.length; from += maxPayload) {
      const to = Math.min(block.length, from + maxPayload);
      const last = to === block.length ? flag.endHeaders : 0;
      const at =
        from === 0
          ? this.frame(frameType.headers, last | end, streamId, to - from)
          : this.frame(frameType.continuation, last, streamId, to - from);
      block.copy(this.buffer, at, from, to);
    }
    // END_STREAM stands in HEADERS only.
    this.#lastStream = 0;
  }

  /** An empty DATA frame with END_STREAM. */
  endStream(streamId: number): void {
    this.frame(frameType.data, flag.endStream, streamId, 0);
  }

  /** Puts END_STREAM on the last frame, if it is this stream's and has not left. */
  endLast(streamId: number): boolean {
    const buffer = this.#buffer;
    if (buffer === null || this.#length === 0 || this.#lastStream !== streamId) return false;
    const type = buffer[this.#lastAt + 3];
    if (type !== frameType.data && type !== frameType.headers) return false;
    buffer[this.#lastAt + 4] = (buffer[this.#lastAt + 4] as number) | flag.endStream;
    return true;
  }

  flush(): void {
    this.#due = false;
    this.#send();
  }

  #send(): void {
    const buffer = this.#buffer;
    if (buffer === null) return;
    this.#buffer = null;
    const length = this.#length;
    this.#length = 0;
    const socket = this.#socket;
    if (socket.destroyed || socket.writableEnded) {
      giveBack(buffer);
      return;
    }
    this.#writes++;
    const bytes = buffer.subarray(0, length);
    if (socket.writableLength > 0) {
      // It waits, and may be a few bytes in each of many turns: they wait in a buffer of their own size.
      socket.write(Buffer.from(bytes));
      giveBack(buffer);
    } else if (this.#outlet.put(bytes, () => giveBack(buffer))) giveBack(buffer);
    // What TLS was given is free, and may still wait.
    this.blocked = socket.writableNeedDrain;
    if (this.blocked) this.#keeper.look();
  }
}
