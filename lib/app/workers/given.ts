import { fstatSync } from 'node:fs';
import type { Descriptors } from '../../proxy/accept/descriptors.ts';

/** A descriptor on its way to another thread. */
interface Given {
  readonly fd: number;
  /** What it leads to. */
  readonly inode: number;
}

/**
 * Descriptors that have been given to a thread, until it says that it has them. One that dies before it has taken them
 * leaves them open, for ever; had it taken them, they are closed, and their numbers may be somebody else's by now.
 */
export class GivenDescriptors<Holder> {
  readonly #descriptors: Descriptors;
  readonly #held = new Map<Holder, readonly Given[]>();

  constructor(descriptors: Descriptors) {
    this.#descriptors = descriptors;
  }

  /** @returns one more descriptor of each; null where none is left. */
  give(to: Holder, fds: readonly number[]): readonly number[] | null {
    const copies: number[] = [];
    for (const fd of fds) {
      const copy = this.#descriptors.duplicate(fd);
      if (copy === null) {
        for (const each of copies) this.#descriptors.close(each);
        return null;
      }
      copies.push(copy);
    }
    this.#held.set(
      to,
      copies.map((fd) => ({ fd, inode: inodeOf(fd) ?? -1 })),
    );
    return copies;
  }

  /** It has them: they are closed with it. */
  taken(by: Holder): void {
    this.#held.delete(by);
  }

  /** It is over: what it has not taken is closed. */
  over(holder: Holder): void {
    const given = this.#held.get(holder) ?? [];
    this.#held.delete(holder);
    const others = new Set([...this.#held.values()].flat().map(({ fd }) => fd));
    for (const { fd, inode } of given) {
      if (!others.has(fd) && inodeOf(fd) === inode) this.#descriptors.close(fd);
    }
  }
}

/** Null where the descriptor is not open. */
function inodeOf(fd: number): number | null {
  try {
    return fstatSync(fd).ino;
  } catch {
    return null;
  }
}
