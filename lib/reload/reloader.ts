import { Attempts } from './attempts.ts';
import type { Look } from './look.ts';
import { Settling, type Times, usualTimes } from './settling.ts';
import type { World } from './world.ts';

/** What a look at contents brought. `look`: the files as they stood for it, where the reader looked itself. */
export type Reading<R> =
  | { readonly kind: 'read'; readonly value: R; readonly look: Look | null }
  /** What was concluded last time. */
  | { readonly kind: 'unchanged' }
  /** It was ended, because the files have changed. */
  | { readonly kind: 'abandoned' };

export interface Judgement {
  /** What is gone and may come back, and from where; null where nothing is, or where it is known to be meant. */
  readonly missing: { readonly what: string; readonly from: string } | null;
  /** Nothing more is to be waited for: it comes into force, or the last good stays and the fault is reported. */
  conclude(): void | Promise<void>;
}

export interface ReloaderOptions<R> {
  readonly world: World;
  /** `at once` where nothing is in force before the first reading: then it waits for no writer. */
  readonly first: 'at once' | 'settled';
  /** `held`: read already, and held until what it lacks counts as removed. It may be returned again. */
  read(held: R | null): Promise<Reading<R>>;
  /** `meant` says of a file that it is as it was believed before, or was put in its place whole. */
  judge(value: R, now: Look, meant: (file: string) => boolean): Judgement;
  /** Ends a reading under way, which then says so; absent where that cannot be done. */
  readonly abandon?: () => void;
  /** Something is gone from files, and counts as removed in `ms` where nothing changes; once a reload. */
  onWaiting?(from: string, ms: number): void;
  /** A reload has not ended in `overdueMs`, other than by waiting for files; null when it has ended at last. */
  onOverdue(waitingFor: string | null): void;
  /** No fault of the files; it is tried again. */
  onError(error: unknown): void;
  readonly times?: Times | undefined;
  /** From the first event of a change until it is looked at: one change is many events. */
  readonly debounceMs?: number | undefined;
  readonly retryMs?: number | undefined;
  readonly overdueMs?: number | undefined;
}

/** What a reload is about. */
export type ReloadState =
  | { readonly kind: 'resting' }
  /** Files are in the middle of being written. */
  | { readonly kind: 'settling' }
  | {
      readonly kind: 'reading';
      readonly seen: Look;
      readonly sinceMs: number;
      readonly abandonUntilMs: number;
      /** Where something is gone from that this reading looks for once more. */
      readonly missingFrom: string | null;
    }
  /** What is gone may come back. */
  | { readonly kind: 'missing'; readonly from: string }
  | { readonly kind: 'concluding' }
  | { readonly kind: 'stopped' };

const resting: ReloadState = { kind: 'resting' };
const settling: ReloadState = { kind: 'settling' };
const concluding: ReloadState = { kind: 'concluding' };
const stopped: ReloadState = { kind: 'stopped' };

/** Between two looks at files that are waited for. */
const lookEveryMs = 200;
/** A reading that takes longer is ended where the files have changed; a shorter one is let be. */
const worthAbandoningMs = 1_000;

/**
 * Follows files that may change at any time and in any way: looks, waits for writers, reads, waits for what is gone to come
 * back, and then has it judged, good or bad. One reload at a time; each is over in bounded time, but for a reading that
 * hangs, and then that is reported.
 */
export class Reloader<R> {
  readonly #options: ReloaderOptions<R>;
  readonly #times: Times;
  readonly #settling: Settling;
  readonly #stopping = new AbortController();
  readonly #attempts: Attempts;
  #state: ReloadState = resting;
  #debounce: NodeJS.Timeout | undefined;
  // At most one waits, since it takes the newest state when its turn comes.
  #running: Promise<void> | null = null;
  #queued: Promise<void> | null = null;

  constructor(options: ReloaderOptions<R>) {
    this.#options = options;
    this.#times = options.times ?? usualTimes;
    this.#settling = new Settling(this.#times, options.first);
    const { retryMs } = options;
    const onError = (error: unknown): void => options.onError(error);
    const again = (): void => void this.#request();
    this.#attempts = new Attempts({ work: () => this.#reload(), again, onError, retryMs }, this.signal);
  }

  /** Aborted by `stop`. */
  get signal(): AbortSignal {
    return this.#stopping.signal;
  }

  get state(): ReloadState {
    return this.#state;
  }

  /** From now on changes are followed. Before the first reload, so that none in between goes unseen. */
  watch(): void {
    this.#options.world.watch(() => this.#changed());
  }

  /** Resolves when the state of the files at this call has been dealt with. */
  reload(): Promise<void> {
    this.#settling.stir(this.#options.world.nowMs());
    return this.#request();
  }

  /** Nothing is concluded after this call. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    clearTimeout(this.#debounce);
    await this.#options.world.stop();
    await this.#running;
    this.#state = stopped;
  }

  /** Counted from the first event, not the last: a folder that never comes to rest is still looked at. */
  #changed(): void {
    if (this.signal.aborted) return;
    this.#settling.stir(this.#options.world.nowMs());
    void this.#abandonIfStale();
    this.#debounce ??= setTimeout(() => {
      this.#debounce = undefined;
      void this.#request();
    }, this.#options.debounceMs ?? 50);
  }

  #request(): Promise<void> {
    if (this.#running !== null) {
      this.#queued ??= this.#running.then(() => {
        this.#queued = null;
        return this.#request();
      });
      return this.#queued;
    }
    this.#running = this.#attempts.make().finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  async #reload(): Promise<void> {
    let overdue = false;
    let late: NodeJS.Timeout | undefined;
    const look = (afterMs: number): void => {
      late = setTimeout(() => {
        const { kind } = this.#state;
        // These waits end by themselves, and have been told of.
        if (kind === 'missing' || kind === 'settling') return look(lookEveryMs);
        overdue = true;
        this.#options.onOverdue(waitingFor(this.#state, this.#options.world.nowMs()));
      }, afterMs).unref();
    };
    look(this.#options.overdueMs ?? 15_000);
    try {
      await this.#untilConcluded();
    } finally {
      this.#state = resting;
      clearTimeout(late);
      if (overdue) this.#options.onOverdue(null);
    }
  }

  async #untilConcluded(): Promise<void> {
    const { world } = this.#options;
    const beganMs = world.nowMs();
    let held: R | null = null;
    let missing: { what: string; from: string | null; sinceMs: number } = { what: '', from: null, sinceMs: beganMs };
    for (;;) {
      const seen = await this.#settled(beganMs);
      if (seen === null) return;
      const reading: Reading<R> | null = await this.#read(seen, beganMs, held, missing.from);
      if (reading === null) return;
      if (reading.kind === 'abandoned') continue;
      if (reading.kind === 'unchanged') return this.#settling.believe(seen);
      const now = await this.#look();
      if (now === null) return;
      const patient = world.nowMs() - beganMs < this.#times.patienceMs;
      const stale = now.stamp !== (reading.look ?? seen).stamp;
      // Asked once more: that a file which appeared is still being written to may have been told only meanwhile.
      if (patient && (stale || this.#unsettledMs(now) > 0)) continue;
      const meant = (file: string): boolean => this.#settling.isMeant(file, now, (each) => world.whole(each, now));
      const judgement = this.#options.judge(reading.value, now, meant);
      if (judgement.missing !== null) {
        const { what, from } = judgement.missing;
        const isFirst = missing.from === null;
        if (missing.what !== what) missing = { what, from, sinceMs: world.nowMs() };
        const left = this.#untilRemovedMs(missing.sinceMs);
        if (left > 0) {
          if (isFirst) this.#options.onWaiting?.(from, Math.ceil(left));
          held = reading.value;
          if (await this.#pause(left, { kind: 'missing', from })) continue;
          return;
        }
      }
      this.#settling.believe(now);
      this.#state = concluding;
      return judgement.conclude();
    }
  }

  /** A folder that is never at rest must not keep in force for ever what is gone from it. */
  #untilRemovedMs(missingSinceMs: number): number {
    const nowMs = this.#options.world.nowMs();
    return Math.min(this.#settling.untilQuietMs(nowMs), missingSinceMs + 3 * this.#times.quietMs - nowMs);
  }

  /** Waits until no file is in the middle of being written, but not for ever. Null where it was stopped. */
  async #settled(beganMs: number): Promise<Look | null> {
    for (;;) {
      const seen = await this.#look();
      if (seen === null) return null;
      const isLate = this.#options.world.nowMs() - beganMs >= this.#times.patienceMs;
      const wait = isLate ? 0 : this.#unsettledMs(seen);
      if (wait <= 0) return seen;
      if (!(await this.#pause(wait, settling))) return null;
    }
  }

  async #look(): Promise<Look | null> {
    const { world } = this.#options;
    const seen = await unless(this.signal, () => world.look());
    if (seen !== null) this.#settling.see(seen, world.nowMs());
    return seen;
  }

  #unsettledMs(seen: Look): number {
    const { world } = this.#options;
    return this.#settling.unsettledMs(seen, world.nowMs(), (file) => world.whole(file, seen));
  }

  #read(seen: Look, beganMs: number, held: R | null, missingFrom: string | null): Promise<Reading<R> | null> {
    const sinceMs = this.#options.world.nowMs();
    this.#state = { kind: 'reading', seen, sinceMs, abandonUntilMs: beganMs + this.#times.patienceMs, missingFrom };
    return unless(this.signal, () => this.#options.read(held));
  }

  /** False where it was stopped. */
  async #pause(ms: number, state: ReloadState): Promise<boolean> {
    this.#state = state;
    // Rejects when it is stopped, which is looked for.
    await this.#options.world.delay(Math.min(Math.max(1, ms), lookEveryMs), this.signal).catch(() => undefined);
    return !this.signal.aborted;
  }

  /** What a reading under way would say of files that are no more nobody needs to hear. */
  async #abandonIfStale(): Promise<void> {
    const { world, abandon } = this.#options;
    const nowMs = world.nowMs();
    const stale = this.#state;
    if (abandon === undefined || stale.kind !== 'reading') return;
    if (nowMs - stale.sinceMs < worthAbandoningMs || nowMs >= stale.abandonUntilMs) return;
    const { stamp } = await world.look();
    if (this.#state === stale && stamp !== stale.seen.stamp) abandon();
  }
}

/** For people. What is missing is looked for again and again; only a reading that takes long is itself what is waited for. */
function waitingFor(state: ReloadState, nowMs: number): string {
  if (state.kind === 'concluding') return 'what was read to come into force';
  if (state.kind === 'reading' && state.missingFrom !== null && nowMs - state.sinceMs < worthAbandoningMs)
    return `what is gone from ${state.missingFrom} to count as removed`;
  return 'the files to be read';
}

/** Null where it is stopped first: a disk that hangs must not hold up the end. */
function unless<T>(signal: AbortSignal, begin: () => Promise<T>): Promise<T | null> {
  if (signal.aborted) return Promise.resolve(null);
  return new Promise((resolve, reject) => {
    const stop = (): void => resolve(null);
    signal.addEventListener('abort', stop, { once: true });
    const done = (): void => signal.removeEventListener('abort', stop);
    begin().finally(done).then(resolve, reject);
  });
}
