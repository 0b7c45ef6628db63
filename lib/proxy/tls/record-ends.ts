/** Of a record: its type, a version, and the length of what follows (RFC 8446 section 5.1). */
const headerBytes = 5;
const lengthAt = 3;

/** Finds where the records of one connection end, in whatever pieces its bytes come. */
export class RecordEnds {
  /** Of a header that have been seen. */
  #header = 0;
  /** What is known of its length, and then what of the record has yet to come. */
  #left = 0;

  /** Neither within a record nor within its header. */
  get isBetween(): boolean {
    return this.#header === 0 && this.#left === 0;
  }

  /** How far a piece goes that begins at `from`, behind the one before, and in which no more than `most` records end. */
  pieceEnd(bytes: Buffer, from: number, most: number): number {
    let at = from;
    for (let ended = 0; ended < most; ended++) {
      for (; this.#header < headerBytes; this.#header++) {
        if (at === bytes.length) return at;
        const byte = bytes[at++] ?? 0;
        if (this.#header >= lengthAt) this.#left = (this.#left << 8) | byte;
      }
      const here = Math.min(this.#left, bytes.length - at);
      at += here;
      this.#left -= here;
      if (this.#left > 0) return at;
      this.#header = 0;
    }
    return at;
  }
}
