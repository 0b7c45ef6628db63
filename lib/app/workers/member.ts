import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import type { Answers, Calling, CallOrder, Order, ThreadStart, WorkerReport } from './messages.ts';

/** Why a worker is no more. */
export type Death = 'out_of_memory' | 'exited' | 'failed' | 'hung';

export interface MemberEvents {
  report(report: Exclude<WorkerReport, { kind: 'answer' | 'failed' }>): void;
  /** Called once, when the thread is over, unless it was ended by `end`. */
  died(death: Death, error: string): void;
}

/** Megabytes of objects of the young generation, in all of its three parts, which the process' flags say for the main thread. */
const youngMemory = 12;

type Settle = (value: Answers[Calling] | undefined) => void;

/** One further worker, as the main thread sees it: a thread that takes orders, and answers some. */
export class Member {
  readonly worker: number;
  readonly startedAt = performance.now();
  readonly #thread: Worker;
  readonly #events: MemberEvents;
  readonly #calls = new Map<number, Settle>();
  #lastCall = 0;
  #stage: 'alive' | 'ending' | 'gone' = 'alive';
  /** Why it is ended by us. */
  #death: { readonly kind: Death; readonly error: string } | null = null;

  constructor(start: ThreadStart, mostMemoryMb: number, events: MemberEvents) {
    this.worker = start.worker;
    this.#events = events;
    // The sources run as TypeScript; the published package holds the same file as JavaScript.
    const extension = extname(fileURLToPath(import.meta.url));
    this.#thread = new Worker(new URL(`./thread${extension}`, import.meta.url), {
      workerData: start,
      name: `worker-${start.worker}`,
      resourceLimits: { maxOldGenerationSizeMb: mostMemoryMb, maxYoungGenerationSizeMb: youngMemory },
    });
    this.#thread.on('message', (report: WorkerReport) => this.#hear(report));
    this.#thread.on('error', (error: NodeJS.ErrnoException) => {
      const kind = error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? 'out_of_memory' : 'failed';
      this.#death ??= { kind, error: error.message };
    });
    this.#thread.on('exit', (code) => this.#over(code));
  }

  get isGone(): boolean {
    return this.#stage === 'gone';
  }

  tell(order: Order): void {
    if (this.#stage !== 'gone') this.#thread.postMessage(order);
  }

  /** Resolves to its answer; undefined where the worker is gone before it gives one. */
  call<K extends Calling>(order: Omit<CallOrder<K>, 'call'>): Promise<Answers[K] | undefined> {
    if (this.#stage === 'gone') return Promise.resolve(undefined);
    const call = ++this.#lastCall;
    return new Promise((resolve) => {
      this.#calls.set(call, (value) => resolve(value as Answers[K] | undefined));
      this.#thread.postMessage({ ...order, call });
    });
  }

  /** Its state is unknown, or it does not answer: it ends now, and counts as dead. */
  kill(kind: Death, error: string): void {
    this.#death ??= { kind, error };
    void this.#thread.terminate();
  }

  /** It is not needed any more. */
  async end(): Promise<void> {
    if (this.#stage === 'alive') this.#stage = 'ending';
    await this.#thread.terminate();
  }

  #hear(report: WorkerReport): void {
    switch (report.kind) {
      case 'answer': {
        const settle = this.#calls.get(report.call);
        this.#calls.delete(report.call);
        settle?.(report.value);
        return;
      }
      case 'failed':
        this.kill('failed', report.error);
        return;
      default:
        this.#events.report(report);
    }
  }

  #over(code: number): void {
    const isDeath = this.#stage === 'alive';
    this.#stage = 'gone';
    for (const settle of this.#calls.values()) settle(undefined);
    this.#calls.clear();
    const { kind, error } = this.#death ?? { kind: 'exited', error: `it ended with ${code}` };
    if (isDeath) this.#events.died(kind, error);
  }
}
