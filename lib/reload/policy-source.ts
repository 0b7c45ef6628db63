import type { CodedLog } from '../errors/complaint.ts';
import type { PolicyIndex } from '../policy/compile/compile.ts';
import type { PolicyDocument } from '../policy/documents/types.ts';
import { widened } from '../policy/widening.ts';
import type { Workload } from '../policy/workload.ts';
import type { Problem } from '../problem.ts';
import { Attempts } from './attempts.ts';
import { type Changes, type Compared, changesBetween } from './changes.ts';
import { compileInSlices, Turns } from './compiling.ts';
import type { ComparableLoad } from './load.ts';
import type { Look } from './look.ts';
import { type InForce, inForce, type Loss, lossOf } from './loss.ts';
import { Abandoned, noPolicy, type PolicyWorld, policyOnDisk } from './policy-disk.ts';
import { type Judgement, type Reading, Reloader } from './reloader.ts';
import type { Times } from './settling.ts';

/** Documents that went, and what is open now that was not. */
export interface RemovedDocuments {
  readonly files: readonly string[];
  readonly documents: readonly string[];
  /** One line each; empty where nothing is wider. */
  readonly wider: readonly string[];
}

export interface LoadedPolicy {
  readonly documents: number;
  /**
   * `first`; `same`: its contents are those in force already, or none of its documents says anything else than before;
   * else what is different.
   */
  readonly changes: 'first' | 'same' | Changes;
}

export interface PolicySourceOptions {
  /** Null: an empty document set, in force at once; every port then follows the default inbound policy. */
  readonly path: string | null;
  /** Asked anew for every compile. */
  workload(): Workload;
  /** The new policy, whole, and compiled of these documents for this pod: in force when this resolves, at the latest. */
  swap(index: PolicyIndex, documents: readonly PolicyDocument[], workload: Workload): void | Promise<void>;
  /** Everything found in one load, errors and warnings; called before the outcome, and with none when it is clean. */
  onProblems(problems: readonly Problem[]): void;
  /** A load was good, and is in force. */
  onLoaded(load: LoadedPolicy): void;
  /** A load was bad: what was in force, if anything, stays so whole. */
  onFailed(reason: string): void;
  /** Called after `swap` where documents went. */
  onRemoved?(removal: RemovedDocuments): void;
  /** Documents are gone from files, and count as removed in `ms` where nothing changes. */
  onWaiting?(from: string, ms: number): void;
  /** A load has not ended in `overdueMs`, and what for it waits; null when it has ended at last. */
  onOverdue?(waitingFor: string | null): void;
  readonly log: Pick<CodedLog, 'warn'>;
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

const longestLoadMs = 60_000;

/**
 * Keeps the policy in force equal to the files: load aside, compile aside, swap whole.
 *
 * Nothing is in force until a load is good. That first one may hold refused documents: they grant nothing, what they might
 * have refused is closed, and the rest applies. It may not be broken (a file unreadable, or not YAML), since then nobody
 * knows what is missing. Later, an error of any kind keeps the last good policy whole, and so does a file that was emptied;
 * what is gone counts as removed once that has settled.
 */
export function createPolicySource(options: PolicySourceOptions): PolicySource {
  return new FollowedFiles(options);
}

/** The good load whose documents are in force. */
interface Good {
  readonly load: ComparableLoad;
  readonly inForce: InForce;
  readonly index: PolicyIndex;
}

class FollowedFiles implements PolicySource {
  readonly #options: PolicySourceOptions;
  readonly #world: PolicyWorld;
  readonly #reloader: Reloader<ComparableLoad>;
  /** Of compiling and swapping. */
  readonly #turns = new Turns();
  readonly #recompiles: Attempts;
  #recompiling: Promise<void> | null = null;
  #good: Good | null = null;
  /** Contents that were tried last, good or bad: trying them again would say the same again. */
  #triedDigest: string | undefined;

  constructor(options: PolicySourceOptions) {
    this.#options = options;
    const { debounceMs, retryMs, overdueMs, times } = options;
    this.#world = worldOf(options);
    const onError = (error: unknown): void =>
      options.onFailed(`unexpected error: ${error instanceof Error ? error.message : String(error)}`);
    this.#reloader = new Reloader({
      world: this.#world,
      first: 'at once',
      read: (held) => this.#read(held),
      judge: (load, now) => this.#judge(load, now),
      abandon: () => this.#world.abandon(),
      onWaiting: (from, ms) => options.onWaiting?.(from, ms),
      onOverdue: (waitingFor) => options.onOverdue?.(waitingFor),
      onError,
      ...{ times, debounceMs, retryMs, overdueMs },
    });
    const again = (): void => void this.workloadChanged();
    const work = (): Promise<void> => this.#recompile();
    this.#recompiles = new Attempts({ work, again, onError, retryMs }, this.#reloader.signal);
  }

  start(): Promise<void> {
    this.#reloader.watch();
    return this.#reloader.reload();
  }

  reload(): Promise<void> {
    return this.#reloader.reload();
  }

  workloadChanged(): Promise<void> {
    this.#recompiling ??= this.#recompiles.make();
    return this.#recompiling;
  }

  async stop(): Promise<void> {
    await this.#reloader.stop();
    await this.#turns.over();
  }

  async #read(held: ComparableLoad | null): Promise<Reading<ComparableLoad>> {
    const { namespace } = this.#options.workload();
    let tooLong = false;
    const limit = setTimeout(() => {
      tooLong = true;
      this.#world.abandon();
    }, longestLoadMs).unref();
    try {
      const load = await this.#world.load({ namespace }, held?.digest ?? this.#triedDigest);
      if (load !== 'unchanged') return { kind: 'read', value: load, look: load.look };
      return held === null ? { kind: 'unchanged' } : { kind: 'read', value: held, look: null };
    } catch (error) {
      if (!(error instanceof Abandoned)) throw error;
      if (tooLong) throw new Error(`reading the policy took more than ${longestLoadMs / 1000} s`);
      return { kind: 'abandoned' };
    } finally {
      clearTimeout(limit);
    }
  }

  #judge(load: ComparableLoad, now: Look): Judgement {
    const loss = this.#lossOf(load, now);
    const { documents, files } = loss.kind === 'removed' && !loss.settled ? loss : { documents: [], files: [] };
    return {
      missing: documents.length === 0 ? null : { what: documents.join(), from: files.join(', ') },
      conclude: () => this.#conclude(load, now, loss),
    };
  }

  #lossOf(load: ComparableLoad, now: Look): Loss {
    if (this.#good === null || load.broken) return { kind: 'none' };
    const { inForce: before } = this.#good;
    const replaced = (file: string): boolean =>
      before.look.files.get(file)?.inode !== now.files.get(file)?.inode && this.#world.whole(file, now);
    return lossOf(before, now, load, replaced);
  }

  async #conclude(load: ComparableLoad, now: Look, loss: Loss): Promise<void> {
    const options = this.#options;
    const problems = [...load.problems, ...(loss.kind === 'emptied' ? loss.problems : [])];
    const reason = this.#refusal(load, problems);
    if (this.#good !== null && load.digest === this.#good.load.digest) {
      // Broken and repaired to what is in force all along.
      this.#triedDigest = load.digest;
      this.#good = { ...this.#good, inForce: inForce(now, this.#good.load.documents) };
      options.onProblems(load.problems);
      options.onLoaded({ documents: load.documents.length, changes: 'same' });
    } else if (reason !== null) {
      this.#triedDigest = load.digest;
      options.onProblems(problems);
      options.onFailed(reason);
    } else {
      await this.#accept(load, now, loss);
    }
  }

  /** Why a load may not come into force, or null. */
  #refusal(load: ComparableLoad, problems: readonly Problem[]): string | null {
    const errors = problems.filter((problem) => problem.severity === 'error');
    if (!load.broken && (this.#good === null || errors.length === 0)) return null;
    return refusalText(errors);
  }

  #accept(load: ComparableLoad, now: Look, loss: Loss): Promise<void> {
    const options = this.#options;
    return this.#turns.take(async () => {
      const { documents } = load;
      const workload = options.workload();
      const { index, problems } = await compileInSlices(documents, workload);
      if (this.#reloader.signal.aborted) return;
      const before = this.#good;
      options.onProblems([...load.problems, ...problems]);
      // Before it counts as tried: where that fails, the next attempt must not find it unchanged.
      await options.swap(index, documents, workload);
      this.#triedDigest = load.digest;
      this.#good = { load, inForce: inForce(now, load.documents), index };
      const changes = before === null ? 'first' : await this.#changes(before, this.#good);
      options.onLoaded({ documents: load.documents.length, changes });
      if (before === null || loss.kind !== 'removed') return;
      options.onRemoved?.({ files: loss.files, documents: loss.documents, wider: widened(before.index, index) });
    });
  }

  async #changes(before: Good, after: Good): Promise<Changes | 'same'> {
    const compared = ({ load, index }: Good): Compared => ({ documents: load.documents, digests: load.digests, index });
    const { namespace } = this.#options.workload();
    return (await changesBetween(compared(before), compared(after), namespace)) ?? 'same';
  }

  #recompile(): Promise<void> {
    return this.#turns.take(async () => {
      // Who asks from now on asks for another turn.
      this.#recompiling = null;
      if (this.#good === null) return;
      const { documents } = this.#good.load;
      const workload = this.#options.workload();
      const { index, problems } = await compileInSlices(documents, workload);
      if (this.#reloader.signal.aborted) return;
      this.#options.onProblems(problems);
      await this.#options.swap(index, documents, workload);
      // Meanwhile the files may have been found as they were.
      this.#good = { ...this.#good, index };
    });
  }
}

/** The first error with its place and its remedy, so that this line alone says what to mend; and how many more there are. */
function refusalText([first, ...more]: readonly Problem[]): string {
  if (first === undefined) return 'nobody knows what a policy file holds';
  const { file, line, column, resource, message, hint } = first;
  const about = resource === null ? '' : `${resource.kind} ${resource.namespace}/${resource.name}: `;
  const others = more.length === 0 ? '' : `; and ${more.length} more ${more.length === 1 ? 'error' : 'errors'}`;
  return `${file}:${line}:${column}: ${about}${message}${hint === '' ? '' : ` (${hint})`}${others}`;
}

function worldOf({ path, world, log, pollMs }: PolicySourceOptions): PolicyWorld {
  if (path === null) return noPolicy();
  const onWatchError = (error: Error): void =>
    log.warn({ code: 'not-watched', err: error, path }, 'Watching the policy failed; polling goes on');
  return world ?? policyOnDisk({ paths: [path], onWatchError, pollMs });
}
