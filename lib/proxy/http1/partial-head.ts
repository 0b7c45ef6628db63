import { now } from '../../moment.ts';
import type { Deadlines, Expirable } from '../fairness/deadlines.ts';
import type { Line } from '../fairness/line.ts';
import type { Ending } from '../guard.ts';

/** When heads of responses that have begun are to have ended. */
export interface LateHeads {
  readonly seconds: number;
  readonly deadlines: Pick<Deadlines, 'add' | 'delete'>;
}

const nothing = Buffer.alloc(0);

/**
 * What there is of a response's head that has not ended. An app may take its time before it says anything, and not within
 * its head: who gets half a line, and nothing more, would wait for ever.
 */
export class PartialHead implements Expirable {
  line: Line<Expirable> | null = null;
  earlier: Expirable | null = null;
  later: Expirable | null = null;
  since = 0;
  readonly #ends: Ending;
  readonly #lateHeads: LateHeads;
  readonly #late: (fault: string) => void;
  #bytes: Buffer = nothing;

  /** @param late called once where it does not end in time. */
  constructor(ends: Ending, lateHeads: LateHeads, late: (fault: string) => void) {
    this.#ends = ends;
    this.#lateHeads = lateHeads;
    this.#late = late;
  }

  /** What has come before, and these; nothing is kept any more. */
  with(bytes: Buffer): Buffer {
    if (this.#bytes.length === 0) return bytes;
    const all = Buffer.concat([this.#bytes, bytes]);
    this.#bytes = nothing;
    return all;
  }

  /** Copies them: they are lent. Its time runs from the first on. */
  keep(bytes: Buffer): void {
    this.#bytes = Buffer.from(bytes);
    if (this.since > 0) return;
    this.since = now();
    this.#lateHeads.deadlines.add(this);
  }

  /** The head has ended, or nobody waits for it. */
  clear(): void {
    this.#bytes = nothing;
    if (this.since === 0) return;
    this.since = 0;
    this.#lateHeads.deadlines.delete(this);
  }

  expire(): void {
    this.#late(`a head that has not ended in ${this.#lateHeads.seconds} s`);
  }

  destroy(): void {
    this.#ends.destroy();
  }
}
