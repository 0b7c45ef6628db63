/** Milliseconds before anything is said, and between two times of saying it. */
const times = { first: 1_000, next: 200 } as const;

/** One line that is written over and over, for somebody at a terminal who waits; nothing anywhere else. */
export class Progress {
  readonly #stream: NodeJS.WriteStream;
  #dueMs: number;
  #shown = false;

  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream;
    this.#dueMs = stream.isTTY === true ? performance.now() + times.first : Number.POSITIVE_INFINITY;
  }

  /** `text` is asked for only when it is shown. */
  say(text: () => string): void {
    const nowMs = performance.now();
    if (nowMs < this.#dueMs) return;
    this.#dueMs = nowMs + times.next;
    this.#shown = true;
    this.#stream.write(`\r\u001b[K${text()}`);
  }

  /** Takes the line away until it is next due; what comes next begins at the left. */
  clear(): void {
    if (this.#shown) this.#stream.write('\r\u001b[K');
    this.#shown = false;
  }

  /** Takes the line away for good. */
  end(): void {
    this.clear();
    this.#dueMs = Number.POSITIVE_INFINITY;
  }
}
