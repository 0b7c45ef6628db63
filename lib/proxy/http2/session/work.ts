import { NextTurn } from '../../fairness/next-turn.ts';
import { longRead, turn } from '../../fairness/turn.ts';

/**
 * Work that one connection gets done before others have their turn, in bytes looked at and `perMessage` for each message:
 * some 40 ordinary heads that were not there before, or one of the largest.
 */
const turnCost = 32 * 1024;
const perMessage = 256;

/** What it takes to deal with a frame of a few bytes, in the same: content may come in frames of one byte each. */
const perFrame = 24;

/** Content that is only passed on goes by so many times as fast. */
const contentPerByte = 16;

/** Of the event loop; counted while connections that take turns are read. */
let turnNumber = 0;
const nextTurn = new NextTurn(() => {
  turnNumber++;
});

/** What a connection may get done with what was read, before others have their turn. */
export class Work {
  /** Whether long work is shared out among the turns of the event loop. */
  readonly #takesTurns: boolean;
  #cost = 0;
  #share = longRead;
  /** In which it was read last; -1 where it has gone on since. */
  #turn = -1;

  constructor(takesTurns: boolean) {
    this.#takesTurns = takesTurns;
  }

  /** @param isNew what was read has not waited for a turn: a little of it needs none. */
  begin(isNew: boolean): void {
    if (isNew && this.#takesTurns) {
      nextTurn.schedule();
      // One read of a connection with TLS brings its records one by one, hundreds where they are small.
      if (this.#turn === turnNumber) return;
    }
    this.#turn = isNew ? turnNumber : -1;
    this.#cost = 0;
    this.#share = isNew ? longRead : turnCost;
  }

  /** A frame, whatever its message costs. */
  frame(): void {
    this.#cost += perFrame;
  }

  /** Says what a message has cost, in bytes that were looked at. */
  spend(cost: number): void {
    this.#cost += cost + perMessage;
  }

  /** What has been done with what was read last, as bytes of content that are only passed on. */
  get asContent(): number {
    return contentPerByte * this.#cost;
  }

  /** No more of it may be done in this turn of the event loop. */
  get hasHadItsTurn(): boolean {
    if (this.#cost <= this.#share || !this.#takesTurns) return false;
    if (this.#share === turnCost || !turn.mayWork()) return true;
    this.#share = turnCost;
    return this.#cost > turnCost;
  }
}
