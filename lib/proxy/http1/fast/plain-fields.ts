import { isFramingAlias, trimBlanks } from '../../../http-message.ts';
import { isHost } from '../../../request-target.ts';
import { isIdentityAlias } from '../../http/headers.ts';
import { type ContentFraming, withoutContent } from './content.ts';

/** Field lines with a token for a name and only visible characters, space, tab and obs-text in the value. */
const fieldSection = /^(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*\r\n)+$/;

const contentLength = /^[0-9]{1,15}$/;

/** More fields than this are for the library lane to judge. */
const maxFields = 100;

/** The header section of a plain request. Clients repeat theirs from request to request, so one is kept per connection. */
export interface PlainFields {
  /** As received; every line ends with CRLF. */
  readonly text: string;
  readonly host: string;
  readonly framing: ContentFraming;
  /** False after `Connection: close`. */
  readonly keepAlive: boolean;
  /** What the app gets: without Connection and without anything that claims to be an identity. */
  readonly forward: string;
}

/** Null for fields that need a full parser, or somebody to refuse them. */
export function readPlainFields(text: string): PlainFields | null {
  if (!fieldSection.test(text)) return null;
  let host: string | null = null;
  let length: string | null = null;
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
      case 'upgrade':
      case 'expect':
      case 'te':
      case 'trailer':
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
  if (host === null || !isHost(host)) return null;
  return {
    text,
    host,
    framing: length === null || Number(length) === 0 ? withoutContent : { kind: 'length', bytes: Number(length) },
    keepAlive,
    forward: keptFrom === 0 ? text : forward + text.slice(keptFrom),
  };
}
