import { isFramingAlias, trimBlanks } from '../../../http-message.ts';
import { isHost } from '../../../request-target.ts';
import { isIdentityAlias } from '../../http/headers.ts';
import { type ContentFraming, inChunks, withoutContent } from './content.ts';

/** Field lines with a token for a name and only visible characters, space, tab and obs-text in the value. */
const fieldSection = /^(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*\r\n)+$/;

const contentLength = /^[0-9]{1,15}$/;

/** Behind the colon. Without tabs: Node's parser does not take `chunked` before one for chunked. */
const chunkedCoding = /^ *chunked *$/i;

/** More fields than this are for the library lane to judge. */
const maxFields = 100;

/** The header section of a plain request. Clients repeat theirs from request to request, so one is kept per connection. */
export interface PlainFields {
  /** As received; every line ends with CRLF. */
  readonly text: string;
  readonly host: string;
  readonly framing: ContentFraming;
  /** `Expect: 100-continue` (RFC 9110 10.1.1). */
  readonly expectsContinue: boolean;
  /** False after `Connection: close`. */
  readonly keepAlive: boolean;
  /** What the app gets: without what is the connection's, Expect, and anything that claims to be an identity. */
  readonly forward: string;
}

/** Null for fields that need a full parser, or somebody to refuse them. */
export function readPlainFields(text: string): PlainFields | null {
  if (!fieldSection.test(text)) return null;
  let host: string | null = null;
  let length: string | null = null;
  let chunked = false;
  let expectsContinue = false;
  let keepAlive = true;
  let sawConnection = false;
  let forward = '';
  let keptFrom = 0;
  let count = 0;
  let at = 0;
  while (at < text.length) {
    if (++count > maxFields) return null;
    const end = text.indexOf('\r\n', at) + 2;
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
        if (!contentLength.test(length)) return null;
        break;
      case 'connection': {
        const option = value().toLowerCase();
        if (sawConnection || (option !== 'keep-alive' && option !== 'close')) return null;
        sawConnection = true;
        keepAlive = option === 'keep-alive';
        drop = true;
        break;
      }
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
      case 'te':
      case 'keep-alive':
      case 'proxy-connection':
      case 'http2-settings':
        return null;
      default:
        if (isFramingAlias(name)) return null;
        drop = isIdentityAlias(name);
    }
    if (drop) {
      forward += text.slice(keptFrom, at);
      keptFrom = end;
    }
    at = end;
  }
  if (host === null || !isHost(host) || (chunked && length !== null)) return null;
  return {
    text,
    host,
    framing: chunked ? inChunks : framingOf(Number(length ?? 0)),
    expectsContinue,
    keepAlive,
    forward: keptFrom === 0 ? text : forward + text.slice(keptFrom),
  };
}

function framingOf(length: number): ContentFraming {
  return length === 0 ? withoutContent : { kind: 'length', bytes: length };
}
