import type { HeaderList } from '../../../request-fields.ts';
import { type HpackDecoder, repeatableBytes } from '../hpack/decoder.ts';

/** How reading a header block ended. */
export type Block<Head> =
  | { readonly kind: 'head'; readonly head: Head }
  /** Well compressed, but not a message (RFC 9113 8.1.1). */
  | { readonly kind: 'malformed' }
  | { readonly kind: 'too-large' }
  /** COMPRESSION_ERROR: the connection's table is out of step. */
  | { readonly kind: 'undecodable' };

const malformed: Block<never> = { kind: 'malformed' };
const tooLarge: Block<never> = { kind: 'too-large' };
const undecodable: Block<never> = { kind: 'undecodable' };

const nothing: readonly string[] = [];

/** To call `compare` takes as long as to look at so many bytes. */
const longBlock = 96;

function isEqual(bytes: Buffer, from: number, kept: Buffer, length: number): boolean {
  if (length > longBlock) return bytes.compare(kept, 0, length, from, from + length) === 0;
  for (let i = 0; i < length; i++) if (bytes[from + i] !== kept[i]) return false;
  return true;
}

/** Bytes of the largest list that is kept: a few bytes may stand for a large one, and idle connections are many. */
const mostKept = 8 * 1024;

/** Bytes that an entry of the table costs to look at, by the texts that it is made of: two. */
const additionCost = 4;

/**
 * Reads header blocks into heads. Peers repeat themselves: once their table has settled, the same request or response is
 * the same few bytes, and then the head that was read last is given again, with all that has been made of it since. Some
 * (nginx) never let it settle: they add the same fields to it with every message, and name none of them.
 */
export class HeaderBlocks<Head> {
  readonly #decoder: HpackDecoder;
  readonly #read: (fields: HeaderList, listBytes: number) => Head | null;
  #keptBytes = Buffer.alloc(0);
  #keptLength = 0;
  /** The table's generation in which the kept bytes mean the kept head, where they do not in all. */
  #keptGeneration = -1;
  /** They mean it whatever is in the table, and add this to it. */
  #keptAdditions: readonly string[] | null = null;
  #kept: Block<Head> = malformed;
  /** What it took to read the last block, in bytes that were looked at; next to nothing for one that was known. */
  cost = 0;

  /** @param read makes a head of so many bytes (RFC 9113 6.5.2); null for what is malformed. */
  constructor(decoder: HpackDecoder, read: (fields: HeaderList, listBytes: number) => Head | null) {
    this.#decoder = decoder;
    this.#read = read;
  }

  /** Reads bytes [from, to), which are only lent. */
  read(bytes: Buffer, from: number, to: number): Block<Head> {
    const decoder = this.#decoder;
    const { generation } = decoder;
    const length = to - from;
    if (
      length === this.#keptLength &&
      (this.#keptAdditions !== null || generation === this.#keptGeneration) &&
      isEqual(bytes, from, this.#keptBytes, length)
    ) {
      const additions = this.#keptAdditions ?? nothing;
      this.cost = additionCost * additions.length;
      decoder.addAgain(additions);
      return this.#kept;
    }
    const decoded = decoder.decode(bytes, from, to);
    this.cost = length + decoder.decodedBytes;
    if (decoded.kind === 'malformed') return undecodable;
    if (decoded.kind === 'too-large') return tooLarge;
    const head = this.#read(decoded.fields, decoder.decodedBytes);
    if (head === null) return malformed;
    const block: Block<Head> = { kind: 'head', head };
    const { additions } = decoder;
    const isSmall = length <= repeatableBytes && decoder.decodedBytes <= mostKept;
    if (isSmall && (additions !== null || decoder.generation === generation)) {
      if (this.#keptBytes.length < length) this.#keptBytes = Buffer.alloc(Math.max(256, length));
      bytes.copy(this.#keptBytes, 0, from, to);
      this.#keptLength = length;
      this.#keptGeneration = generation;
      this.#keptAdditions = additions;
      this.#kept = block;
    }
    return block;
  }
}
