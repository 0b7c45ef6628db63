/** Small pieces share blocks of this size. */
const blockBytes = 4096;

/** What a block takes besides its bytes. */
const blockCost = 256;

/**
 * Copies of bytes that have to wait. A peer may send them one at a time, and a Buffer for each would cost a hundred times
 * what it holds.
 */
export class HeldBytes {
  #blocks: Buffer[] = [];
  /** Where the first block goes on, and where the last one ends. */
  #from = 0;
  #end = 0;

  /** How many are held, and how much memory that takes. */
  bytes = 0;
  memory = 0;

  /** The first block is the one that was made as long as what came, and no longer. */
  #hasFirst = false;

  #memoryOf(length: number, isFirst: boolean): number {
    return blockCost + (isFirst ? length : Math.max(blockBytes, length));
  }

  get isEmpty(): boolean {
    return this.#blocks.length === 0;
  }

  push(bytes: Buffer, from: number, to: number): void {
    const length = to - from;
    this.bytes += length;
    const last = this.#blocks.at(-1);
    if (last !== undefined) {
      if (last.length - this.#end >= length) {
        this.#end += bytes.copy(last, this.#end, from, to);
        return;
      }
      this.#blocks[this.#blocks.length - 1] = last.subarray(0, this.#end);
    }
    // The first is most often the only one.
    const block = Buffer.allocUnsafe(last === undefined ? length : Math.max(blockBytes, length));
    this.#blocks.push(block);
    if (last === undefined) this.#hasFirst = true;
    this.memory += this.#memoryOf(block.length, last === undefined);
    this.#end = bytes.copy(block, 0, from, to);
  }

  /**
   * Hands out what is held, in order, until `take` stops short.
   *
   * @param take gets the bytes [from, to) and returns where it stopped.
   * @returns true when nothing is left.
   */
  drain(take: (bytes: Buffer, from: number, to: number) => number): boolean {
    while (this.#blocks.length > 0) {
      const block = this.#blocks[0] as Buffer;
      const end = this.#blocks.length === 1 ? this.#end : block.length;
      const from = this.#from;
      this.#from = take(block, from, end);
      this.bytes -= this.#from - from;
      if (this.#from < end) return false;
      this.#blocks.shift();
      this.memory -= this.#memoryOf(block.length, this.#hasFirst);
      this.#hasFirst = false;
      this.#from = 0;
    }
    return true;
  }

  /** Gives away everything. */
  takeAll(): readonly Buffer[] {
    const blocks: Buffer[] = [];
    this.drain((block, from, to) => {
      blocks.push(block.subarray(from, to));
      return to;
    });
    return blocks;
  }
}
