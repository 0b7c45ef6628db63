/** Whoever pays for what is kept in memory for one peer. */
export interface Keeper {
  /** So many bytes more are kept than before; fewer, where it is negative. */
  charge(more: number): void;
  /** A side of it is slow: what waits in its sockets is to be charged now. */
  look(): void;
  /** Whether so many bytes may be kept that one can do without. */
  hasRoom(bytes: number): boolean;
}

/** Charges nobody: of what is not a peer's, and in tests. */
export const noKeeper: Keeper = { charge() {}, look() {}, hasRoom: () => true };

/**
 * One place that keeps bytes for a peer beyond the call that brought them. It says how much memory that takes as often as it
 * changes, so that it is charged when it is kept: a look now and then would come too late for a flood. Each field of the data
 * plane that holds bytes is in the table of test/unit/proxy/kept-bytes.test.ts, with who charges it.
 */
export class Kept {
  bytes = 0;
  readonly #keeper: Keeper;

  constructor(keeper: Keeper) {
    this.#keeper = keeper;
  }

  /** Bytes of memory, not of what was sent: of a buffer of which only a part is used it is all of the buffer. */
  set(bytes: number): void {
    const more = bytes - this.bytes;
    if (more === 0) return;
    this.bytes = bytes;
    this.#keeper.charge(more);
  }
}

/**
 * Gives the memory of bytes back at once, rather than with some later collection: what a flood leaves behind would be several
 * times what it may keep. Nothing may look at them again, and no write of them may be under way.
 */
export function freeBytes({ buffer }: Buffer): void {
  if (buffer instanceof ArrayBuffer) buffer.transfer(0);
}
