/** What a rest is decided from, and what it does; tests have a world of their own. */
export interface RestingWorld {
  /** Monotonic. */
  nowMs(): number;
  /** The share of time for which there was work since the last call. */
  busy(): number;
  /** Null where nobody can tell: to ask may take a descriptor, and none may be left. */
  residentBytes(): number | null;
  /** `in-part` where it has begun what takes work, and more is to be had when that is over. */
  giveBack(): 'all' | 'in-part';
}

/** So many looks in a row must find it quiet. */
const quietLooks = 2;
/** Under this share the process is quiet: a probe now and then, a scrape. */
const quietShare = 0.05;
/** A rest stops the loop for about 50 ms, so there is none for less than this, and none so soon after the last. */
const leastGrowthBytes = 16 * 2 ** 20;
const leastBetweenMs = 10_000;
/** Or, later, after so much work: what has ended since the last rest may have left memory behind without any growth. */
const leastWorkSeconds = 0.25;
const workBetweenMs = 60_000;

/**
 * Says when a process is to give memory back: once after its start, and after each load that made it grow. V8 and malloc
 * keep what they had at their highest load, and what the start alone has used stays mapped.
 */
export class RestingMemory {
  readonly #world: RestingWorld;
  #quiet = 0;
  #workedSeconds = 0;
  #lastMs = Number.NEGATIVE_INFINITY;
  /** What was resident a look after the last rest: what is in use has come back by then. Null until that look. */
  #restedBytes: number | null = 0;

  constructor(world: RestingWorld) {
    this.#world = world;
  }

  /** Once a second. */
  look(): void {
    const world = this.#world;
    const busy = world.busy();
    this.#restedBytes ??= world.residentBytes();
    this.#workedSeconds += busy;
    this.#quiet = busy < quietShare ? this.#quiet + 1 : 0;
    if (this.#quiet < quietLooks) return;
    const nowMs = world.nowMs();
    const resident = world.residentBytes();
    if (resident === null || this.#restedBytes === null) return;
    if (!this.#isDue(nowMs - this.#lastMs, resident - this.#restedBytes)) return;
    this.#workedSeconds = 0;
    this.#quiet = 0;
    if (world.giveBack() === 'in-part') return;
    this.#lastMs = nowMs;
    this.#restedBytes = null;
  }

  #isDue(sinceMs: number, grownBytes: number): boolean {
    if (sinceMs < leastBetweenMs) return false;
    return grownBytes >= leastGrowthBytes || (sinceMs >= workBetweenMs && this.#workedSeconds >= leastWorkSeconds);
  }
}
