import type { LineSink } from './output.ts';

/** Whole lines on their way to the thread that writes them. */
export interface LineBatch {
  readonly text: string;
  readonly lines: number;
}

/** Characters gathered before a batch leaves, and milliseconds for which the first may wait. */
const batchChars = 16 * 1024;
const gatherMs = 20;
/** Characters that may wait here and on the way, where the other thread is too busy to take them. Beyond, lines are dropped. */
const maxWaiting = 1024 * 1024;

/**
 * The sink of a thread whose lines another one writes. `underway` is a word of shared memory: characters that have been sent
 * and not been taken yet.
 */
export class LineChannel implements LineSink {
  readonly #send: (batch: LineBatch) => void;
  readonly #underway: Int32Array;
  #text = '';
  #lines = 0;
  #timer: NodeJS.Timeout | null = null;
  /** Lines dropped so far. */
  dropped = 0;

  constructor(send: (batch: LineBatch) => void, underway: Int32Array) {
    this.#send = send;
    this.#underway = underway;
  }

  write(text: string, lines = 1): void {
    if (Atomics.load(this.#underway, 0) + this.#text.length + text.length > maxWaiting) {
      this.dropped += lines;
      return;
    }
    this.#text += text;
    this.#lines += lines;
    if (this.#text.length >= batchChars) this.flush();
    else this.#timer ??= setTimeout(this.flush, gatherMs).unref();
  }

  /** Sends what is there: also for the end of the thread. */
  readonly flush = (): void => {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#lines === 0) return;
    const batch = { text: this.#text, lines: this.#lines };
    this.#text = '';
    this.#lines = 0;
    Atomics.add(this.#underway, 0, batch.text.length);
    this.#send(batch);
  };
}

/** In the thread that writes. */
export function takeLines({ text, lines }: LineBatch, sink: LineSink, underway: Int32Array): void {
  Atomics.sub(underway, 0, text.length);
  sink.write(text, lines);
}
