import { compile, type PolicyIndex } from '../policy/compile/compile.ts';
import type { PolicyDocument } from '../policy/documents/types.ts';
import { widened } from '../policy/widening.ts';
import type { Workload } from '../policy/workload.ts';
import type { Problem } from '../problem.ts';
import type { PolicyLoad } from './load.ts';
import type { Look } from './look.ts';
import { type InForce, inForce, type Loss, lossOf } from './loss.ts';
import { Abandoned, type PolicyWorld, policyOnDisk } from './policy-disk.ts';
import { Settling, type Times, usualTimes } from './settling.ts';
import { Slices } from './slices.ts';

/** Documents that went, and what is open now that was not. */
export interface Removal {
  readonly files: readonly string[];
  readonly documents: readonly string[];
  /** One line each; empty where nothing is wider. */
  readonly wider: readonly string[];
}

export interface PolicySourceOptions {
  /** Null: an empty document set, in force at once; every port then follows the default inbound policy. */
  readonly path: string | null;
  /** Asked anew for every compile. */
  workload(): Workload;
  /** The new policy: whole, compiled, and in force from this call on. */
  swap(index: PolicyIndex, documents: readonly PolicyDocument[]): void;
  /** Everything found in one load, errors and warnings; called before the outcome, and with none when it is clean. */
  onProblems(problems: readonly Problem[]): void;
  /** A load was good. `changed` false: its contents are those in force already. */
  onLoaded(load: { readonly documents: number; readonly changed: boolean }): void;
  /** A load was bad: what was in force, if anything, stays so whole. */
  onFailed(reason: string): void;
  /** Called after `swap` where documents went. */
  onRemoved?(removal: Removal): void;
  /** A load has not ended in `overdueMs`, and what for it waits; null when it has ended at last. */
  onOverdue?(waitingFor: string | null): void;
  readonly log: { warn(fields: object, message: string): void };
  /** For tests. */
  readonly debounceMs?: number;
  readonly pollMs?: number;
  readonly retryMs?: number;
  readonly overdueMs?: number;
  readonly times?: Times;
  readonly world?: PolicyWorld;
}

export interface PolicySource {
  /** Resolves after the first attempt, whatever came of it, with watching begun. */
  start(): Promise<void>;
  /** Loads again; resolves when the state of the files at this call has been dealt with. */
  reload(): Promise<void>;
  /** Compiles the documents in force for the workload as it is now. */
  workloadChanged(): Promise<void>;
  stop(): Promise<void>;
}

/** Between two looks at files that are waited for. */
const lookEveryMs = 200;
/** A load that takes longer is ended where the files have changed; a shorter one is let be. */
const worthAbandoningMs = 1_000;
const longestLoadMs = 60_000;
const longestRetryMs = 60_000;

/**
 * Keeps the policy in force equal to the files: load aside, compile aside, swap whole.
 *
 * Nothing is in force until a load is good. That first one may hold refused documents: they grant nothing, what they might
 * have refused is closed, and the rest applies. It may not be broken (a file unreadable, or not YAML), since then nobody
 * knows what is missing. Later, an error of any kind keeps the last good policy whole, and so does a file that was emptied;
 * what is gone counts as removed once that has settled.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: the loop is to be shared by all sources.
export function createPolicySource(options: PolicySourceOptions): PolicySource {
  const { path, debounceMs = 50, retryMs = 5_000, overdueMs = 15_000, times = usualTimes } = options;
  const onWatchError = (error: Error): void =>
    options.log.warn({ err: error, path }, 'Watching the policy failed; polling goes on');
  const world: PolicyWorld | null =
    path === null ? null : (options.world ?? policyOnDisk({ path, onWatchError, pollMs: options.pollMs }));
  const settling = new Settling(times);
  const stopping = new AbortController();
  const { signal } = stopping;
  /** The good load whose documents are in force. */
  let good: { readonly load: PolicyLoad; readonly inForce: InForce; index: PolicyIndex } | null = null;
  /** Contents that were tried last, good or bad: trying them again would say the same again. */
  let triedDigest: string | undefined;
  let debounce: NodeJS.Timeout | undefined;
  let retry: NodeJS.Timeout | undefined;
  let failures = 0;
  /** Since when the thread has been loading, and by when it must have ended; null where it is not. */
  let loading: { readonly sinceMs: number; readonly abandonUntilMs: number; readonly seen: Look } | null = null;
  let compiling: Promise<void> = Promise.resolve();
  let waitingFor = 'reading';

  // One load at a time, and at most one waits, since it takes the newest state when its turn comes.
  let running: Promise<void> | null = null;
  let queued: Promise<void> | null = null;
  function request(): Promise<void> {
    if (running !== null) {
      queued ??= running.then(() => {
        queued = null;
        return request();
      });
      return queued;
    }
    running = attempt(load).finally(() => {
      running = null;
    });
    return running;
  }

  async function attempt(work: () => Promise<void>): Promise<void> {
    if (signal.aborted) return;
    try {
      await work();
      failures = 0;
    } catch (error) {
      if (signal.aborted) return;
      // No fault of the files (the thread ran out of memory, say): nothing will tell us to try again.
      options.onFailed(`unexpected error: ${error instanceof Error ? error.message : String(error)}`);
      const delayMs = Math.min(longestRetryMs, retryMs * 2 ** failures++);
      retry = setTimeout(() => void (work === load ? request() : compileTurn()), delayMs).unref();
    }
  }

  async function load(): Promise<void> {
    if (world === null)
      return accept({ documents: [], problems: [], broken: false, digest: '', look: null, holding: [] }, noLook);
    let overdue = false;
    const late = setTimeout(() => {
      overdue = true;
      options.onOverdue?.(waitingFor);
    }, overdueMs).unref();
    try {
      await loadFrom(world);
    } finally {
      clearTimeout(late);
      if (overdue) options.onOverdue?.(null);
    }
  }

  async function loadFrom(disk: PolicyWorld): Promise<void> {
    const beganMs = disk.nowMs();
    /** Read already, and held until what it lacks counts as removed. */
    let held: PolicyLoad | null = null;
    let missing = { what: '', sinceMs: beganMs };
    for (;;) {
      const seen = await settled(disk, beganMs);
      if (signal.aborted) return;
      const read = await readFrom(disk, beganMs, seen, held?.digest ?? triedDigest);
      if (signal.aborted) return;
      if (read === 'abandoned') continue;
      if (read === 'unchanged' && held === null) {
        settling.believe(seen);
        return;
      }
      const loaded: PolicyLoad = read === 'unchanged' && held !== null ? held : (read as PolicyLoad);
      const late = disk.nowMs() - beganMs >= times.patienceMs;
      const now = await disk.look();
      settling.see(now, disk.nowMs());
      const stale = now.stamp !== (read === 'unchanged' ? seen : (loaded.look ?? seen)).stamp;
      // Asked once more: that a file which appeared is still being written to may have been told only meanwhile.
      if (!late && (stale || unsettledMs(disk, now, disk.nowMs()) > 0)) continue;
      const loss = judge(disk, loaded, now);
      if (loss.kind === 'removed' && !loss.settled) {
        const what = loss.documents.join();
        if (missing.what !== what) missing = { what, sinceMs: disk.nowMs() };
        // A folder that is never at rest must not keep a document in force for ever.
        const left = Math.min(settling.untilQuietMs(disk.nowMs()), missing.sinceMs + 3 * times.quietMs - disk.nowMs());
        if (left > 0) {
          held = loaded;
          await pause(disk, left, `what is gone from ${loss.files.join(', ')} to count as removed`);
          continue;
        }
      }
      settling.believe(now);
      return conclude(loaded, now, loss);
    }
  }

  /** Waits until no file is in the middle of being written, but not for ever; the first load waits for nothing. */
  async function settled(disk: PolicyWorld, beganMs: number): Promise<Look> {
    for (;;) {
      const seen = await disk.look();
      const now = disk.nowMs();
      settling.see(seen, now);
      if (now - beganMs >= times.patienceMs) return seen;
      const wait = unsettledMs(disk, seen, now);
      if (wait <= 0) return seen;
      await pause(disk, wait, 'files that are being written');
      if (signal.aborted) return seen;
    }
  }

  function unsettledMs(disk: PolicyWorld, seen: Look, nowMs: number): number {
    if (triedDigest === undefined) return 0;
    const wholeGeneration = seen.generation !== '' && seen.generation !== good?.inForce.look.generation;
    return settling.unsettledMs(seen, nowMs, (file) => wholeGeneration || disk.whole(file, seen));
  }

  async function pause(disk: PolicyWorld, ms: number, what: string): Promise<void> {
    waitingFor = what;
    // Rejects when it is stopped, which the caller looks for.
    await disk.delay(Math.min(Math.max(1, ms), lookEveryMs), signal).catch(() => undefined);
  }

  async function readFrom(
    disk: PolicyWorld,
    beganMs: number,
    seen: Look,
    knownDigest: string | undefined,
  ): Promise<PolicyLoad | 'unchanged' | 'abandoned'> {
    waitingFor = 'the files to be read';
    const sinceMs = disk.nowMs();
    loading = { sinceMs, abandonUntilMs: beganMs + times.patienceMs, seen };
    let tooLong = false;
    const limit = setTimeout(() => {
      tooLong = true;
      disk.abandon();
    }, longestLoadMs).unref();
    try {
      return await disk.load({ namespace: options.workload().namespace }, knownDigest);
    } catch (error) {
      if (!(error instanceof Abandoned)) throw error;
      if (tooLong) throw new Error(`reading the policy took more than ${longestLoadMs / 1000} s`);
      return 'abandoned';
    } finally {
      clearTimeout(limit);
      loading = null;
    }
  }

  function judge(disk: PolicyWorld, loaded: PolicyLoad, now: Look): Loss {
    if (good === null || loaded.broken) return { kind: 'none' };
    const { inForce: before } = good;
    const replaced = (file: string): boolean =>
      before.look.files.get(file)?.inode !== now.files.get(file)?.inode && disk.whole(file, now);
    return lossOf(before, now, loaded, replaced);
  }

  /** The files have been read as they are, and nothing more is to be waited for. */
  async function conclude(loaded: PolicyLoad, now: Look, loss: Loss): Promise<void> {
    const emptied = loss.kind === 'emptied' ? loss.problems : [];
    const problems = [...loaded.problems, ...emptied];
    const reason = refusal(loaded, problems);
    if (good !== null && loaded.digest === good.load.digest) {
      // Broken and repaired to what is in force all along.
      triedDigest = loaded.digest;
      good = { ...good, inForce: inForce(now, good.load.documents) };
      options.onProblems(loaded.problems);
      options.onLoaded({ documents: loaded.documents.length, changed: false });
    } else if (reason !== null) {
      triedDigest = loaded.digest;
      options.onProblems(problems);
      options.onFailed(reason);
    } else {
      const before = good?.index ?? null;
      await accept(loaded, now);
      if (good === null || before === null || loss.kind !== 'removed') return;
      const { files, documents } = loss;
      options.onRemoved?.({ files, documents, wider: widened(before, good.index) });
    }
  }

  /** Why a load may not come into force, or null. */
  function refusal(loaded: PolicyLoad, problems: readonly Problem[]): string | null {
    const errors = problems.filter((problem) => problem.severity === 'error').length;
    if (loaded.broken) return 'a policy file cannot be read, or nobody knows what it holds';
    if (good === null || errors === 0) return null;
    return `the changed policy has ${errors} ${errors === 1 ? 'error' : 'errors'}`;
  }

  async function accept(loaded: PolicyLoad, now: Look): Promise<void> {
    await exclusively(async () => {
      const compiled = await compileInSlices(loaded.documents);
      if (signal.aborted) return;
      triedDigest = loaded.digest;
      options.onProblems([...loaded.problems, ...compiled.problems]);
      good = { load: loaded, inForce: inForce(now, loaded.documents), index: compiled.index };
      options.swap(compiled.index, loaded.documents);
      options.onLoaded({ documents: loaded.documents.length, changed: true });
    });
  }

  /** Compiles and swaps follow one another, whoever asks for them. */
  function exclusively(work: () => Promise<void>): Promise<void> {
    const turn = compiling.then(work);
    // Whoever asked for this turn hears of it; the next one is not concerned.
    compiling = turn.catch(() => undefined);
    return turn;
  }

  async function compileInSlices(
    documents: readonly PolicyDocument[],
  ): Promise<{ index: PolicyIndex; problems: readonly Problem[] }> {
    const steps = compile(documents, options.workload());
    const slices = new Slices();
    for (;;) {
      const step = steps.next();
      if (step.done) return step.value;
      await slices.rest();
    }
  }

  let recompiling: Promise<void> | null = null;
  function compileTurn(): Promise<void> {
    recompiling ??= attempt(() =>
      exclusively(async () => {
        recompiling = null;
        if (good === null) return;
        const { index } = await compileInSlices(good.load.documents);
        if (signal.aborted) return;
        good.index = index;
        options.swap(index, good.load.documents);
      }),
    );
    return recompiling;
  }

  function changed(): void {
    if (world !== null) settling.stir(world.nowMs());
    void giveUpIfStale();
    clearTimeout(debounce);
    debounce = setTimeout(() => void request(), debounceMs);
  }

  /** What a load under way would say of files that are no more nobody needs to hear. */
  async function giveUpIfStale(): Promise<void> {
    const now = world?.nowMs() ?? 0;
    const stale = loading;
    if (world === null || stale === null) return;
    if (now - stale.sinceMs < worthAbandoningMs || now >= stale.abandonUntilMs) return;
    const { stamp } = await world.look();
    if (loading === stale && stamp !== stale.seen.stamp) world.abandon();
  }

  return {
    async start() {
      // Watching begins first: a change while the first load runs is then seen, and loaded after it.
      world?.watch(changed);
      await request();
    },
    reload() {
      if (world !== null) settling.stir(world.nowMs());
      return request();
    },
    workloadChanged: compileTurn,
    async stop() {
      stopping.abort();
      clearTimeout(debounce);
      clearTimeout(retry);
      await world?.stop();
      await running;
      await compiling;
    },
  };
}

const noLook: Look = { files: new Map(), generation: '', stamp: '', takenMs: 0 };
