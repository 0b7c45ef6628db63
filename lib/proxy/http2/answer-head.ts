import type { HeaderList } from '../http/headers.ts';
import { originalProtocolHeader } from './head.ts';
import { encodeFields } from './hpack/encoder.ts';

/** The head of a response for an HTTP/2 client. */
export class AnswerHead {
  readonly status: number;
  /** Lower case, without pseudo-headers and without fields of a connection. */
  readonly fields: HeaderList;
  /** Bytes of content by Content-Length; -1 where there is none. */
  readonly contentLength: number;
  #block: Buffer | null = null;

  constructor(status: number, fields: HeaderList, contentLength: number) {
    this.status = status;
    this.fields = fields;
    this.contentLength = contentLength;
  }

  /** As it goes onto the wire. */
  get block(): Buffer {
    this.#block ??= encodeFields([':status', String(this.status), ...this.fields]);
    return this.#block;
  }

  /** For a client whose request came in orig-proto's clothes. */
  as(originalProtocol: string): AnswerHead {
    return new AnswerHead(this.status, [...this.fields, originalProtocolHeader, originalProtocol], this.contentLength);
  }
}
