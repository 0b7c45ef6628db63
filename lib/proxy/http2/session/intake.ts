import type { Socket } from 'node:net';
import { beginMoment, endMoment } from '../../../moment.ts';
import { longRead, turn } from '../../fairness/turn.ts';
import { type Ending, guarded } from '../../guard.ts';
import { FrameReader, type FrameSink } from './frame-reader.ts';

/**
 * Work that one connection gets done before others have their turn, in bytes looked at and `perMessage` for each message:
 * some 40 ordinary heads that were not there before, or one of the largest.
 */
const turnCost = 32 * 1024;
const perMessage = 256;

/** Who deals with what is read. */
interface Reader extends Omit<FrameSink, 'hasHadItsTurn'>, Ending {
  readonly socket: Socket;
  readonly output: { readonly pending: number };
  /** A frame larger than any that we allow: nothing can be read behind it. */
  unreadable(): void;
  /** All of a read, or as much as fits into the turn. `awaitsRest`: a frame is incomplete that should not be for long. */
  wasRead(awaitsRest: boolean): void;
}

export interface IntakeLimits {
  /** Whether long work is shared out among the turns of the event loop. */
  readonly takesTurns: boolean;
  /** With more than this on its way to a peer that does not read, nothing more of it is read either. */
  readonly maxPendingBytes: number;
}

/** Reads a peer: frame by frame, no more than its turn allows, and nothing while it does not read what it is sent. */
export class Intake {
  readonly #reader: Reader;
  readonly #limits: IntakeLimits;
  readonly #frames: FrameReader;
  #cost = 0;
  #share = longRead;
  /** What has been read and must wait for the next turn. */
  #rest: Buffer | null = null;
  readonly #nextTurn: () => void;

  constructor(reader: Reader & FrameSink, limits: IntakeLimits) {
    this.#reader = reader;
    this.#limits = limits;
    this.#frames = new FrameReader(reader);
    this.#nextTurn = guarded('HTTP/2 frames', reader, () => this.#goOn());
  }

  /** Takes bytes from the peer. They are only lent where no turn is limited. */
  receive(chunk: Buffer): void {
    if (this.#rest === null) this.#read(chunk, longRead);
    else this.#rest = Buffer.concat([this.#rest, chunk]);
  }

  /** Says what a message has cost, in bytes that were looked at. */
  spend(cost: number): void {
    this.#cost += cost + perMessage;
  }

  get hasHadItsTurn(): boolean {
    if (this.#cost <= this.#share || !this.#limits.takesTurns) return false;
    if (this.#share === turnCost || !turn.mayWork()) return true;
    this.#share = turnCost;
    return this.#cost > turnCost;
  }

  /** The peer has read what it was sent. */
  resume(): void {
    if (this.#reader.socket.isPaused() && this.#rest === null) this.#reader.socket.resume();
  }

  #goOn(): void {
    const rest = this.#rest;
    this.#rest = null;
    const reader = this.#reader;
    if (rest === null || reader.over) return;
    this.#read(rest, turnCost);
    if (!reader.over && reader.output.pending <= this.#limits.maxPendingBytes) this.resume();
  }

  /** @param share what it may cost without asking for a turn. */
  #read(chunk: Buffer, share: number): void {
    this.#cost = 0;
    this.#share = share;
    const reader = this.#reader;
    beginMoment();
    let at: number;
    try {
      at = this.#frames.read(chunk);
    } finally {
      endMoment();
    }
    if (at === -1) {
      reader.unreadable();
      return;
    }
    if (reader.over) return;
    if (at < chunk.length) {
      this.#rest = chunk.subarray(at);
      reader.socket.pause();
      turn.later(this.#nextTurn);
    }
    reader.wasRead(this.#frames.awaitsRest);
    if (reader.output.pending > this.#limits.maxPendingBytes) reader.socket.pause();
  }
}
