import type { MemoryState } from '../memory-plan.ts';

/** What the guard looks at, and what it has done; tests have a world of their own. */
export interface GuardedMemory {
  readonly limitBytes: number;
  /** Monotonic. */
  nowMs(): number;
  /** What is used and cannot be taken back; null where nobody can tell: it takes a descriptor. */
  usedBytes(): number | null;
  /** Collects garbage and gives back what malloc has free, which stops the loop for 20 to 60 ms. */
  collect(): void;
  /** Who can be done without goes, until `bytes` less are kept for clients; nobody, where it is ample. */
  shed(state: MemoryState, bytes: number): void;
}

const MiB = 2 ** 20;

/** So much is to stay free: a tenth, within these bounds. At half of it even busy strangers go. */
const freeShare = 0.1;
const [leastFree, mostFree] = [6 * MiB, 256 * MiB];

/** Faster than this no client makes the process grow, in bytes a millisecond: from it follows when to look again. */
const fastestGrowth = 0.25 * MiB;
export const soonestMs = 25;
const latestMs = 1000;

/** Between two collections: each is a pause for everybody. Where the kernel would end the process next, it is the lesser evil. */
const collectionsMs = { tight: 1000, 'newest go': 150 } as const;

/**
 * The last line of defence against being ended for memory: what all limits together did not foresee. Beyond nine tenths it
 * first collects what is garbage. If that is not enough, those go who can be done without, and nobody comes but in the
 * place of one of them.
 */
export class MemoryGuard {
  readonly #memory: GuardedMemory;
  readonly #soft: number;
  readonly #hard: number;
  readonly #margin: number;
  #state: MemoryState = 'ample';
  #collectedMs = Number.NEGATIVE_INFINITY;
  /** Of the last look; nothing used: there was none. */
  #last = { atMs: 0, used: 0 };
  /** Used when something was last shed: what has been let go of shows behind the next collection alone. */
  #shedAt = 0;

  constructor(memory: GuardedMemory) {
    this.#memory = memory;
    const free = Math.min(mostFree, Math.max(leastFree, memory.limitBytes * freeShare));
    this.#soft = memory.limitBytes - free;
    this.#hard = memory.limitBytes - free / 2;
    this.#margin = free / 2;
  }

  get state(): MemoryState {
    return this.#state;
  }

  /** Looks once. @returns milliseconds until it should look again. */
  look(): number {
    const used = this.#memory.usedBytes();
    if (used === null) return latestMs;
    const soon = this.#projected(used);
    if (soon < this.#soft) return this.#calm(used);
    const left = this.#collect(this.#stateAt(soon)) ?? used;
    if (left < this.#soft) return this.#calm(left);
    this.#state = this.#stateAt(Math.max(left, Math.min(soon, left + this.#margin)));
    // Behind a collection what is used is really used: then more goes than is too much, or the next look would find as much.
    const excess = this.#shedAt === 0 ? left - this.#soft + this.#margin : left - this.#shedAt;
    this.#memory.shed(this.#state, Math.max(0, excess));
    this.#shedAt = Math.max(this.#shedAt, left);
    return soonestMs;
  }

  #stateAt(used: number): 'tight' | 'newest go' {
    return used >= this.#hard ? 'newest go' : 'tight';
  }

  #calm(used: number): number {
    if (this.#state !== 'ample') this.#memory.shed('ample', 0);
    this.#state = 'ample';
    this.#shedAt = 0;
    return Math.min(latestMs, Math.max(soonestMs, (this.#soft - used) / fastestGrowth));
  }

  /** What will be used before another collection shows what it can do, if it goes on as since the last look. */
  #projected(used: number): number {
    const nowMs = this.#memory.nowMs();
    const { atMs, used: before } = this.#last;
    this.#last = { atMs: nowMs, used };
    const rate = (used - before) / Math.max(soonestMs, nowMs - atMs);
    return before === 0 ? used : used + Math.max(0, rate * collectionsMs['newest go']);
  }

  /** Collects what is garbage, unless it has just done so. @returns what is used then; null where it is not known. */
  #collect(state: 'tight' | 'newest go'): number | null {
    const memory = this.#memory;
    if (memory.nowMs() - this.#collectedMs < collectionsMs[state]) return null;
    memory.collect();
    this.#collectedMs = memory.nowMs();
    this.#shedAt = 0;
    const left = memory.usedBytes();
    if (left !== null) this.#last = { atMs: this.#collectedMs, used: left };
    return left;
  }
}
