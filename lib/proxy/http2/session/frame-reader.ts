import { frameHeaderBytes, frameType, maxPayload, maxStreamId } from './protocol.ts';

/** Who gets the frames. */
export interface FrameSink {
  /** One whole frame; its payload, bytes [from, to), is only lent. */
  frame(type: number, flags: number, streamId: number, bytes: Buffer, from: number, to: number): void;
  /** No more frames are wanted. */
  readonly over: boolean;
  /** No more of them are wanted in this turn of the event loop. */
  readonly hasHadItsTurn: boolean;
}

/** Cuts what is read of a connection into frames (RFC 9113 4.1) where they lie; only one that comes in pieces is copied. */
export class FrameReader {
  readonly #sink: FrameSink;
  /** A frame of which more is to come. */
  #held: Buffer | null = null;
  #heldBytes = 0;

  constructor(sink: FrameSink) {
    this.#sink = sink;
  }

  /** Whether a frame is incomplete that should not be for long. The content of a message may take its time. */
  get awaitsRest(): boolean {
    return this.#held !== null && this.#heldBytes > 3 && this.#held[3] !== frameType.data;
  }

  /** How far it has read; -1 for a frame larger than any that we allow, since nothing can be read behind it. */
  read(chunk: Buffer): number {
    let at = 0;
    if (this.#held !== null) {
      at = this.#complete(chunk);
      if (at === -1) return -1;
    }
    const end = chunk.length;
    while (end - at >= frameHeaderBytes && !this.#sink.over) {
      if (this.#sink.hasHadItsTurn) return at;
      const length = ((chunk[at] as number) << 16) | ((chunk[at + 1] as number) << 8) | (chunk[at + 2] as number);
      if (length > maxPayload) return -1;
      const next = at + frameHeaderBytes + length;
      if (next > end) break;
      this.#deliver(chunk, at, length);
      at = next;
    }
    if (at < end && !this.#sink.over) {
      this.#held ??= Buffer.allocUnsafe(frameHeaderBytes + maxPayload);
      this.#heldBytes += chunk.copy(this.#held, this.#heldBytes, at);
    }
    return end;
  }

  /** Adds to the frame that is held. Where the next one begins, which is the chunk's end when more is to come; or -1. */
  #complete(chunk: Buffer): number {
    const held = this.#held as Buffer;
    let at = 0;
    if (this.#heldBytes < frameHeaderBytes) {
      at = chunk.copy(held, this.#heldBytes, 0, frameHeaderBytes - this.#heldBytes);
      this.#heldBytes += at;
      if (this.#heldBytes < frameHeaderBytes) return at;
    }
    const length = held.readUIntBE(0, 3);
    if (length > maxPayload) return -1;
    const whole = frameHeaderBytes + length;
    const copied = chunk.copy(held, this.#heldBytes, at, at + whole - this.#heldBytes);
    this.#heldBytes += copied;
    if (this.#heldBytes < whole) return chunk.length;
    this.#held = null;
    this.#heldBytes = 0;
    this.#deliver(held, 0, length);
    return at + copied;
  }

  #deliver(bytes: Buffer, at: number, length: number): void {
    const from = at + frameHeaderBytes;
    const streamId = bytes.readUInt32BE(at + 5) & maxStreamId;
    this.#sink.frame(bytes[at + 3] as number, bytes[at + 4] as number, streamId, bytes, from, from + length);
  }
}
