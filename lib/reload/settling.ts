import { dirname } from 'node:path';
import type { Look } from './look.ts';

/*
 * When files may be believed. Nothing says when a writer is done: a program that writes a file in place empties it first, and the
 * first half of a policy may be perfectly good YAML. So what is written in place is believed when it has been left alone
 * for a while, as seen by our own monotonic clock: neither times of files nor the machine's date count.
 */

/** Milliseconds for which a file that is written in place must have been left alone. */
const settleMs = 1_500;
/** Milliseconds of quiet after which what is gone counts as removed. */
const quietMs = 5_000;
/** Milliseconds after which nothing is waited for any longer: files that are never at rest are read as they are. */
const patienceMs = 10_000;

export interface Times {
  readonly settleMs: number;
  readonly quietMs: number;
  readonly patienceMs: number;
}
export const usualTimes: Times = { settleMs, quietMs, patienceMs };

/** Follows files from one look to the next. */
export class Settling {
  readonly #times: Times;
  /** Of each file what it was like when it was last believed; null where the first look is believed as it is. */
  #believed: ReadonlyMap<string, string> | null;
  /** Of each folder what was swapped in, when its files were last believed. */
  readonly #generations = new Map<string, string>();
  /** Of each file since when it is as it is. */
  readonly #since = new Map<string, { readonly stamp: string; readonly ms: number }>();
  #quiet: { readonly stamp: string; readonly ms: number } | null = null;

  /** `first` `at once`: until anything has been believed, nothing is waited for. */
  constructor(times: Times = usualTimes, first: 'at once' | 'settled' = 'settled') {
    this.#times = times;
    this.#believed = first === 'at once' ? null : new Map();
  }

  /** Must be called for every look at the files, in order; `nowMs` is monotonic. */
  see(look: Look, nowMs: number): void {
    if (this.#quiet?.stamp !== look.stamp) this.#quiet = { stamp: look.stamp, ms: nowMs };
    for (const [file, { stamp }] of look.files) {
      if (this.#since.get(file)?.stamp !== stamp) this.#since.set(file, { stamp, ms: nowMs });
    }
    for (const file of this.#since.keys()) if (!look.files.has(file)) this.#since.delete(file);
  }

  /** An event said that something changed, whether or not a look shows it: what went may have been back in between. */
  stir(nowMs: number): void {
    if (this.#quiet !== null) this.#quiet = { ...this.#quiet, ms: nowMs };
  }

  /**
   * Milliseconds until every file of the last look may be read; 0 for now. `whole` says of a file that it was put in its
   * place as it is by a rename, which needs no patience; nor does a volume that was swapped whole.
   */
  unsettledMs(look: Look, nowMs: number, whole: (file: string) => boolean): number {
    if (this.#believed === null) return 0;
    let wait = 0;
    for (const file of look.files.keys()) {
      if (this.isMeant(file, look, whole)) continue;
      const since = this.#since.get(file)?.ms ?? nowMs;
      wait = Math.max(wait, since + this.#times.settleMs - nowMs);
    }
    return wait;
  }

  /** Whether the file is as it was when it was last believed, or was put in its place whole. */
  isMeant(file: string, look: Look, whole: (file: string) => boolean): boolean {
    const { generation = '', stamp } = look.files.get(file) ?? {};
    const swapped = generation !== '' && generation !== this.#generations.get(dirname(file));
    return swapped || this.#believed?.get(file) === stamp || whole(file);
  }

  /** Milliseconds until nothing has changed for so long that what is gone counts as removed; 0 for now. */
  untilQuietMs(nowMs: number): number {
    return Math.max(0, (this.#quiet?.ms ?? nowMs) + this.#times.quietMs - nowMs);
  }

  /** What was read at this look has been judged: good or bad, it is no news any more. */
  believe(look: Look): void {
    this.#believed = new Map([...look.files].map(([file, { stamp }]) => [file, stamp]));
    for (const [file, { generation }] of look.files) this.#generations.set(dirname(file), generation);
  }
}
