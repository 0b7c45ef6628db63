import { isFramingAlias, trimBlanks } from '../../../http-message.ts';
import { isIdentityAlias, lengthForm, promisedTrailers } from '../../../request-fields.ts';
import { isHost } from '../../../request-target.ts';
import { endOfLine, fieldSection, linesWhere } from '../../http/field-lines.ts';
import { type ConnectionOptions, noOptions, readConnectionOptions } from './connection-options.ts';
import { type ContentFraming, inChunks, inTunnel, withoutContent } from './content.ts';

/** Behind the colon. Without tabs: Node's parser does not take `chunked` before one for chunked. */
const chunkedCoding = /^ *chunked *$/i;

/** More fields than this are for the library lane to judge. */
const maxFields = 100;

export type Version = 'HTTP/1.0' | 'HTTP/1.1';

/** The header section of a plain request. Clients repeat theirs from request to request, so one is kept per connection. */
export interface PlainFields {
  /** As received; every line ends with CRLF. */
  readonly text: string;
  /** Of the request: the same lines mean something else in the other. */
  readonly version: Version;
  /** Empty where there is none, which HTTP/1.0 permits. */
  readonly host: string;
  readonly framing: ContentFraming;
  /** `Expect: 100-continue` (RFC 9110 10.1.1). */
  readonly expectsContinue: boolean;
  /** Another request may follow (RFC 9112 9.3). */
  readonly keepAlive: boolean;
  /** There was a Connection field. */
  readonly saysConnection: boolean;
  /** What the app gets: Host where there is one, and neither what is the connection's, nor Expect, nor anything that claims to be an identity. */
  readonly forward: string;
}

/** Null for fields that need a full parser, or somebody to refuse them. */
export function readPlainFields(text: string, version: Version): PlainFields | null {
  if (!fieldSection.test(text)) return null;
  let host: string | null = null;
  let length: string | null = null;
  let chunked = false;
  let expectsContinue = false;
  let upgrade: string | null = null;
  let connection: ConnectionOptions | null = null;
  let hasProxyConnection = false;
  let forward = '';
  let keptFrom = 0;
  let count = 0;
  let at = 0;
  while (at < text.length) {
    if (++count > maxFields) return null;
    const end = endOfLine(text, at) + 2;
    const colon = text.indexOf(':', at);
    const name = text.slice(at, colon).toLowerCase();
    const value = (): string => trimBlanks(text.slice(colon + 1, end - 2));
    let drop = false;
    switch (name) {
      case 'host':
        if (host !== null) return null;
        host = value();
        break;
      case 'content-length':
        if (length !== null) return null;
        length = value();
        if (!lengthForm.test(length)) return null;
        break;
      case 'connection':
        if (connection !== null) return null;
        connection = readConnectionOptions(value());
        if (connection === null) return null;
        drop = true;
        break;
      case 'proxy-connection':
        // Not a field of HTTP, but Node's parser heeds it.
        if (value().toLowerCase() !== 'keep-alive') return null;
        hasProxyConnection = true;
        drop = true;
        break;
      case 'te':
        // `trailers` is the only value that a gateway may pass on (RFC 9110 10.1.4). HTTP/1.0 has no TE, but Node heeds it.
        drop = value().toLowerCase() !== 'trailers';
        if (drop && version === 'HTTP/1.0' && /chunk/i.test(value())) return null;
        break;
      case 'keep-alive':
      case 'http2-settings':
        drop = true;
        break;
      case 'transfer-encoding':
        if (chunked || !chunkedCoding.test(text.slice(colon + 1, end - 2))) return null;
        chunked = true;
        drop = true;
        break;
      case 'expect':
        if (expectsContinue || value().toLowerCase() !== '100-continue') return null;
        expectsContinue = true;
        drop = true;
        break;
      case 'upgrade':
        if (upgrade !== null) return null;
        upgrade = value().toLowerCase();
        drop = true;
        break;
      default:
        if (isFramingAlias(name) || (name === 'trailer' && promisedTrailers(value()) !== value())) return null;
        drop = isIdentityAlias(name);
    }
    if (drop) {
      forward += text.slice(keptFrom, at);
      keptFrom = end;
    }
    at = end;
  }
  const forwarded = keptFrom === 0 ? text : forward + text.slice(keptFrom);
  const framing = framingOf({ length, chunked, expectsContinue, upgrade }, connection ?? noOptions, version);
  if (framing === null) return null;
  const found = { host, framing, expectsContinue, connection, hasProxyConnection };
  return plainFields(text, version, found, forwarded);
}

/** What the fields that decide on a request say. */
interface Found {
  readonly host: string | null;
  readonly framing: ContentFraming;
  readonly expectsContinue: boolean;
  /** Null where there was no such field. */
  readonly connection: ConnectionOptions | null;
  readonly hasProxyConnection: boolean;
}

/** Null where they do not fit together. */
function plainFields(text: string, version: Version, found: Found, forwarded: string): PlainFields | null {
  const { host, framing, expectsContinue, connection } = found;
  const { option, names: nominated } = connection ?? noOptions;
  // There is nothing that trailers could follow.
  const names = framing.kind === 'tunnel' ? ['trailer', ...nominated] : nominated;
  if (host === null ? version === 'HTTP/1.1' : !isHost(host)) return null;
  // What a proxy between us and the client was told, says nothing of this connection unless the client says the same.
  if (found.hasProxyConnection && version === 'HTTP/1.0' && option !== 'keep-alive') return null;
  const lines = names.length === 0 ? forwarded : withoutNamed(forwarded, names);
  return {
    text,
    version,
    host: host ?? '',
    framing,
    expectsContinue,
    keepAlive: version === 'HTTP/1.1' ? option !== 'close' : option === 'keep-alive',
    saysConnection: connection !== null,
    forward: lines,
  };
}

/** What the fields say of what follows the head. */
interface Announced {
  readonly length: string | null;
  readonly chunked: boolean;
  readonly expectsContinue: boolean;
  readonly upgrade: string | null;
}

/** Null where they contradict each other, or somebody might take them for something else. */
function framingOf(announced: Announced, connection: ConnectionOptions, version: Version): ContentFraming | null {
  const { length, chunked, expectsContinue, upgrade } = announced;
  if (upgrade !== null || connection.upgrade) {
    // WebSocket alone, of a client that asks for nothing else; all other switches are the library lane's.
    const isPlain = length === null && !chunked && !expectsContinue && version === 'HTTP/1.1';
    return isPlain && upgrade === 'websocket' && connection.upgrade ? inTunnel : null;
  }
  if (chunked && length !== null) return null;
  // HTTP/1.0 has neither: some take the one for a fault of the framing, and are to ignore the other (RFC 9112 6.1).
  if (version === 'HTTP/1.0' && (chunked || expectsContinue)) return null;
  if (chunked) return inChunks;
  const bytes = Number(length ?? 0);
  return bytes === 0 ? withoutContent : { kind: 'length', bytes };
}

/** The lines of other fields than these. */
function withoutNamed(lines: string, names: readonly string[]): string {
  const dropped = new Set(names);
  return linesWhere(lines, (name) => !dropped.has(name));
}

/** Fields to forward, with another Host for the first (RFC 9112 3.2.2). */
export function withHost(lines: string, host: string): string {
  return `Host: ${host}\r\n${linesWhere(lines, (name) => name !== 'host')}`;
}
