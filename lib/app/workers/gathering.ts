import { internalFault } from '../../proxy/guard.ts';
import type { Telemetry } from '../../telemetry/metrics.ts';
import type { Member } from './member.ts';

/** A worker that can be asked. */
type Answering = Pick<Member, 'worker' | 'isGone' | 'call'>;

/** Milliseconds that a scrape waits for workers: one that stands still is found and ended by the pool, not here. */
const waitMs = 1000;

/**
 * The figures of the further workers, taken in when somebody scrapes, and now and then besides: what a worker has counted since
 * the last time is lost if it dies. An answer that comes too late for one scrape is there for the next.
 */
export class Gathering {
  readonly #telemetry: Pick<Telemetry, 'absorb' | 'forget'>;
  readonly #asked = new Map<Answering, Promise<void>>();
  /** On the clock of `performance.now()`. */
  readonly #takenAt = new Map<Answering, number>();

  constructor(telemetry: Pick<Telemetry, 'absorb' | 'forget'>) {
    this.#telemetry = telemetry;
  }

  /** Resolves when all have answered, or after a second. */
  async gather(members: readonly Answering[]): Promise<void> {
    if (members.length === 0) return;
    const all = Promise.all(members.map((member) => this.#ask(member)));
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, waitMs);
    });
    await Promise.race([all, late]);
    clearTimeout(timer);
  }

  /** By worker, seconds since its figures were taken. */
  ages(): ReadonlyMap<number, number> {
    const now = performance.now();
    return new Map(Array.from(this.#takenAt, ([{ worker }, at]) => [worker, (now - at) / 1000]));
  }

  /** It is no more: what it had open is closed, what it has counted stays. */
  over(member: Answering): void {
    this.#takenAt.delete(member);
    this.#telemetry.forget(member.worker);
  }

  #ask(member: Answering): Promise<void> {
    const known = this.#asked.get(member);
    if (known !== undefined) return known;
    const answered = this.#take(member).finally(() => this.#asked.delete(member));
    this.#asked.set(member, answered);
    return answered;
  }

  async #take(member: Answering): Promise<void> {
    const figures = await member.call<'figures'>({ kind: 'figures' });
    if (figures === undefined) return;
    try {
      this.#telemetry.absorb(member.worker, figures);
      this.#takenAt.set(member, performance.now());
    } catch (error) {
      internalFault("a worker's figures", null, error);
    }
    // The end of a thread is told in the same turn as its last answer, before what awaits that.
    if (member.isGone) this.over(member);
  }
}
