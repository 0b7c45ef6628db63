/** How the end of a request's content is found (RFC 9112 6.3), as its head says. */
export type ContentFraming =
  /** There is none. */
  { readonly kind: 'none' } | { readonly kind: 'length'; readonly bytes: number };

const nothing = Buffer.alloc(0);

export const withoutContent: ContentFraming = { kind: 'none' };

/** The content of one request, on its way from the client. */
export class RequestContent {
  /** All of it has come. */
  isComplete: boolean;
  /** Bytes of content in what was taken last. */
  size = 0;
  #left: number;
  #part: Buffer = nothing;

  constructor(framing: ContentFraming) {
    this.#left = framing.kind === 'none' ? 0 : framing.bytes;
    this.isComplete = this.#left === 0;
  }

  /**
   * Takes what belongs to it of bytes that have come.
   *
   * @returns where what follows it begins among them.
   */
  take(bytes: Buffer, from: number): number {
    const to = Math.min(bytes.length, from + this.#left);
    this.size = to - from;
    this.#left -= this.size;
    this.isComplete = this.#left === 0;
    this.#part = from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to);
    return to;
  }

  /** Of what was taken last, that which the app gets: once, so that no bytes are kept that have gone on. */
  handOn(): Buffer {
    const part = this.#part;
    this.#part = nothing;
    return part;
  }
}

/** Of every request that has none: it never changes. */
export const noContent = new RequestContent(withoutContent);
