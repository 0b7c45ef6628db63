import type { Soundness } from './soundness.ts';

/** Readiness as named preconditions: each is released once by its owner, and `drain` is set again at shutdown. */
const latchNames = ['policy', 'identity', 'listeners', 'drain'] as const;
export type LatchName = (typeof latchNames)[number];

export interface ReadyState {
  readonly ready: boolean;
  /** What is still wanted, in words for `/ready`; empty when ready. */
  readonly missing: readonly string[];
}

const missingText: Readonly<Record<LatchName, string>> = {
  policy: 'policy',
  identity: 'identity',
  listeners: 'listeners',
  drain: 'draining',
};

/** Everything is missing until it is said to be up, except that no drain has begun: the direction of failure is 503. */
export class Readiness {
  readonly #missing = new Set<LatchName>(['policy', 'identity', 'listeners']);
  readonly #soundness: Pick<Soundness, 'ready'>;

  constructor(soundness: Pick<Soundness, 'ready'> = { ready: true }) {
    this.#soundness = soundness;
  }

  up(name: Exclude<LatchName, 'drain'>): void {
    this.#missing.delete(name);
  }

  /** For good: a drained process does not come back. */
  drain(): void {
    this.#missing.add('drain');
  }

  state(): ReadyState {
    const missing = latchNames.filter((name) => this.#missing.has(name)).map((name) => missingText[name]);
    if (!this.#soundness.ready) missing.push('internal-errors');
    return { ready: missing.length === 0, missing };
  }
}
