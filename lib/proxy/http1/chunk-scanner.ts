/** Where a scan stopped. */
export type ScanResult =
  /** All given bytes belong to the body; more must follow. */
  | 'more'
  /** The last chunk and its trailers are complete; `end` says where. */
  | 'done'
  | 'invalid';

const CR = 13;
const LF = 10;
const SEMICOLON = 0x3b;
const maxExtension = 4096;
const maxTrailers = 16 * 1024;

/** The value of a hexadecimal digit, or -1. */
function hex(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const lower = byte | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}

/**
 * Follows chunked framing (RFC 9112 7.1) without touching it, so that the bytes can be relayed as they are. As strict as
 * the grammar: 1 to 13 hexadecimal digits, CRLF everywhere, no bare CR or LF, bounded extensions and trailers.
 */
export class ChunkScanner {
  /** Offset just behind the message, valid after `done`. */
  end = 0;
  #state:
    | 'size'
    | 'extension'
    | 'size-lf'
    | 'data'
    | 'data-cr'
    | 'data-lf'
    | 'line'
    | 'trailer'
    | 'trailer-lf'
    | 'last-lf' = 'size';
  #digits = 0;
  #left = 0;
  #skipped = 0;

  scan(bytes: Buffer, from: number, to: number): ScanResult {
    let at = from;
    while (at < to) {
      if (this.#state === 'data') {
        const step = Math.min(this.#left, to - at);
        this.#left -= step;
        at += step;
        if (this.#left === 0) this.#state = 'data-cr';
        continue;
      }
      const byte = bytes[at++] as number;
      switch (this.#state) {
        case 'size': {
          const digit = hex(byte);
          if (digit >= 0) {
            if (++this.#digits > 13) return 'invalid';
            this.#left = this.#left * 16 + digit;
          } else if (this.#digits === 0) return 'invalid';
          else if (byte === CR) this.#state = 'size-lf';
          else if (byte === SEMICOLON) {
            this.#state = 'extension';
            this.#skipped = 0;
          } else return 'invalid';
          break;
        }
        case 'extension':
          if (byte === CR) this.#state = 'size-lf';
          else if ((byte < 0x20 && byte !== 9) || byte === 0x7f || ++this.#skipped > maxExtension) return 'invalid';
          break;
        case 'size-lf':
          if (byte !== LF) return 'invalid';
          this.#state = this.#left === 0 ? 'line' : 'data';
          this.#digits = 0;
          this.#skipped = 0;
          break;
        case 'data-cr':
          if (byte !== CR) return 'invalid';
          this.#state = 'data-lf';
          break;
        case 'data-lf':
          if (byte !== LF) return 'invalid';
          this.#state = 'size';
          break;
        case 'line':
          if (byte === CR) this.#state = 'last-lf';
          else if (byte <= 0x20 || byte === 0x7f || byte === 0x3a) return 'invalid';
          else this.#state = 'trailer';
          break;
        case 'trailer':
          if (byte === CR) this.#state = 'trailer-lf';
          else if ((byte < 0x20 && byte !== 9) || byte === 0x7f || ++this.#skipped > maxTrailers) return 'invalid';
          break;
        case 'trailer-lf':
          if (byte !== LF) return 'invalid';
          this.#state = 'line';
          break;
        case 'last-lf':
          if (byte !== LF) return 'invalid';
          this.end = at;
          return 'done';
      }
    }
    return 'more';
  }
}
