import type { IpAddress } from '../../ip.ts';
import type { Asker } from './fair-queue.ts';

/** Where connections come from: one IPv4 address, or one IPv6 /64, of which each customer has at least one. */
export interface Source {
  /** Connections open now. */
  open: number;
}

/** Where a client's address belongs. */
export function sourceOf(ip: IpAddress): Asker {
  return ip.family === 4 ? ip.value : `${ip.words[0]} ${ip.words[1]}`;
}

/** This many without a connection are kept: most come back, and a map that shrinks and grows leaves tables behind. */
const maxUnused = 4096;

export class Sources {
  readonly #known = new Map<Asker, Source>();

  of(ip: IpAddress): Source {
    const key = sourceOf(ip);
    let source = this.#known.get(key);
    if (source === undefined) {
      source = { open: 0 };
      this.#known.set(key, source);
    }
    return source;
  }

  /** Forgets those without a connection once there are many. `open`: connections in all. */
  tidy(open: number): void {
    if (this.#known.size <= open + maxUnused) return;
    for (const [key, source] of this.#known) if (source.open === 0) this.#known.delete(key);
  }

  get size(): number {
    return this.#known.size;
  }
}
