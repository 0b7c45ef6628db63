import type { HeaderList } from '../../http/headers.ts';
import { encodeFields } from '../hpack/encoder.ts';
import { originalProtocolHeader } from './head.ts';

/** The head of a response for an HTTP/2 client. */
export class Http2ResponseHead {
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

  /** For a client whose request was upgraded to HTTP/2 by Linkerd's proxy: it gets the original version back (`l5d-orig-proto`). */
  as(originalProtocol: string): Http2ResponseHead {
    return new Http2ResponseHead(
      this.status,
      [...this.fields, originalProtocolHeader, originalProtocol],
      this.contentLength,
    );
  }
}
