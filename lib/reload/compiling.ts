import { compile, type PolicyIndex } from '../policy/compile/compile.ts';
import type { PolicyDocument } from '../policy/documents/types.ts';
import type { Workload } from '../policy/workload.ts';
import type { Problem } from '../problem.ts';
import { Slices } from './slices.ts';

/** Divided, so that requests hardly notice. */
export async function compileInSlices(
  documents: readonly PolicyDocument[],
  workload: Workload,
): Promise<{ readonly index: PolicyIndex; readonly problems: readonly Problem[] }> {
  const steps = compile(documents, workload);
  const slices = new Slices();
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
    await slices.rest();
  }
}

/** One after the other, for all who ask: what was compiled first is in force first. */
export class Turns {
  #last: Promise<void> = Promise.resolve();

  take(work: () => Promise<void>): Promise<void> {
    const turn = this.#last.then(work);
    // The one that asked for this turn hears of it; the next one is not concerned.
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  /** Resolves when all turns that were taken so far are over. */
  over(): Promise<void> {
    return this.#last;
  }
}
