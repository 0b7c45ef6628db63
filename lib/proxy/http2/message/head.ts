import { type HeaderList, type OriginalProtocol, readHttp2Fields } from '../../../request-fields.ts';
import { isHost, readTarget } from '../../../request-target.ts';
import { headerValue } from '../../http/headers.ts';

/** A request's header block, sorted. */
export interface Http2Head {
  readonly method: string;
  readonly target: string;
  readonly path: string;
  readonly query: string;
  readonly host: string;
  readonly forward: HeaderList;
  /** What rules look at; see `Http2Fields`. */
  readonly decided: HeaderList;
  readonly grpc: boolean;
  readonly originalProtocol: OriginalProtocol | null;
}

/** Null when the block is malformed (RFC 9113 8.1.1), for which the stream is reset. */
export function readHttp2Head(raw: readonly string[]): Http2Head | null {
  let method = '';
  let url = '';
  let authority: string | null = null;
  let at = 0;
  pseudo: for (; at + 1 < raw.length; at += 2) {
    const value = raw[at + 1] as string;
    switch (raw[at]) {
      case ':method':
        method = value;
        continue;
      case ':path':
        url = value;
        continue;
      case ':authority':
        authority = value;
        continue;
      case ':scheme':
        continue;
      case ':protocol':
        // Extended CONNECT is not offered in our SETTINGS.
        return null;
      default:
        break pseudo;
    }
  }
  const fields = readHttp2Fields(raw, at, authority);
  if (fields === null) return null;
  const { forward, decided, grpc, originalProtocol } = fields;
  const name = fields.name ?? '';
  // http names somebody, in one of the two fields (RFC 9113 8.3.1).
  if (name === '' || !isHost(name)) return null;
  if (method === 'CONNECT') {
    return { method, target: name, path: '', query: '', host: name, forward, decided, grpc, originalProtocol };
  }
  const target = readTarget(method, url);
  if (target === null || target.authority !== null) return null;
  return { method, ...target, host: name, forward, decided, grpc, originalProtocol };
}

/**
 * Whether a cut response with these fields may be ended by trailers of ours: gRPC proper alone, since the trailers of
 * gRPC-Web are content, and without an announced length, which would not be the true one.
 */
export function mayEndInTrailers(fields: HeaderList): boolean {
  const type = headerValue(fields, 'content-type');
  return type !== null && /^application\/grpc(?:$|[;+])/i.test(type) && headerValue(fields, 'content-length') === null;
}

/** HTTP/1 apps write names in any case; HTTP/2 allows only one (RFC 9113 8.2.1), and no connection headers. */
export function lowerCase(headers: HeaderList): HeaderList {
  const list: HeaderList = [];
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = (headers[i] as string).toLowerCase();
    if (name !== 'transfer-encoding' && name !== 'connection') list.push(name, headers[i + 1] as string);
  }
  return list;
}
