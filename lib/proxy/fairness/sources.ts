import type { IpAddress } from '../../ip.ts';
import type { Asker } from './fair-queue.ts';

/** Where connections come from: one IPv4 address, or one IPv6 /64, of which each customer has at least one. */
export interface Source {
  /** Connections open now, over all threads that count together. */
  readonly open: number;
  /** Those of this thread. */
  readonly own: number;
  /** As with a count: first add, then look. */
  add(): void;
  remove(): void;
}

/** Where a client's address belongs. */
export function sourceOf(ip: IpAddress): Asker {
  return ip.family === 4 ? ip.value : `${ip.words[0]} ${ip.words[1]}`;
}

class OwnSource implements Source {
  open = 0;

  get own(): number {
    return this.open;
  }

  add(): void {
    this.open++;
  }

  remove(): void {
    this.open--;
  }
}

/** This many without a connection are kept: most come back, and a map that shrinks and grows leaves tables behind. */
const maxUnused = 4096;

export class Sources {
  readonly #known = new Map<Asker, Source>();
  readonly #make: (asker: Asker) => Source;

  constructor(make: (asker: Asker) => Source = () => new OwnSource()) {
    this.#make = make;
  }

  of(ip: IpAddress): Source {
    const key = sourceOf(ip);
    let source = this.#known.get(key);
    if (source === undefined) {
      source = this.#make(key);
      this.#known.set(key, source);
    }
    return source;
  }

  /** Forgets those without a connection once there are many. `open`: connections in all. */
  tidy(open: number): void {
    if (this.#known.size <= open + maxUnused) return;
    for (const [key, source] of this.#known) if (source.own === 0) this.#known.delete(key);
  }

  get size(): number {
    return this.#known.size;
  }
}
