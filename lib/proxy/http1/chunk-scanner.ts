import { trimBlanks } from '../../http-message.ts';
import { hopByHop } from '../../request-fields.ts';
import { isTokenChar } from '../token.ts';

/** Who gets what the framing carries. */
export interface ChunkReceiver {
  /** Bytes [from, to) of content; they are only lent. */
  chunkData(bytes: Buffer, from: number, to: number): void;
  chunkTrailer(name: string, value: string): void;
}

/** Who must know in which form the framing comes. */
export interface FramingReceiver {
  /**
   * A size line is complete.
   *
   * @param to offset behind it.
   * @param bytes of the whole line; some of them may have come before.
   * @param isPlain it has digits and CRLF alone, and no leading zeros.
   */
  sizeLine(to: number, bytes: number, size: number, isPlain: boolean): void;
  /** The first trailer begins at `from`. */
  trailersFrom(from: number): void;
}

/** What a scan lets pass. */
export interface ChunkRules {
  /** Bytes of the extensions of one chunk, of those of all chunks of a body, and of all trailers. */
  readonly maxExtension: number;
  readonly maxExtensions: number;
  readonly maxTrailers: number;
  /** Extensions may lack their name or value, and sizes have any number of leading zeros; as Node's parser takes them. */
  readonly isLoose: boolean;
}

/** For what is relayed as it is. */
const strict: ChunkRules = { maxExtension: 4096, maxExtensions: 128 * 1024, maxTrailers: 16 * 1024, isLoose: false };

/** Where a scan stopped. */
export type ScanResult =
  /** All given bytes belong to the body; more must follow. */
  | 'more'
  /** The last chunk and its trailers are complete; `end` says where. */
  | 'done'
  | 'invalid';

const CR = 13;
const LF = 10;
const QUOTE = 0x22;
const COLON = 0x3a;
const SEMICOLON = 0x3b;
const EQUALS = 0x3d;
const BACKSLASH = 0x5c;

/** More significant digits than these make sizes that no number holds exactly. */
const maxDigits = 13;

/** Ordinary sizes have no more digits than this. */
const mostPlainDigits = 7;

/** Fields that have no business behind a body: framing (RFC 9110 6.5.1), and the app's own connection. */
const notTrailers: ReadonlySet<string> = new Set(['content-length', ...hopByHop]);

/** The value of a hexadecimal digit, or -1. */
function hex(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const lower = byte | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}

/** Tab, space, visible characters and obs-text. */
function isText(byte: number): boolean {
  return (byte >= 0x20 && byte !== 0x7f) || byte === 9;
}

type State =
  | 'size'
  /** A chunk extension: its name, after `=`, a token, inside quotes, after a backslash there, after the quotes. */
  | 'extension-name'
  | 'extension-value'
  | 'extension-token'
  | 'extension-quoted'
  | 'extension-escaped'
  | 'extension-end'
  | 'size-lf'
  | 'data'
  | 'data-cr'
  | 'data-lf'
  /** At the start of a trailer line, or of the empty line. */
  | 'line'
  | 'trailer-name'
  | 'trailer-value'
  | 'trailer-lf'
  | 'last-lf';

/**
 * Follows chunked framing (RFC 9112 7.1) without touching it, so that the bytes can be relayed as they are, or what they
 * carry can be taken out. As strict as the grammar: 1 to 13 hexadecimal digits, CRLF everywhere, no bare CR or LF, no space around extensions; bounded
 * extensions and trailers. Loose rules are for framing that is made anew.
 */
export class ChunkScanner {
  /** Offset just behind the message, valid after `done`. */
  end = 0;
  /** Bytes of content so far. */
  content = 0;
  /** What is `invalid` is so for its size alone. */
  isTooLong = false;
  /** Bytes of a size line that is not complete yet. */
  lineBytes = 0;
  #state: State = 'size';
  /** Of the size, without leading zeros. */
  #digits = 0;
  #zeros = 0;
  #left = 0;
  /** Bytes of the extensions of this chunk, or of all trailers. */
  #skipped = 0;
  #extensions = 0;
  readonly #rules: ChunkRules;
  /** Bytes of this extension's name or value. */
  #part = 0;
  #name = '';
  #value = '';
  readonly #receiver: ChunkReceiver | null;
  readonly #framing: FramingReceiver | null;

  constructor(
    receiver: ChunkReceiver | null = null,
    framing: FramingReceiver | null = null,
    rules: ChunkRules = strict,
  ) {
    this.#receiver = receiver;
    this.#framing = framing;
    this.#rules = rules;
  }

  scan(bytes: Buffer, from: number, to: number): ScanResult {
    let at = from;
    while (at < to) {
      if (this.#state === 'size' && this.lineBytes === 0) {
        const end = this.#plainLine(bytes, at, to);
        if (end > at) {
          at = end;
          continue;
        }
      }
      if (this.#state === 'data') {
        const step = Math.min(this.#left, to - at);
        this.#left -= step;
        this.content += step;
        this.#receiver?.chunkData(bytes, at, at + step);
        at += step;
        if (this.#left > 0) continue;
        const isWhole = at + 1 < to && bytes[at] === CR && bytes[at + 1] === LF;
        this.#state = isWhole ? 'size' : 'data-cr';
        if (isWhole) at += 2;
        continue;
      }
      const before = this.#state;
      const next = this.#after(bytes[at++] as number);
      if (next === 'done') {
        this.end = at;
        return 'done';
      }
      if (next === 'invalid') return 'invalid';
      this.#state = next;
      if (before === 'size-lf') this.#lineEnded(at);
      else if (before === 'line' && next === 'trailer-name') this.#framing?.trailersFrom(at - 1);
    }
    return 'more';
  }

  /**
   * Takes an ordinary size line at once, byte for byte what the states below would make of it.
   *
   * @returns where it ends; `at` where there is none, or not all of it.
   */
  #plainLine(bytes: Buffer, at: number, to: number): number {
    const until = Math.min(to, at + mostPlainDigits);
    let size = 0;
    let end = at;
    for (; end < until; end++) {
      const digit = hex(bytes[end] as number);
      if (digit < 0) break;
      size = size * 16 + digit;
      // The last chunk, or a leading zero.
      if (size === 0) return at;
    }
    if (end === at || end + 1 >= to || bytes[end] !== CR || bytes[end + 1] !== LF) return at;
    this.#left = size;
    this.#state = 'data';
    this.#framing?.sizeLine(end + 2, end + 2 - at, size, true);
    return end + 2;
  }

  #lineEnded(at: number): void {
    const digits = this.#digits + this.#zeros;
    const isPlain = digits + 2 === this.lineBytes && (this.#zeros === 0 || digits === 1);
    this.#framing?.sizeLine(at, this.lineBytes, this.#left, isPlain);
    this.#digits = 0;
    this.#zeros = 0;
    this.#skipped = 0;
    this.lineBytes = 0;
  }

  /** The state behind one byte that is not data. */
  #after(byte: number): State | 'done' | 'invalid' {
    const state = this.#state;
    switch (state) {
      case 'size':
        this.lineBytes++;
        return this.#size(byte);
      case 'size-lf':
        this.lineBytes++;
        if (byte !== LF) return 'invalid';
        return this.#left === 0 ? 'line' : 'data';
      case 'data-cr':
        return byte === CR ? 'data-lf' : 'invalid';
      case 'data-lf':
        return byte === LF ? 'size' : 'invalid';
      case 'line':
        if (byte === CR) return 'last-lf';
        this.#name = '';
        return this.#trailerName(byte);
      case 'trailer-name':
        return this.#trailerName(byte);
      case 'trailer-value':
        if (byte === CR) return 'trailer-lf';
        if (this.#receiver !== null) this.#value += String.fromCharCode(byte);
        if (++this.#skipped > this.#rules.maxTrailers) return this.#tooLong();
        return isText(byte) ? 'trailer-value' : 'invalid';
      case 'trailer-lf':
        if (byte !== LF) return 'invalid';
        this.#receiver?.chunkTrailer(this.#name, trimBlanks(this.#value));
        this.#value = '';
        return 'line';
      case 'last-lf':
        return byte === LF ? 'done' : 'invalid';
      default:
        this.lineBytes++;
        if (++this.#skipped > this.#rules.maxExtension) return this.#tooLong();
        if (++this.#extensions > this.#rules.maxExtensions) return this.#tooLong();
        return this.#extension(state, byte);
    }
  }

  #size(byte: number): State | 'invalid' {
    const digit = hex(byte);
    if (digit < 0) return this.#digits + this.#zeros === 0 ? 'invalid' : this.#behindPart(byte);
    if (digit === 0 && this.#digits === 0) {
      this.#zeros++;
      if (this.#rules.isLoose) return this.#zeros > this.#rules.maxExtension ? this.#tooLong() : 'size';
    } else {
      this.#digits++;
    }
    this.#left = this.#left * 16 + digit;
    const counted = this.#rules.isLoose ? this.#digits : this.#digits + this.#zeros;
    return counted > maxDigits ? 'invalid' : 'size';
  }

  #tooLong(): 'invalid' {
    this.isTooLong = true;
    return 'invalid';
  }

  #extension(state: State, byte: number): State | 'invalid' {
    switch (state) {
      case 'extension-value':
        if (byte === QUOTE) return 'extension-quoted';
        if (isTokenChar(byte)) return 'extension-token';
        return this.#rules.isLoose ? this.#behindPart(byte) : 'invalid';
      case 'extension-token':
        if (byte === QUOTE && this.#rules.isLoose) return 'extension-quoted';
        return isTokenChar(byte) ? state : this.#behindPart(byte);
      case 'extension-quoted':
        if (byte === QUOTE) return 'extension-end';
        if (byte === BACKSLASH) return 'extension-escaped';
        return isText(byte) ? state : 'invalid';
      case 'extension-escaped':
        return isText(byte) ? 'extension-quoted' : 'invalid';
      case 'extension-end':
        return this.#behindPart(byte);
      default:
        if (isTokenChar(byte)) {
          this.#part++;
          return 'extension-name';
        }
        if (this.#part === 0 && (byte === CR || !this.#rules.isLoose)) return 'invalid';
        return byte === EQUALS ? 'extension-value' : this.#behindPart(byte);
    }
  }

  /** Behind the size, or a whole extension: another extension, or the end of the line. */
  #behindPart(byte: number): State | 'invalid' {
    this.#part = 0;
    if (byte === CR) return 'size-lf';
    return byte === SEMICOLON ? 'extension-name' : 'invalid';
  }

  #trailerName(byte: number): State | 'invalid' {
    if (++this.#skipped > this.#rules.maxTrailers) return this.#tooLong();
    if (isTokenChar(byte)) {
      this.#name += String.fromCharCode(byte);
      return 'trailer-name';
    }
    if (byte !== COLON || this.#name === '' || notTrailers.has(this.#name.toLowerCase())) return 'invalid';
    return 'trailer-value';
  }
}
