import type { Soundness } from './soundness.ts';

/** Readiness as named preconditions: each is released once by its owner, and `drain` is set again at shutdown. */
const latchNames = ['policy', 'identity', 'listeners', 'drain'] as const;
export type LatchName = (typeof latchNames)[number];

export interface ReadyState {
  readonly ready: boolean;
  /** What is still wanted, in words for `/ready`; empty when ready. */
  readonly missing: readonly string[];
  /** What is well only as long as this process lives, a sentence each; no reason to be unready. */
  readonly doubts: readonly string[];
}

/** Files of which an earlier state is in use, because what they hold now cannot be. */
const doubtTexts = {
  policy:
    'policy: the files on disk cannot be loaded, and the last good ones stay in force; a restart would lose them, and authorize nothing while the files cannot be loaded',
  identity:
    'identity: the files on disk cannot be loaded, and the last good ones stay in use; a restart would not start',
  pod_facts: 'pod facts: the files on disk cannot be read, and the previous ones stay in use',
} as const;
export type StaleFiles = keyof typeof doubtTexts;

const missingText: Readonly<Record<LatchName, string>> = {
  policy: 'policy',
  identity: 'identity',
  listeners: 'listeners',
  drain: 'draining',
};

/** Everything is missing until it is said to be up, except that no drain has begun: the direction of failure is 503. */
export class Readiness {
  readonly #missing = new Set<LatchName>(['policy', 'identity', 'listeners']);
  readonly #stale = new Set<StaleFiles>();
  readonly #soundness: Pick<Soundness, 'ready'>;

  constructor(soundness: Pick<Soundness, 'ready'> = { ready: true }) {
    this.#soundness = soundness;
  }

  up(name: Exclude<LatchName, 'drain'>): void {
    this.#missing.delete(name);
  }

  /** Whether what is in use is not what the files hold. */
  stale(files: StaleFiles, isStale: boolean): void {
    if (isStale) this.#stale.add(files);
    else this.#stale.delete(files);
  }

  /** For good: a drained process does not come back. */
  drain(): void {
    this.#missing.add('drain');
  }

  state(): ReadyState {
    const missing = latchNames.filter((name) => this.#missing.has(name)).map((name) => missingText[name]);
    if (!this.#soundness.ready) missing.push('internal-errors');
    // Where there has been no good state there is none to lose.
    const doubts = [...this.#stale]
      .filter((files) => files === 'pod_facts' || !this.#missing.has(files))
      .map((files) => doubtTexts[files]);
    return { ready: missing.length === 0, missing, doubts };
  }
}
