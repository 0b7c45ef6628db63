import type { HeaderList } from '../../../request-fields.ts';
import { headerValue } from '../../http/headers.ts';
import { encodeFields } from '../hpack/encoder.ts';
import { areSoundTrailers } from './field-rules.ts';

/** What comes behind the content of a message (RFC 9113 8.1): the same for every message that repeats it. */
export class Trailers {
  /** Names in lower case. */
  readonly fields: HeaderList;
  #block: Buffer | null = null;
  #grpcStatus: string | null | undefined;

  constructor(fields: HeaderList) {
    this.fields = fields;
  }

  get isEmpty(): boolean {
    return this.fields.length === 0;
  }

  /** As they go onto the wire; null where there are none. */
  get block(): Buffer | null {
    if (this.#block === null && !this.isEmpty) this.#block = encodeFields(this.fields);
    return this.#block;
  }

  get grpcStatus(): string | null {
    if (this.#grpcStatus === undefined) this.#grpcStatus = headerValue(this.fields, 'grpc-status');
    return this.#grpcStatus;
  }
}

export const noTrailers = new Trailers([]);

/** Null for fields that may not be trailers. */
export function readTrailers(fields: HeaderList): Trailers | null {
  return areSoundTrailers(fields) ? new Trailers(fields) : null;
}
