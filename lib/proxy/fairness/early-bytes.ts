import type { IpAddress } from '../../ip.ts';
import type { Ending } from '../guard.ts';
import type { Keeper } from '../kept.ts';
import { type BufferBudget, type Slow, Stall } from './buffer-budget.ts';

/** What has come of a connection of which nobody knows yet what it is. It does not move on before that is known. */
export class EarlyBytes implements Slow, Keeper {
  readonly client: IpAddress;
  readonly #connection: Ending;
  readonly #stall: Stall;

  constructor(budget: BufferBudget, connection: Ending, client: IpAddress) {
    this.client = client;
    this.#connection = connection;
    this.#stall = new Stall(budget, this);
  }

  charge(more: number): void {
    const bytes = this.#stall.bytes + more;
    if (bytes > 0) this.#stall.hold(bytes, false);
    else this.#stall.release();
  }

  look(): void {
    // Nothing is written to it yet.
  }

  hasRoom(): boolean {
    return false;
  }

  progress(): number {
    return 0;
  }

  cut(): void {
    this.destroy();
  }

  destroy(): void {
    this.#connection.destroy();
  }
}
