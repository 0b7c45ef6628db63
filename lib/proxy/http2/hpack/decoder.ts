import { latin1Slice } from '../../node-internals.ts';
import { decodedBound, decodeHuffman } from './huffman.ts';
import { staticEntries, staticTable } from './static-table.ts';

/*
 * Header blocks to fields, RFC 7541. A field costs no allocation beyond its strings, and none where it is indexed. Time
 * is linear in the block's length: names taken from a table are shared, never copied, and an entry is evicted once.
 */

export type Decoded =
  /** Flat: name, value, name, value …; each character is one byte. */
  { kind: 'fields'; fields: string[] } | { kind: 'too-large' } | { kind: 'malformed' };

const tooLarge: Decoded = Object.freeze({ kind: 'too-large' });
const malformed: Decoded = Object.freeze({ kind: 'malformed' });

/** What an entry of the table and a field of a list cost beyond their bytes: RFC 7541, 4.1; RFC 9113, 6.5.2. */
const overhead = 32;

/**
 * Bytes of an integer after its prefix: enough for 32 bits, and too few to be inexact. Each use has a bound far below:
 * the table's entries, the promised size, the block's end.
 */
const integerBytes = 5;

const nothing: string[] = [];

/** Bytes of a block of which `additions` are noted: what they hold is not given back before the next block. */
export const repeatableBytes = 1024;

/** For the strings that were Huffman coded; everything here is synchronous, so one is enough. */
const scratch = Buffer.allocUnsafeSlow(16 * 1024);

export class HpackDecoder {
  readonly #maxTableBytes: number;
  readonly #maxListBytes: number;
  readonly #maxFields: number;

  /** The dynamic table as a ring. #newest is the place of the entry with the lowest index. */
  readonly #names: string[];
  readonly #values: string[];
  readonly #mask: number;
  #newest = 0;
  #entries = 0;
  #tableBytes = 0;
  /** What the encoder has chosen, within what we promised. */
  #tableLimit: number;
  #generation = 0;

  /** Bytes of the list that was decoded last, as `maxListBytes` counts them, and no more than that. */
  decodedBytes = 0;
  /** The block that was decoded last has named entries of the dynamic table, or resized it, or is long. */
  #usedTable = false;
  /** What it has added to the table: name, value, name, value …; as a rule nothing. */
  #added: string[] = nothing;
  /** Where reading goes on in the block; -1 after a fault. */
  #at = 0;
  /** Where the bytes of the string that was read last are, decoded. */
  #source: Buffer = scratch;
  #start = 0;

  /**
   * @param maxTableBytes what our SETTINGS_HEADER_TABLE_SIZE promised. Less than the initial 4096 is for a client that is
   * known to have seen the setting.
   * @param maxListBytes bound of the sum of all fields' name + value + 32 (RFC 9113, 6.5.2).
   * @param maxFields bound of the number of fields.
   */
  constructor(maxTableBytes: number, maxListBytes: number, maxFields: number) {
    this.#maxTableBytes = maxTableBytes;
    this.#maxListBytes = maxListBytes;
    this.#maxFields = maxFields;
    this.#tableLimit = maxTableBytes;
    let places = 1;
    while (places * overhead < maxTableBytes) places *= 2;
    this.#names = new Array<string>(places).fill('');
    this.#values = new Array<string>(places).fill('');
    this.#mask = places - 1;
  }

  /** Counts changes of the dynamic table: a block that left it unchanged decodes to the same fields again. */
  get generation(): number {
    return this.#generation;
  }

  /**
   * What the block that was decoded last has added to the table (name, value, name, value …), where it was decoded to
   * fields and means the same whatever is in the table; null where it depends on that, and of long ones.
   */
  get additions(): readonly string[] | null {
    return this.#usedTable ? null : this.#added;
  }

  /** Does to the table what a block did that had these additions. */
  addAgain(additions: readonly string[]): void {
    for (let i = 0; i + 1 < additions.length; i += 2) {
      const name = additions[i] as string;
      const value = additions[i + 1] as string;
      this.#insert(name, value, name.length + value.length + overhead);
    }
  }

  /**
   * Decodes one whole header block: bytes[from, to).
   *
   * 'too-large': the list exceeded a bound. It was decoded to its end all the same, so that the table stays in step, but
   * nothing of it was kept. 'malformed': a COMPRESSION_ERROR, after which the connection must end.
   */
  decode(bytes: Buffer, from: number, to: number): Decoded {
    this.#at = from;
    this.#usedTable = to - from > repeatableBytes;
    this.#added = nothing;
    const decoded = this.#fields(bytes, to);
    // Not the block's, which may be part of something large.
    this.#source = scratch;
    return decoded;
  }

  #fields(bytes: Buffer, to: number): Decoded {
    if (!this.#sizeUpdates(bytes, to)) return malformed;
    let fields: string[] = [];
    let fieldsLeft = this.#maxFields;
    /** What the list may still grow by; -1 once it was exceeded. */
    let bytesLeft = this.#maxListBytes;

    while (this.#at < to) {
      const at = this.#at;
      const byte = bytes[at] as number;
      let name: string;
      let value: string;
      let size: number;
      if (byte >= 0x80) {
        let index = byte & 0x7f;
        if (index === 0x7f) index = this.#integer(bytes, to, 0x7f);
        else this.#at = at + 1;
        if (index <= staticEntries) {
          if (index <= 0) return malformed;
          name = staticTable[2 * index - 2] as string;
          value = staticTable[2 * index - 1] as string;
        } else {
          const age = index - staticEntries - 1;
          if (age >= this.#entries) return malformed;
          this.#usedTable = true;
          const place = (this.#newest - age) & this.#mask;
          name = this.#names[place] as string;
          value = this.#values[place] as string;
        }
        size = name.length + value.length + overhead;
      } else {
        const indexing = byte >= 0x40;
        // A size update is for the beginning of a block alone.
        if (!indexing && byte >= 0x20) return malformed;
        const mask = indexing ? 0x3f : 0x0f;
        let index = byte & mask;
        if (index === mask) {
          index = this.#integer(bytes, to, mask);
          if (index < 0) return malformed;
        } else {
          this.#at = at + 1;
        }
        // Longer strings than this end up nowhere, and are not made.
        const useful = indexing ? Math.max(bytesLeft, this.#tableLimit) : bytesLeft;
        if (index === 0) {
          const length = this.#string(bytes, to);
          if (length < 0) return malformed;
          size = overhead + length;
          name = size <= useful ? this.#text(length) : '';
        } else {
          if (index <= staticEntries) {
            name = staticTable[2 * index - 2] as string;
          } else {
            const age = index - staticEntries - 1;
            if (age >= this.#entries) return malformed;
            this.#usedTable = true;
            name = this.#names[(this.#newest - age) & this.#mask] as string;
          }
          size = overhead + name.length;
        }
        const length = this.#string(bytes, to);
        if (length < 0) return malformed;
        size += length;
        value = size <= useful ? this.#text(length) : '';
        if (indexing) this.#add(name, value, size);
      }
      if (size <= bytesLeft && fieldsLeft > 0) {
        fields.push(name, value);
        bytesLeft -= size;
        fieldsLeft--;
      } else if (bytesLeft >= 0) {
        bytesLeft = -1;
        fields = [];
      }
    }
    this.decodedBytes = this.#maxListBytes - Math.max(0, bytesLeft);
    return bytesLeft < 0 ? tooLarge : { kind: 'fields', fields };
  }

  #sizeUpdates(bytes: Buffer, to: number): boolean {
    while (this.#at < to && ((bytes[this.#at] as number) & 0xe0) === 0x20) {
      const limit = this.#integer(bytes, to, 0x1f);
      if (limit < 0 || limit > this.#maxTableBytes) return false;
      this.#generation++;
      this.#usedTable = true;
      this.#tableLimit = limit;
      this.#evict(limit);
    }
    return true;
  }

  /** Reads an integer whose prefix has the bits of this mask; -1 for one that is cut off or too long. */
  #integer(bytes: Buffer, to: number, mask: number): number {
    let at = this.#at;
    let value = (bytes[at++] as number) & mask;
    if (value === mask) {
      const end = Math.min(to, at + integerBytes);
      let factor = 1;
      let byte = 0x80;
      while (byte >= 0x80) {
        if (at === end) return -1;
        byte = bytes[at++] as number;
        // Not a shift: the last byte may lead beyond 32 bits.
        value += (byte & 0x7f) * factor;
        factor *= 128;
      }
    }
    this.#at = at;
    return value;
  }

  /** Reads a string, but for making it: see #text. Returns its length; -1 for a faulty one. */
  #string(bytes: Buffer, to: number): number {
    let at = this.#at;
    if (at >= to) return -1;
    const byte = bytes[at] as number;
    let length = byte & 0x7f;
    if (length === 0x7f) {
      length = this.#integer(bytes, to, 0x7f);
      if (length < 0) return -1;
      at = this.#at;
    } else {
      at++;
    }
    const end = at + length;
    if (end > to) return -1;
    this.#at = end;
    if (byte < 0x80) {
      this.#source = bytes;
      this.#start = at;
      return length;
    }
    const bound = decodedBound(length);
    this.#source = bound <= scratch.length ? scratch : Buffer.allocUnsafe(bound);
    this.#start = 0;
    return decodeHuffman(bytes, at, end, this.#source);
  }

  /** The string that #string has read. */
  #text(length: number): string {
    return latin1(this.#source, this.#start, length);
  }

  #add(name: string, value: string, size: number): void {
    this.#insert(name, value, size);
    if (this.#usedTable) return;
    if (this.#added === nothing) this.#added = [name, value];
    else this.#added.push(name, value);
  }

  #insert(name: string, value: string, size: number): void {
    this.#generation++;
    if (size > this.#tableLimit) {
      this.#evict(0);
      return;
    }
    this.#evict(this.#tableLimit - size);
    this.#newest = (this.#newest + 1) & this.#mask;
    this.#names[this.#newest] = name;
    this.#values[this.#newest] = value;
    this.#entries++;
    this.#tableBytes += size;
  }

  /** Drops the oldest entries until the rest takes no more than this. */
  #evict(limit: number): void {
    while (this.#tableBytes > limit) {
      const place = (this.#newest - this.#entries + 1) & this.#mask;
      this.#tableBytes -= (this.#names[place] as string).length + (this.#values[place] as string).length + overhead;
      // Nothing else may hold these strings.
      this.#names[place] = '';
      this.#values[place] = '';
      this.#entries--;
    }
  }
}

/** bytes[at, at + length) as a string. Short ones are made without leaving JavaScript, in a third of the time. */
function latin1(bytes: Buffer, at: number, length: number): string {
  const b = (offset: number): number => bytes[at + offset] as number;
  const text = String.fromCharCode;
  switch (length) {
    case 0:
      return '';
    case 1:
      return text(b(0));
    case 2:
      return text(b(0), b(1));
    case 3:
      return text(b(0), b(1), b(2));
    case 4:
      return text(b(0), b(1), b(2), b(3));
    case 5:
      return text(b(0), b(1), b(2), b(3), b(4));
    case 6:
      return text(b(0), b(1), b(2), b(3), b(4), b(5));
    case 7:
      return text(b(0), b(1), b(2), b(3), b(4), b(5), b(6));
    case 8:
      return text(b(0), b(1), b(2), b(3), b(4), b(5), b(6), b(7));
    default:
      return latin1Slice(bytes, at, at + length);
  }
}
