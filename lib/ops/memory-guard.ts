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

/** `newest go`: even those who do something, since the kernel would end the whole process next. */
export type MemoryState = 'ample' | 'tight' | 'newest go';

const MiB = 2 ** 20;

/** So much is to stay free: a tenth, within these bounds. At half of it even busy strangers go. */
const freeShare = 0.1;
const [leastFree, mostFree] = [6 * MiB, 256 * MiB];

/** Faster than this no client makes the process grow, in bytes a millisecond: from it follows when to look again. */
const fastestGrowth = 0.25 * MiB;
const [soonestMs, latestMs] = [25, 1000];

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
    const memory = this.#memory;
    let used = memory.usedBytes();
    if (used === null) return latestMs;
    const nowMs = memory.nowMs();
    const betweenMs = collectionsMs[used >= this.#hard ? 'newest go' : 'tight'];
    if (used >= this.#soft && nowMs - this.#collectedMs >= betweenMs) {
      memory.collect();
      this.#collectedMs = memory.nowMs();
      this.#shedAt = 0;
      used = memory.usedBytes() ?? used;
    }
    if (used < this.#soft) {
      if (this.#state !== 'ample') memory.shed('ample', 0);
      this.#state = 'ample';
      return Math.min(latestMs, Math.max(soonestMs, (this.#soft - used) / fastestGrowth));
    }
    this.#state = used >= this.#hard ? 'newest go' : 'tight';
    // Behind a collection what is used is really used: then more goes than is too much, or the next look would find as much.
    const excess = this.#shedAt === 0 ? used - this.#soft + this.#margin : used - this.#shedAt;
    memory.shed(this.#state, Math.max(0, excess));
    this.#shedAt = Math.max(this.#shedAt, used);
    return soonestMs;
  }
}

/** Looks again and again. @returns what ends that. */
export function guardMemory(memory: GuardedMemory, guarded: (look: () => void) => () => void): () => void {
  const guard = new MemoryGuard(memory);
  let timer: NodeJS.Timeout;
  const next = (ms: number): void => {
    timer = setTimeout(run, ms).unref();
  };
  let ms = soonestMs;
  const look = guarded(() => {
    ms = guard.look();
  });
  const run = (): void => {
    look();
    next(ms);
  };
  next(ms);
  return () => clearTimeout(timer);
}
