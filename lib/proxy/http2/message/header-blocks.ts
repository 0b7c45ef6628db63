import type { HeaderList } from '../../http/headers.ts';
import type { HpackDecoder } from '../hpack/decoder.ts';

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

/** A block longer than this is not kept. */
const maxKept = 1024;

/**
 * Reads header blocks into heads. Peers repeat themselves: once their table has settled, the same request or response is
 * the same few bytes, and then the head that was read last is given again, with all that has been made of it since.
 */
export class HeaderBlocks<Head> {
  readonly #decoder: HpackDecoder;
  readonly #read: (fields: HeaderList, listBytes: number) => Head | null;
  #keptBytes = Buffer.alloc(0);
  #keptLength = 0;
  /** The table's generation in which the kept bytes mean the kept head. */
  #keptGeneration = -1;
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
      generation === this.#keptGeneration &&
      length === this.#keptLength &&
      bytes.compare(this.#keptBytes, 0, length, from, to) === 0
    ) {
      this.cost = 0;
      return this.#kept;
    }
    const decoded = decoder.decode(bytes, from, to);
    this.cost = length + decoder.decodedBytes;
    if (decoded.kind === 'malformed') return undecodable;
    if (decoded.kind === 'too-large') return tooLarge;
    const head = this.#read(decoded.fields, decoder.decodedBytes);
    if (head === null) return malformed;
    const block: Block<Head> = { kind: 'head', head };
    if (decoder.generation === generation && length <= maxKept) {
      if (this.#keptBytes.length < length) this.#keptBytes = Buffer.alloc(Math.max(256, length));
      bytes.copy(this.#keptBytes, 0, from, to);
      this.#keptLength = length;
      this.#keptGeneration = generation;
      this.#kept = block;
    }
    return block;
  }
}
