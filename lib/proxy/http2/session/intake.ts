import type { Socket } from 'node:net';
import { beginMoment, endMoment } from '../../../moment.ts';
import { CountedReads, type TurnTaker, turn } from '../../fairness/turn.ts';
import { type Ending, guarded } from '../../guard.ts';
import { type Keeper, Kept } from '../../kept.ts';
import { frameHeaderBytes, frameType, maxPayload, maxStreamId, preface } from './protocol.ts';
import type { Work } from './work.ts';

/** Who deals with what is read. */
export interface Reader extends Ending {
  readonly socket: Socket;
  readonly output: { readonly pending: number; readonly backlog: number };
  readonly work: Work;
  readonly queue: { pumpNewRoom(): void };
  /** No more frames are wanted. */
  readonly over: boolean;
  readonly frames: {
    /** One whole frame; its payload, bytes [from, to), is only lent. */
    frame(type: number, flags: number, streamId: number, bytes: Buffer, from: number, to: number): void;
    /** No message has begun that is not complete. */
    readonly isBetweenMessages: boolean;
    /** Bytes of memory that its beginning takes. */
    readonly heldBytes: number;
  };
  /** Who pays for what is kept of what has come. */
  readonly keeper: Keeper;
  /** What the peer sends does not begin as it must. */
  noPreface(): void;
  /** A frame larger than any that we allow: nothing can be read behind it. */
  unreadable(): void;
  /** It asks for more and more answers, and reads none. */
  readsNothing(): void;
}

export interface IntakeLimits {
  /** Whether it takes part in the turns of those who read much. */
  readonly takesTurns: boolean;
  /** Whether the peer begins with a preface before its first frame: clients do. */
  readonly awaitsPreface: boolean;
  /** With more than this on its way to a peer that does not read, nothing more of it is read either. */
  readonly maxPendingBytes: number;
  /** More frames than these, behind what the kernel has not taken, end the connection. */
  readonly maxBacklog: number;
}

/**
 * Reads a peer: cuts what comes into frames (RFC 9113 4.1) where they lie, and copies only one that comes in pieces; no more
 * than its turn allows, and nothing while the peer does not read what it is sent.
 */
export class Intake implements TurnTaker {
  /** Since when the beginning of a connection or of a message has been waiting for its rest; null when none is. */
  incompleteSince: number | null = performance.now();
  readonly #reader: Reader;
  readonly #limits: IntakeLimits;
  /** Bytes of the preface that have come. */
  #prefaceBytes: number;
  /** A frame of which more is to come. */
  #held: Buffer | null = null;
  #heldBytes = 0;
  /** What has been read and must wait for the next turn. */
  #rest: Buffer | null = null;
  readonly #kept: Kept;
  readonly #goOnLater: () => void;
  /** Null where it takes no turns. */
  readonly #counted: CountedReads | null;
  /** Others who move much are to have their turn first. */
  #hasHadItsTurn = false;

  constructor(reader: Reader, limits: IntakeLimits) {
    this.#reader = reader;
    this.#limits = limits;
    this.#kept = new Kept(reader.keeper);
    this.#prefaceBytes = limits.awaitsPreface ? 0 : preface.length;
    this.#goOnLater = guarded('HTTP/2 frames', reader, () => this.#goOn());
    this.#counted = limits.takesTurns ? CountedReads.of(reader.socket) : null;
  }

  /** Bytes of memory that what has been read takes until its rest comes, or its turn. */
  get heldBytes(): number {
    return (this.#held?.length ?? 0) + (this.#rest?.length ?? 0);
  }

  /** Takes bytes from the peer, which are only lent. */
  receive(chunk: Buffer): void {
    if (this.#reader.over) return;
    const at = this.#takePreface(chunk);
    if (at === -1) this.#reader.noPreface();
    else if (at < chunk.length) this.#take(at === 0 ? chunk : chunk.subarray(at));
    this.#settle();
    if (this.#counted === null || this.#reader.over || this.#counted.take(chunk.length, this)) return;
    this.#hasHadItsTurn = true;
    this.#reader.socket.pause();
  }

  /** What a client sends before its first frame (RFC 9113 3.4). How many bytes belong to it; -1: they are something else. */
  #takePreface(chunk: Buffer): number {
    const from = this.#prefaceBytes;
    if (from === preface.length) return 0;
    const bytes = Math.min(chunk.length, preface.length - from);
    if (preface.compare(chunk, 0, bytes, from, from + bytes) !== 0) return -1;
    this.#prefaceBytes += bytes;
    return bytes;
  }

  #take(chunk: Buffer): void {
    if (this.#rest === null) this.#read(chunk, true);
    else this.#rest = Buffer.concat([this.#rest, chunk]);
  }

  /** The peer has read what it was sent. */
  resume(): void {
    if (this.#reader.socket.isPaused() && this.#rest === null && !this.#hasHadItsTurn) this.#reader.socket.resume();
  }

  nextTurn(): void {
    this.#hasHadItsTurn = false;
    this.#resumeUnlessBehind();
  }

  destroy(): void {
    this.#reader.destroy();
  }

  #resumeUnlessBehind(): void {
    const reader = this.#reader;
    if (!reader.over && reader.output.pending <= this.#limits.maxPendingBytes) this.resume();
  }

  #goOn(): void {
    const rest = this.#rest;
    this.#rest = null;
    const reader = this.#reader;
    if (rest === null || reader.over) return;
    this.#read(rest, false);
    this.#settle();
    this.#resumeUnlessBehind();
  }

  /** Charges what is kept now: of most reads nothing. */
  #settle(): void {
    const bytes = this.#reader.over ? 0 : this.heldBytes + this.#reader.frames.heldBytes;
    if (bytes !== this.#kept.bytes) this.#kept.set(bytes);
  }

  #read(chunk: Buffer, isNew: boolean): void {
    const reader = this.#reader;
    reader.work.begin(isNew);
    beginMoment();
    let at: number;
    try {
      at = this.#readFrames(chunk);
    } finally {
      endMoment();
    }
    if (at === -1) {
      reader.unreadable();
      return;
    }
    if (reader.over) return;
    if (at < chunk.length) {
      const rest = chunk.subarray(at);
      this.#rest = isNew ? Buffer.from(rest) : rest;
      reader.socket.pause();
      turn.later(this.#goOnLater);
    }
    reader.queue.pumpNewRoom();
    const isComplete = reader.frames.isBetweenMessages && !this.#awaitsRest;
    this.incompleteSince = isComplete ? null : (this.incompleteSince ?? performance.now());
    const { pending, backlog } = reader.output;
    if (pending > this.#limits.maxPendingBytes) reader.socket.pause();
    if (backlog > this.#limits.maxBacklog) reader.readsNothing();
  }

  /** Whether a frame is incomplete that should not be for long. The content of a message may take its time. */
  get #awaitsRest(): boolean {
    return this.#held !== null && this.#heldBytes > 3 && this.#held[3] !== frameType.data;
  }

  /** How far it has read; -1 for a frame larger than any that we allow. */
  #readFrames(chunk: Buffer): number {
    const reader = this.#reader;
    let at = 0;
    if (this.#held !== null) {
      at = this.#complete(chunk);
      if (at === -1) return -1;
    }
    const end = chunk.length;
    while (end - at >= frameHeaderBytes && !reader.over) {
      if (reader.work.hasHadItsTurn) return at;
      const length = ((chunk[at] as number) << 16) | ((chunk[at + 1] as number) << 8) | (chunk[at + 2] as number);
      if (length > maxPayload) return -1;
      const next = at + frameHeaderBytes + length;
      if (next > end) break;
      this.#deliver(chunk, at, length);
      at = next;
    }
    if (at < end && !reader.over) {
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
    const { frames, work } = this.#reader;
    const from = at + frameHeaderBytes;
    const streamId = bytes.readUInt32BE(at + 5) & maxStreamId;
    work.frame();
    frames.frame(bytes[at + 3] as number, bytes[at + 4] as number, streamId, bytes, from, from + length);
    // What is incomplete from here on has begun just now.
    if (frames.isBetweenMessages) this.incompleteSince = null;
  }
}
