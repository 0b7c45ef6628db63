import type { ClientStream, RequestRelay } from './client-stream.ts';

/** A request's content for an application inside this process, which wants all of it or none. */
export class CollectedBody implements RequestRelay {
  readonly #stream: ClientStream;
  readonly #chunks: Buffer[] = [];
  #bytes = 0;
  #ended: boolean;
  #reader: { readonly maxBytes: number; resolve(body: Buffer): void; reject(error: Error): void } | null = null;

  constructor(stream: ClientStream) {
    this.#stream = stream;
    this.#ended = stream.remoteEnded;
  }

  /** @throws when it exceeds `maxBytes`, or the client is gone. */
  read(maxBytes: number): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      this.#reader = { maxBytes, resolve, reject };
      this.#stream.consume(this.#bytes);
      this.#advance();
    });
  }

  content(bytes: Buffer, from: number, to: number): void {
    this.#chunks.push(Buffer.from(bytes.subarray(from, to)));
    this.#bytes += to - from;
    // Until somebody reads, the stream's window is the bound.
    if (this.#reader === null) {
      this.#stream.holdContent(this.#bytes);
      return;
    }
    this.#stream.consume(to - from);
    this.#advance();
  }

  #advance(): void {
    const reader = this.#reader;
    if (reader === null) return;
    if (this.#bytes > reader.maxBytes) reader.reject(new Error('request body too large'));
    else if (this.#ended) reader.resolve(Buffer.concat(this.#chunks));
  }

  contentEnded(): void {
    this.#ended = true;
    this.#advance();
  }

  clientGone(): void {
    this.#reader?.reject(new Error('request aborted'));
  }
}
