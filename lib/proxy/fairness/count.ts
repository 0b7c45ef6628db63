/** How many there are, over all threads that count together. */
export interface Count {
  readonly total: number;
  /** One more in this thread. To keep within a bound, first add, then look whether there are too many. */
  add(): void;
  remove(): void;
}

/** Of a thread that counts alone. */
export class OwnCount implements Count {
  total = 0;

  add(): void {
    this.total++;
  }

  remove(): void {
    this.total--;
  }
}
