import { isFramingAlias, trimBlanks } from '../../../http-message.ts';
import { noOddNames, oddNamesOf, type RequestFacts } from '../../../policy/decision.ts';
import { isHost } from '../../../request-target.ts';
import type { Decided, Request } from '../../http/exchange.ts';
import { fieldPairs, fieldValues } from '../../http/field-lines.ts';
import { isIdentityAlias } from '../../http/headers.ts';
import { isLastRequest } from '../../http/last-request.ts';
import { isPlainMethod, requestLine } from '../request-line.ts';
import { type ContentFraming, withoutContent } from './content.ts';

/*
 * What the fast lane takes: requests whose framing and routing leave nothing to interpret. Everything here is narrower
 * than the grammar of RFC 9112, and narrower than what Node's parser accepts; whatever does not fit goes, untouched, to
 * the library lane, which serves or refuses it. So this file never has to refuse anything, only to recognize.
 */

/** Field lines with a token for a name and only visible characters, space, tab and obs-text in the value. */
const fieldSection = /^(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*\r\n)+$/;

/** A field whose name holds anything but letters, digits and hyphens, anywhere in CRLF-ended lines. */
const oddFieldName = /(?:^|\n)[A-Za-z0-9-]*[^A-Za-z0-9:\r\n-]/;

const contentLength = /^[0-9]{1,15}$/;

/** More fields than this are for the library lane to judge. */
const maxFields = 100;

/** A request head longer than this is not plain. */
export const maxPlainHead = 16 * 1024;

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

export interface PlainHead {
  /** The whole of it. */
  readonly text: string;
  readonly line: string;
  readonly method: string;
  readonly target: string;
  readonly fields: PlainFields;
}

/**
 * Recognizes a plain request head; null for anything that needs a full parser.
 *
 * @param text a whole head with its empty line, one character per byte.
 * @param known the fields of this connection's previous request.
 */
export function readPlainHead(text: string, known: PlainFields | null): PlainHead | null {
  const match = requestLine.exec(text);
  if (match === null || !isPlainMethod(match[1] as string)) return null;
  const line = match[0];
  const section = text.slice(line.length, -2);
  const fields = known !== null && known.text === section ? known : readPlainFields(section);
  return fields === null ? null : { text, line, method: match[1] as string, target: match[2] as string, fields };
}

function readPlainFields(text: string): PlainFields | null {
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

/** A plain request as policy and logs see it. */
export class PlainRequest implements Request {
  readonly text: string;
  readonly line: string;
  readonly method: string;
  readonly target: string;
  readonly path: string;
  readonly query: string;
  readonly host: string;
  readonly grpc = false;
  readonly carries: RequestFacts['carries'];
  readonly version = 'HTTP/1.1';
  readonly fields: PlainFields;
  /** On its connection to the app. */
  readonly isLast: boolean;
  decided: Decided | null = null;

  constructor(head: PlainHead) {
    this.text = head.text;
    this.line = head.line;
    this.method = head.method;
    this.target = head.target;
    this.fields = head.fields;
    this.host = head.fields.host;
    this.carries = head.fields.framing.kind === 'none' ? 'nothing' : 'body';
    this.isLast = isLastRequest(head.method, this.carries === 'body');
    const mark = head.target.indexOf('?');
    this.path = mark === -1 ? head.target : head.target.slice(0, mark);
    this.query = mark === -1 ? '' : head.target.slice(mark + 1);
  }

  get headBytes(): number {
    return 2 * this.text.length;
  }

  /** Values among the forwarded fields: policy and app see the same ones. */
  header(name: string): readonly string[] {
    return fieldValues(this.fields.forward, name);
  }

  get oddNames(): readonly string[] {
    const { forward } = this.fields;
    return oddFieldName.test(forward) ? oddNamesOf(fieldPairs(forward)) : noOddNames;
  }
}
