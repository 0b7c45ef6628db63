import { type HeaderList, originalProtocolHeader } from '../../../request-fields.ts';
import { headerValue } from '../../http/headers.ts';
import { encodeFields } from '../hpack/encoder.ts';
import { mayEndInTrailers } from './head.ts';

/** The head of a response for an HTTP/2 client. */
export class Http2ResponseHead {
  readonly status: number;
  /** Lower case, without pseudo-headers and without fields of a connection. */
  readonly fields: HeaderList;
  /** Bytes of content by Content-Length; -1 where there is none. */
  readonly contentLength: number;
  #block: Buffer | null = null;
  #grpcStatus: string | null | undefined;
  #mayEndInTrailers: boolean | undefined;

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

  /** Of a response without trailers. */
  get grpcStatus(): string | null {
    if (this.#grpcStatus === undefined) this.#grpcStatus = headerValue(this.fields, 'grpc-status');
    return this.#grpcStatus;
  }

  /** See `mayEndInTrailers`. */
  get mayEndInTrailers(): boolean {
    this.#mayEndInTrailers ??= mayEndInTrailers(this.fields);
    return this.#mayEndInTrailers;
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
