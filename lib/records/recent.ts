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

const mostKept = 16_384;
