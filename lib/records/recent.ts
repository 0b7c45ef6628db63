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
 * Texts that come again, with what they stand for. Of those that come once nothing is kept but a hash: to keep millions of
 * texts that nobody looks for would take longer than to read each line.
 */
export class Returning<Value> {
  readonly #recent = new Recent<string, Value>();
  /** Hashes of what was met, by their lower bits, two places for each. */
  readonly #met = new Int32Array(metPlaces);
  #spare = keptAtOnce;
  /** Grows where texts are found, and shrinks where they are not. */
  #luck = 0;

  /** Whether most texts are found, so that it takes less to look for one than to ask whether it was met. */
  get isLikely(): boolean {
    return this.#luck > 0;
  }

  /**
   * Whether a text that comes was met before, so that it is worth its while to look for it, and to keep it where it is not
   * there; or there is much room.
   *
   * @param hash 32 bits. Of two texts that share one, both are taken for met.
   */
  mayReturn(hash: number): boolean {
    const at = hash & (metPlaces - 2);
    const last = this.#met[at];
    if (last === hash || this.#met[at + 1] === hash) return true;
    this.#met[at + 1] = last as number;
    this.#met[at] = hash;
    if (this.#spare === 0) return false;
    this.#spare--;
    return true;
  }

  get(text: string): Value | undefined {
    const value = this.#recent.get(text);
    if (value === undefined) this.#luck = Math.max(0, this.#luck - 2);
    else if (this.#luck < mostLuck) this.#luck++;
    return value;
  }

  set(text: string, value: Value): void {
    this.#recent.set(text, value);
  }
}

const mostLuck = 64;
/** A power of two, and several for each text that is kept. */
const metPlaces = 4 * mostKept;
/** Texts. Were all of a first megabyte kept, V8 would take all that is made later for long-lived, and collect it dearly. */
const keptAtOnce = 128;

/** Of the bytes from one place to another; nothing but a help to tell them apart. */
export function hashOfBytes(bytes: DataView, from: number, to: number): number {
  let hash = to - from;
  let at = from;
  for (; at + 4 <= to; at += 4) hash = mixed(hash, bytes.getInt32(at, true));
  for (; at < to; at++) hash = mixed(hash, bytes.getUint8(at));
  return spread(hash);
}

export function hashOfText(text: string): number {
  let hash = text.length;
  for (let i = 0; i < text.length; i++) hash = mixed(hash, text.charCodeAt(i));
  return spread(hash);
}

function mixed(hash: number, word: number): number {
  const product = Math.imul(hash ^ word, 0x9e3779b1);
  return (product << 13) | (product >>> 19);
}

function spread(hash: number): number {
  const product = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return product ^ (product >>> 13);
}
