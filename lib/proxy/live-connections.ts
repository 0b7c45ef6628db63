import { Roster, type Rostered } from '../roster.ts';
import { eachGuarded } from './guard.ts';

/** One open connection, whatever it carries. */
export interface LiveConnection extends Rostered {
  /** Called after a policy change: decide again, and end the connection where it is now forbidden. HTTP decides per request. */
  recheck(): void;
  /** The stop has begun: tell the client, where the protocol can, to take new work elsewhere. Refuse nothing yet. */
  announceDrain(): void;
  /** Finish what is in flight, take nothing new, then close. Idle connections close at once. */
  drain(): void;
  /** Ends the connection now. */
  destroy(): void;
}

/** Every open connection: rechecked when policy changes, drained at stop. */
export class LiveConnections {
  readonly #open = new Roster<LiveConnection>();
  #stage: 'serving' | 'announced' | 'draining' = 'serving';
  #idle: (() => void)[] = [];

  get size(): number {
    return this.#open.size;
  }

  get draining(): boolean {
    return this.#stage === 'draining';
  }

  announceDrain(): void {
    this.#stage = 'announced';
    eachGuarded('announcing the drain', [...this.#open], (connection) => connection.announceDrain());
  }

  /** Resolves when nothing is open, or after `timeoutMs`. */
  async empty(timeoutMs: number): Promise<boolean> {
    if (this.#open.size === 0) return true;
    let timer: NodeJS.Timeout | undefined;
    const empty = await Promise.race([
      new Promise<boolean>((resolve) => this.#idle.push(() => resolve(true))),
      new Promise<boolean>((resolve) => {
        timer = setTimeout(() => resolve(false), timeoutMs);
      }),
    ]);
    clearTimeout(timer);
    return empty;
  }

  add(connection: LiveConnection): void {
    this.#open.add(connection);
    if (this.#stage === 'serving') return;
    connection.announceDrain();
    if (this.#stage === 'draining') connection.drain();
  }

  remove(connection: LiveConnection): void {
    if (!this.#open.delete(connection) || this.#open.size > 0) return;
    for (const resolve of this.#idle.splice(0)) resolve();
  }

  recheckAll(): void {
    eachGuarded('rechecking', [...this.#open], (connection) => connection.recheck());
  }

  /** Resolves true when all have ended by themselves, false when the rest was cut after `graceMs`. */
  async drain(graceMs: number): Promise<boolean> {
    this.#stage = 'draining';
    eachGuarded('draining', [...this.#open], (connection) => connection.drain());
    const drained = await this.empty(graceMs);
    if (!drained) eachGuarded('ending the rest', [...this.#open], (connection) => connection.destroy());
    return drained;
  }
}
