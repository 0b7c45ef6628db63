import { isFramingAlias } from '../../../http-message.ts';
import { isHost, readTarget } from '../../../request-target.ts';
import { type HeaderList, headerValue, isIdentityAlias } from '../../http/headers.ts';

/**
 * How a meshed client carries HTTP/1 over its HTTP/2 connection to us (Linkerd's orig-proto). The app gets the
 * version that the client's application spoke.
 */
export type OriginalProtocol = 'HTTP/1.1' | 'HTTP/1.0';
export const originalProtocolHeader = 'l5d-orig-proto';

/** A request's header block, sorted. */
export interface Http2Head {
  readonly method: string;
  readonly target: string;
  readonly path: string;
  readonly query: string;
  readonly host: string;
  readonly forward: HeaderList;
  readonly grpc: boolean;
  readonly originalProtocol: OriginalProtocol | null;
}

/** Null when the block is malformed (RFC 9113 8.1.1), for which the stream is reset. */
export function readHttp2Head(raw: readonly string[]): Http2Head | null {
  let method = '';
  let url = '';
  let authority: string | null = null;
  let host: string | null = null;
  let grpc = false;
  let originalProtocol: OriginalProtocol | null = null;
  const cookies: string[] = [];
  const forward: HeaderList = [];
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = raw[i] as string;
    const value = raw[i + 1] as string;
    switch (name) {
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
      case 'host':
        // More than one is refused even where they agree (RFC 9110 7.2).
        if (host !== null) return null;
        host = value;
        continue;
      case originalProtocolHeader:
        originalProtocol = value.startsWith('HTTP/1.0') ? 'HTTP/1.0' : 'HTTP/1.1';
        continue;
      case 'content-type':
        grpc = value.startsWith('application/grpc');
        break;
      case 'cookie':
        // Crumbs are joined for apps that are not HTTP/2 (RFC 9113 8.2.3); for the app it is one value either way.
        cookies.push(value);
        continue;
      default:
        if (isFramingAlias(name)) return null;
        if (isIdentityAlias(name)) continue;
    }
    forward.push(name, value);
  }
  if (cookies.length > 0) forward.push('cookie', cookies.join('; '));
  // Two names for one request would let policy and app see different hosts (RFC 9113 8.3.1).
  if (authority !== null && host !== null && authority.toLowerCase() !== host.toLowerCase()) return null;
  const name = authority ?? host ?? '';
  // http names somebody, in one of the two fields (RFC 9113 8.3.1).
  if (name === '' || !isHost(name)) return null;
  if (method === 'CONNECT') {
    return { method, target: name, path: '', query: '', host: name, forward, grpc, originalProtocol };
  }
  const target = readTarget(method, url);
  if (target === null || target.authority !== null) return null;
  return { method, ...target, host: name, forward, grpc, originalProtocol };
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
