import { dependsOnItself, priorityBytes } from './frame-form.ts';
import { errorCode, flag, frameType } from './protocol.ts';

/** A header block of this many bytes or twice its list's, or in this many pieces, is an attack (CVE-2024-27983 and its kin). */
const maxBlockBytes = 128 * 1024;
const maxBlockFrames = 64;

/** What a part takes besides its bytes. */
const partCost = 256;

/** Who gets the blocks. */
export interface BlockSink {
  /** A complete one: bytes [from, to), lent. */
  headerBlock(streamId: number, bytes: Buffer, from: number, to: number, endStream: boolean): void;
}

/** A block that is not complete. */
interface PartialBlock {
  readonly streamId: number;
  readonly endStream: boolean;
  readonly parts: Buffer[];
  bytes: number;
}

/** Makes header blocks of HEADERS and CONTINUATION (RFC 9113 4.3, 6.2, 6.10). */
export class HeaderAssembly {
  readonly #sink: BlockSink;
  readonly #maxBytes: number;
  #partial: PartialBlock | null = null;

  constructor(sink: BlockSink, maxListBytes: number) {
    this.#sink = sink;
    this.#maxBytes = Math.max(maxBlockBytes, 2 * maxListBytes);
  }

  /** A block has begun and is not complete. */
  get awaitsRest(): boolean {
    return this.#partial !== null;
  }

  /** Bytes of memory that a block takes which is not complete. */
  get heldBytes(): number {
    return this.#partial === null ? 0 : this.#partial.bytes + partCost * this.#partial.parts.length;
  }

  /** Whether such a frame may come now: behind the beginning of a block nothing but its rest, and that nowhere else. */
  admits(type: number, streamId: number): boolean {
    if (this.#partial === null) return type !== frameType.continuation;
    return type === frameType.continuation && streamId === this.#partial.streamId;
  }

  /** @returns the error that ends the connection, or NO_ERROR. */
  headers(flags: number, streamId: number, bytes: Buffer, start: number, stop: number): number {
    let from = start;
    let to = stop;
    if ((flags & flag.padded) !== 0) {
      if (from === to) return errorCode.frameSizeError;
      to -= bytes[from++] as number;
    }
    if ((flags & flag.priority) !== 0) {
      if (to - from < priorityBytes) return errorCode.frameSizeError;
      if (dependsOnItself(streamId, bytes, from)) return errorCode.protocolError;
      from += priorityBytes;
    }
    if (from > to) return errorCode.protocolError;
    const endStream = (flags & flag.endStream) !== 0;
    if ((flags & flag.endHeaders) !== 0) this.#sink.headerBlock(streamId, bytes, from, to, endStream);
    else this.#partial = { streamId, endStream, parts: [Buffer.from(bytes.subarray(from, to))], bytes: to - from };
    return errorCode.noError;
  }

  /** @returns the error that ends the connection, or NO_ERROR. */
  continuation(flags: number, bytes: Buffer, from: number, to: number): number {
    const block = this.#partial;
    if (block === null) return errorCode.protocolError;
    block.bytes += to - from;
    block.parts.push(Buffer.from(bytes.subarray(from, to)));
    if (block.bytes > this.#maxBytes || block.parts.length > maxBlockFrames) return errorCode.enhanceYourCalm;
    if ((flags & flag.endHeaders) === 0) return errorCode.noError;
    this.#partial = null;
    this.#sink.headerBlock(block.streamId, Buffer.concat(block.parts), 0, block.bytes, block.endStream);
    return errorCode.noError;
  }
}
