import { ChunkScanner, type FramingReceiver } from '../chunk-scanner.ts';
import { framingCost, maxFramingBytes, maxFramingRatio } from '../limits.ts';

/** How the end of a request's content is found (RFC 9112 6.3), as its head says. */
export type ContentFraming =
  /** There is none. */
  | { readonly kind: 'none' }
  | { readonly kind: 'length'; readonly bytes: number }
  | { readonly kind: 'chunked' }
  /** None either: what follows waits for the app to agree to leave HTTP (RFC 9110 7.8). */
  | { readonly kind: 'tunnel' };

export const withoutContent: ContentFraming = { kind: 'none' };
export const inTunnel: ContentFraming = { kind: 'tunnel' };
export const inChunks: ContentFraming = { kind: 'chunked' };

/** Why content cannot be read any further. */
export type ContentFault = 'malformed' | 'too-long';

const nothing = Buffer.alloc(0);

const CR = 13;
const LF = 10;

/** What goes on may be longer than what has just come by a size line that began before, and by the last empty line. */
const mostAdded = 32;

/** A call for so few bytes costs more than to copy them one by one. */
const shortCopy = 64;

/** Of one chunk, as Node's parser bounds them. */
const maxExtension = 16 * 1024;

/** More framing than this, and many times the content, no client begins with. */
const oddFramingBytes = 4 * 1024;

/** The content of one request, on its way from the client. */
export class RequestContent {
  /** All of it has come. */
  isComplete: boolean;
  /** Bytes of content in what was taken last. */
  size = 0;
  fault: ContentFault | null = null;
  /** What it was to take that apart and pass it on, as bytes of content. */
  work = 0;
  #left: number;
  #part: Buffer = nothing;
  readonly #chunks: RequestChunks | null;

  /** @param maxTrailers bytes of all trailers. */
  constructor(framing: ContentFraming, maxTrailers: number) {
    this.#left = framing.kind === 'length' ? framing.bytes : 0;
    this.#chunks = framing.kind === 'chunked' ? new RequestChunks(maxTrailers) : null;
    this.isComplete = framing.kind === 'none' || framing.kind === 'tunnel';
  }

  /**
   * Takes what belongs to it of bytes that have come. Behind a `fault` nothing can be told apart any more.
   *
   * @returns where what follows it begins among them.
   */
  take(bytes: Buffer, from: number): number {
    if (this.#chunks !== null) return this.#takeChunks(this.#chunks, bytes, from);
    const to = Math.min(bytes.length, from + this.#left);
    this.size = to - from;
    this.work = this.size;
    this.#left -= this.size;
    this.isComplete = this.#left === 0;
    this.#part = from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to);
    return to;
  }

  #takeChunks(chunks: RequestChunks, bytes: Buffer, from: number): number {
    const before = chunks.content;
    const to = chunks.take(bytes, from);
    this.size = chunks.content - before;
    this.work = this.size + framingCost * (to - from - this.size);
    this.isComplete = chunks.isComplete;
    this.#part = chunks.part;
    chunks.part = nothing;
    this.fault = chunks.fault;
    return to;
  }

  /** What came with the head is nothing that the fast lane should begin with. */
  get isOdd(): boolean {
    return this.fault !== null || this.#chunks?.isFramingBeyond(oddFramingBytes) === true;
  }

  /** Of what was taken last, that which the app gets: once, so that no bytes are kept that have gone on. */
  handOn(): Buffer {
    const part = this.#part;
    this.#part = nothing;
    return part;
  }
}

/** Of every request that has none: it never changes. */
export const noContent = new RequestContent(withoutContent, 0);

/**
 * The chunks of a request (RFC 9112 7.1), as they go on: sizes and content as they came, but in one form only. An app gets
 * no extension, no leading zero and no trailer (which the library lane drops, too); nor a size line of which only a part has
 * come. So whatever it makes of those, it reads no other message than we do.
 */
class RequestChunks implements FramingReceiver {
  isComplete = false;
  fault: ContentFault | null = null;
  part: Buffer = nothing;
  readonly #scanner: ChunkScanner;
  /** All that has come of it. */
  #came = 0;
  /** In what is being taken: where it begins, from where on it has not been kept or replaced, and what has. */
  #bytes: Buffer = nothing;
  #from = 0;
  #rest = 0;
  #made: Buffer | null = null;
  #madeBytes = 0;
  #hasTrailers = false;

  constructor(maxTrailers: number) {
    const maxExtensions = Number.POSITIVE_INFINITY;
    this.#scanner = new ChunkScanner(null, this, { maxExtension, maxExtensions, maxTrailers, isLoose: true });
  }

  get content(): number {
    return this.#scanner.content;
  }

  take(bytes: Buffer, from: number): number {
    this.#bytes = bytes;
    this.#from = from;
    this.#rest = from;
    const scanner = this.#scanner;
    const result = scanner.scan(bytes, from, bytes.length);
    const to = result === 'done' ? scanner.end : bytes.length;
    this.#came += to - from;
    this.isComplete = result === 'done';
    if (result === 'invalid') this.fault = scanner.isTooLong ? 'too-long' : 'malformed';
    else if (!this.isComplete && this.isFramingBeyond(maxFramingBytes)) this.fault = 'too-long';
    else this.#keep(this.#hasTrailers ? this.#rest : to - scanner.lineBytes);
    this.#bytes = nothing;
    return to;
  }

  isFramingBeyond(bytes: number): boolean {
    return this.#came - this.content > bytes + maxFramingRatio * this.content;
  }

  sizeLine(to: number, bytes: number, size: number, isPlain: boolean): void {
    const began = to - bytes;
    if (isPlain && began >= this.#from) return;
    const made = this.#replace(began, to);
    this.#madeBytes = writeSizeLine(made, this.#madeBytes, size);
  }

  trailersFrom(from: number): void {
    if (!this.#hasTrailers) this.#replace(from, this.#bytes.length);
    this.#hasTrailers = true;
  }

  /** What stands in for [from, to) is to be written behind this. */
  #replace(from: number, to: number): Buffer {
    // A client may have every chunk replaced, of one byte each: nothing is allocated for one.
    this.#made ??= Buffer.allocUnsafe(this.#bytes.length + mostAdded);
    this.#copy(this.#made, from);
    this.#rest = to;
    return this.#made;
  }

  /** Copies what has come up to `to`. */
  #copy(made: Buffer, to: number): void {
    const from = this.#rest;
    if (to <= from) return;
    if (to - from > shortCopy) {
      this.#bytes.copy(made, this.#madeBytes, from, to);
      this.#madeBytes += to - from;
    } else {
      for (let at = from; at < to; at++) made[this.#madeBytes++] = this.#bytes[at] as number;
    }
  }

  /** What has come up to `to` goes on. */
  #keep(to: number): void {
    const bytes = this.#bytes;
    // The empty line behind trailers, which has been left out with them.
    const endsTrailers = this.#hasTrailers && this.isComplete;
    if (endsTrailers) this.#made ??= Buffer.allocUnsafe(mostAdded);
    const made = this.#made;
    this.#made = null;
    if (made === null) {
      const from = this.#rest;
      this.part = from === 0 && to === bytes.length ? bytes : bytes.subarray(from, Math.max(to, from));
      return;
    }
    this.#copy(made, to);
    if (endsTrailers) {
      made[this.#madeBytes++] = CR;
      made[this.#madeBytes++] = LF;
    }
    this.part = made.subarray(0, this.#madeBytes);
    this.#madeBytes = 0;
  }
}

/** @returns where it ends. */
function writeSizeLine(into: Buffer, from: number, size: number): number {
  const digits = size.toString(16);
  let at = from;
  for (let i = 0; i < digits.length; i++) into[at++] = digits.charCodeAt(i);
  into[at++] = CR;
  into[at++] = LF;
  return at;
}
