/**
 * HalfSipHash-2-4 (Aumasson and Bernstein) over the code units of a text: 64 bits, so that two of the tens of thousands of
 * keys of a table never meet, and keyed, so that nobody can make up keys that do.
 */
export interface Hash64 {
  readonly hi: number;
  readonly lo: number;
}

export class KeyedHash {
  #v0 = 0;
  #v1 = 0;
  #v2 = 0;
  #v3 = 0;
  readonly #key: Hash64;

  constructor(key: Hash64) {
    this.#key = key;
  }

  /** `within`: the hash of what the text is a part of. */
  of(text: string, within: Hash64 = none): Hash64 {
    const { hi, lo } = this.#key;
    this.#v0 = hi;
    this.#v1 = lo ^ 0xee;
    this.#v2 = 0x6c796765 ^ hi;
    this.#v3 = 0x74656462 ^ lo;
    this.#word(within.hi);
    this.#word(within.lo);
    const even = text.length & ~1;
    for (let i = 0; i < even; i += 2) this.#word(text.charCodeAt(i) | (text.charCodeAt(i + 1) << 16));
    if (even < text.length) this.#word(text.charCodeAt(even));
    this.#word(text.length);
    this.#v2 ^= 0xee;
    this.#rounds(4);
    const first = this.#v1 ^ this.#v3;
    this.#v1 ^= 0xdd;
    this.#rounds(4);
    return { hi: first, lo: this.#v1 ^ this.#v3 };
  }

  #word(word: number): void {
    this.#v3 ^= word;
    this.#rounds(2);
    this.#v0 ^= word;
  }

  #rounds(count: number): void {
    let [v0, v1, v2, v3] = [this.#v0, this.#v1, this.#v2, this.#v3];
    for (let i = 0; i < count; i++) {
      v0 = (v0 + v1) | 0;
      v1 = rotated(v1, 5) ^ v0;
      v0 = rotated(v0, 16);
      v2 = (v2 + v3) | 0;
      v3 = rotated(v3, 8) ^ v2;
      v0 = (v0 + v3) | 0;
      v3 = rotated(v3, 7) ^ v0;
      v2 = (v2 + v1) | 0;
      v1 = rotated(v1, 13) ^ v2;
      v2 = rotated(v2, 16);
    }
    this.#v0 = v0;
    this.#v1 = v1;
    this.#v2 = v2;
    this.#v3 = v3;
  }
}

const none: Hash64 = { hi: 0, lo: 0 };

function rotated(word: number, by: number): number {
  return (word << by) | (word >>> (32 - by));
}
