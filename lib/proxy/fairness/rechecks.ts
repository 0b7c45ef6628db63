import type { Roster, Rostered } from '../../roster.ts';
import { type Ending, guarded, internalFault } from '../guard.ts';

/** The part of a turn of the event loop in which some may be decided again. */
export interface Slice {
  /** What is left waits for the next turn. */
  readonly isOver: boolean;
}

/** `more`: the slice was over first. Asked again, it goes on where it was. */
export type Rechecked = 'done' | 'more';

interface Recheckable extends Rostered, Ending {
  recheck(slice: Slice): Rechecked;
}

/** Milliseconds of each turn, at least. */
const leastMs = 2;
/** And this part of the time in which others were served since the last slice, so that a loop that is busy delays no revocation. */
const share = 1 / 3;
/** But no more milliseconds than this: others wait for no longer. */
const mostMs = 8;

/**
 * Has all members decided again when policy has changed: the first at once, and the others in slices, since ten thousand
 * connections with a hundred requests each are seconds of work.
 */
export class Rechecks<T extends Recheckable> implements Slice {
  readonly #members: Roster<T>;
  /** Those before this place are left; who comes meanwhile stands behind, and is decided by what is in force. */
  #left = 0;
  /** Policy has changed since this round began: another follows, in which those are asked again that had been before. */
  #isStale = false;
  #isUnderway = false;
  #endsAt = 0;
  #endedAt = 0;
  #pending: NodeJS.Immediate | undefined;
  readonly #next = guarded('rechecking', null, () => this.#slice(performance.now() - this.#endedAt));

  constructor(members: Roster<T>) {
    this.#members = members;
  }

  get isOver(): boolean {
    return performance.now() >= this.#endsAt;
  }

  /** Policy has changed. */
  begin(): void {
    if (this.#isUnderway) {
      this.#isStale = true;
      return;
    }
    this.#isUnderway = true;
    this.#left = this.#members.size;
    this.#slice(0);
  }

  #slice(othersMs: number): void {
    this.#endsAt = performance.now() + Math.min(mostMs, Math.max(leastMs, othersMs * share));
    while (this.#left > 0 && !this.isOver) this.#recheckOne();
    if (this.#left === 0 && this.#isStale) {
      this.#isStale = false;
      this.#left = this.#members.size;
    }
    this.#isUnderway = this.#left > 0;
    this.#endedAt = performance.now();
    if (this.#isUnderway) this.#pending = setImmediate(this.#next);
  }

  /** From the end: one that leaves meanwhile gives its place to one that has been asked. */
  #recheckOne(): void {
    this.#left = Math.min(this.#left, this.#members.size);
    const member = this.#members.at(this.#left - 1);
    try {
      if (member?.recheck(this) === 'more') return;
    } catch (error) {
      internalFault('rechecking', member ?? null, error);
    }
    this.#left = Math.max(0, this.#left - 1);
  }

  close(): void {
    clearImmediate(this.#pending);
  }
}
