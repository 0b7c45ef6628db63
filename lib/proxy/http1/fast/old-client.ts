import { fieldValues, linesWhere } from '../../http/field-lines.ts';
import { type ChunkReceiver, ChunkScanner } from '../chunk-scanner.ts';
import type { ResponseHead } from '../plain-response.ts';

/*
 * A response for a client that speaks HTTP/1.0: it knows neither chunks nor trailers (RFC 9112 6.1), and where no length
 * says where the response ends, its connection does.
 */

export interface OldHead {
  /** Status line and fields, each line ended with CRLF. */
  readonly forward: string;
  /** Its end is that of the connection. */
  readonly isEndless: boolean;
  /** A length is announced, so that the connection may stay open; even of a response that has no body. */
  readonly hasLength: boolean;
  /** Takes the body out of its chunks; null where there are none. */
  readonly decoder: ChunkDecoder | null;
}

/** What becomes of the head of any response whose body has no length. */
export function forOldClient({ forward, framing }: ResponseHead): OldHead {
  const isChunked = framing.kind === 'chunked';
  return {
    forward: linesWhere(forward, (name) => name !== 'transfer-encoding' && name !== 'trailer'),
    isEndless: isChunked || framing.kind === 'until-close',
    hasLength: fieldValues(forward, 'content-length').length > 0,
    decoder: isChunked ? new ChunkDecoder() : null,
  };
}

/** Takes content out of its chunks, which have been found to be sound. */
export class ChunkDecoder implements ChunkReceiver {
  readonly #scanner = new ChunkScanner(this);
  #parts: Buffer[] = [];

  /** The content among these bytes; lent like them. */
  decode(bytes: Buffer): Buffer {
    this.#parts = [];
    this.#scanner.scan(bytes, 0, bytes.length);
    const [first, second] = this.#parts;
    return first !== undefined && second === undefined ? first : Buffer.concat(this.#parts);
  }

  chunkData(bytes: Buffer, from: number, to: number): void {
    this.#parts.push(bytes.subarray(from, to));
  }

  chunkTrailer(): void {
    // HTTP/1.0 has no trailers.
  }
}
