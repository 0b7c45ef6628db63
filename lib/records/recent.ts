const mostKept = 16_384;

/**
 * What was met lately, within a bound of number: the last so many at least, and twice as many at most. Not a `WeakMap` for
 * objects: one that gains an entry for each line of a long log is emptied by major collections alone.
 */
export class Recent<Key, Value> {
  #young = new Map<Key, Value>();
  #old = new Map<Key, Value>();

  get(key: Key): Value | undefined {
    const found = this.#young.get(key);
    if (found !== undefined) return found;
    const old = this.#old.get(key);
    if (old !== undefined) this.set(key, old);
    return old;
  }

  set(key: Key, value: Value): void {
    if (this.#young.size >= mostKept) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(key, value);
  }
}

/**
 * Texts that come again, with what they stand for. It rests where hardly any does: to look for what is not there, and to keep
 * what nobody looks for, would take longer than to read each line.
 */
export class Returning<Value> {
  readonly #recent = new Recent<string, Value>();
  #asked = 0;
  #found = 0;
  #resting = 0;

  /** To be asked for each line, once: whether neither `get` nor `set` is worth its while. */
  rests(): boolean {
    if (this.#resting === 0) return false;
    this.#resting--;
    return true;
  }

  get(text: string): Value | undefined {
    const value = this.#recent.get(text);
    this.#asked++;
    if (value !== undefined) this.#found++;
    if (this.#asked === trial) {
      if (this.#found < trial * leastShare) this.#resting = rest;
      this.#asked = 0;
      this.#found = 0;
    }
    return value;
  }

  set(text: string, value: Value): void {
    this.#recent.set(text, value);
  }
}

/** Lines: as many as may be kept, so that whatever could be found again has had its chance. */
const trial = 2 * mostKept;
/** Of the lines of a trial. */
const leastShare = 1 / 16;
/** Lines between two trials. */
const rest = 4 * trial;
