/** How a proxy ends: in an order in which no request is lost that could have been served. */
import type { Drained } from '../drained.ts';
import type { CodedLog } from '../errors/complaint.ts';

export interface StopSteps {
  /** Milliseconds for work in flight, from the beginning of the stop. */
  readonly graceMs: number;
  /** How many connections are open. */
  connections(): number | Promise<number>;
  /** `/ready` says no from now on. */
  unready(): void;
  /** No new connections from now on; resolves when nothing listens any more. */
  closeDoors(): Promise<void>;
  /** Tells clients to take new work elsewhere, and still takes what they send. */
  announce(): void;
  /** Resolves when no connection is open, or after so many milliseconds. */
  empty(timeoutMs: number): Promise<unknown>;
  closeIdle(): void;
  /** Takes nothing new; resolves when all has ended, by itself or cut after so many milliseconds. */
  drain(timeoutMs: number): Promise<Drained>;
  /** What served the connections: files watched, threads, pools, timers. */
  release(): Promise<void>;
  readonly log: Pick<CodedLog, 'info' | 'warn'>;
}

/** Milliseconds in which a stop still takes requests on connections that are open. */
const lullMs = 1000;

export class StopSequence {
  /** Resolves when the stop, once begun, is over: true when everything drained in time. */
  readonly stopped: Promise<boolean>;
  readonly #settle: (result: Promise<boolean>) => void;
  readonly #steps: StopSteps;
  #stage: 'serving' | 'stopping' = 'serving';

  constructor(steps: StopSteps) {
    this.#steps = steps;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.stopped = promise;
    this.#settle = resolve;
  }

  /** Later calls join the first. */
  stop(): Promise<boolean> {
    if (this.#stage === 'serving') {
      this.#stage = 'stopping';
      this.#settle(this.#run());
    }
    return this.stopped;
  }

  async #run(): Promise<boolean> {
    const steps = this.#steps;
    const { graceMs, log } = steps;
    steps.unready();
    const connections = await steps.connections();
    log.info({ connections }, 'Draining');
    // Clients that are about to send are served, with a notice that this connection ends; only then are idle ones closed.
    // Closing them at once would lose the requests that are on their way.
    const startedAt = performance.now();
    const closed = steps.closeDoors();
    steps.announce();
    // Who came last has as long as the others to say what he wants.
    await closed;
    await steps.empty(Math.min(lullMs, graceMs / 2));
    steps.closeIdle();
    const left = graceMs - (performance.now() - startedAt);
    const ended = await steps.drain(Math.max(0, left));
    if (ended.kind === 'cut') {
      const { connections } = ended;
      log.warn({ code: 'cut-at-stop', connections }, 'Grace period over; remaining connections were cut');
    }
    await steps.release();
    const drained = ended.kind === 'by themselves';
    log.info({ drained }, 'Stopped');
    return drained;
  }
}
