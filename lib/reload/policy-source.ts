import { compile, type PolicyIndex } from '../policy/compile.ts';
import type { PolicyDocument } from '../policy/document-types.ts';
import type { Workload } from '../policy/workload.ts';
import type { Problem } from '../problem.ts';
import type { PolicyLoad } from './load.ts';
import { LoadThread } from './load-thread.ts';
import { Slices } from './slices.ts';
import { watchPaths } from './watch.ts';

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
  readonly log: { warn(fields: object, message: string): void };
  /** For tests. */
  readonly debounceMs?: number;
  readonly pollMs?: number;
  readonly retryMs?: number;
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

/**
 * Keeps the policy in force equal to the files: load aside, compile aside, swap whole.
 *
 * Nothing is in force until a load is good. That first one may hold rejected documents: they grant nothing, the rest
 * applies, as it would in a cluster whose API server refused them. It may not be broken (a file unreadable, or not
 * YAML), since then nobody knows what is missing. Later, an error of any kind keeps the last good policy whole.
 */
export function createPolicySource(options: PolicySourceOptions): PolicySource {
  const { path, debounceMs = 50, retryMs = 5_000 } = options;
  const thread = new LoadThread();
  /** The good load whose documents are in force. */
  let good: PolicyLoad | null = null;
  /** Contents that were tried last, good or bad: trying them again would say the same again. */
  let triedDigest: string | undefined;
  let stopped = false;
  let watcher: { close(): Promise<void> } | undefined;
  let debounce: NodeJS.Timeout | undefined;
  let retry: NodeJS.Timeout | undefined;
  // One thing at a time; at most one load and one compile wait, since each takes the newest state when its turn comes.
  let busy: Promise<void> = Promise.resolve();
  const waiting: { load?: Promise<void>; compile?: Promise<void> } = {};

  function queue(kind: 'load' | 'compile', work: () => Promise<void>): Promise<void> {
    const queued = waiting[kind];
    if (queued !== undefined) return queued;
    const turn = busy.then(async () => {
      delete waiting[kind];
      if (stopped) return;
      try {
        await work();
      } catch (error) {
        if (stopped) return;
        // No fault of the files (the thread ran out of memory, say): nothing will tell us to try again.
        options.onFailed(`unexpected error: ${error instanceof Error ? error.message : String(error)}`);
        retry = setTimeout(() => void queue(kind, work), retryMs).unref();
      }
    });
    waiting[kind] = turn;
    busy = turn;
    return turn;
  }

  async function load(): Promise<void> {
    const loaded = await read();
    if (loaded === 'unchanged' || stopped) return;
    if (good !== null && loaded.digest === good.digest) {
      // Broken and repaired to what is in force all along.
      triedDigest = loaded.digest;
      options.onProblems(loaded.problems);
      options.onLoaded({ documents: good.documents.length, changed: false });
      return;
    }
    const compiled = await compileInSlices(loaded.documents);
    if (stopped) return;
    triedDigest = loaded.digest;
    const problems = [...loaded.problems, ...compiled.problems];
    options.onProblems(problems);
    const reason = refusal(loaded, problems);
    if (reason !== null) {
      options.onFailed(reason);
      return;
    }
    good = loaded;
    options.swap(compiled.index, loaded.documents);
    options.onLoaded({ documents: loaded.documents.length, changed: true });
  }

  async function read(): Promise<PolicyLoad | 'unchanged'> {
    if (path === null) return { documents: [], problems: [], broken: false, digest: '' };
    return thread.load({ paths: [path], namespace: options.workload().namespace }, triedDigest);
  }

  /** Why a load may not come into force, or null. */
  function refusal(loaded: PolicyLoad, problems: readonly Problem[]): string | null {
    const errors = problems.filter((problem) => problem.severity === 'error').length;
    if (loaded.broken) return 'a policy file cannot be read';
    if (good === null || errors === 0) return null;
    return `the changed policy has ${errors} ${errors === 1 ? 'error' : 'errors'}`;
  }

  async function compileInSlices(
    documents: readonly PolicyDocument[],
  ): Promise<{ index: PolicyIndex; problems: readonly Problem[] }> {
    const compiling = compile(documents, options.workload());
    const slices = new Slices();
    for (;;) {
      const step = compiling.next();
      if (step.done) return step.value;
      await slices.rest();
    }
  }

  async function recompile(): Promise<void> {
    if (good === null) return;
    const { index } = await compileInSlices(good.documents);
    if (!stopped) options.swap(index, good.documents);
  }

  return {
    async start() {
      if (path !== null) {
        // Watching begins first: a change while the first load runs is then seen, and loaded after it.
        watcher = watchPaths({
          paths: [path],
          onChange() {
            clearTimeout(debounce);
            debounce = setTimeout(() => void queue('load', load), debounceMs);
          },
          onError: (error) => options.log.warn({ err: error, path }, 'Watching the policy failed; polling goes on'),
          ...(options.pollMs === undefined ? {} : { pollMs: options.pollMs }),
        });
      }
      await queue('load', load);
    },
    reload: () => queue('load', load),
    workloadChanged: () => queue('compile', recompile),
    async stop() {
      stopped = true;
      clearTimeout(debounce);
      clearTimeout(retry);
      await Promise.all([watcher?.close(), thread.stop()]);
      await busy;
    },
  };
}
