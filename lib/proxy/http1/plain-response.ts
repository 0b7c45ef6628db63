import { trimBlanks } from '../../http-message.ts';
import { framingFields, lengthForm } from '../../request-fields.ts';
import { endOfLine, fieldSection } from '../http/field-lines.ts';
import { maxResponseHead } from './limits.ts';
import { type ResponseFault, sectionFault, statusLineFault } from './response-faults.ts';

/** How the end of a response is found (RFC 9112 6.3). */
export type Framing =
  | { readonly kind: 'none' }
  | { readonly kind: 'length'; readonly bytes: number }
  | { readonly kind: 'chunked' }
  | { readonly kind: 'until-close' };

export interface ResponseHead {
  readonly kind: 'head';
  readonly status: number;
  /** Status line and end-to-end fields for an HTTP/1.1 client, each line ended with CRLF; no empty line. */
  readonly forward: string;
  readonly framing: Framing;
  /** Whether the app will take another request on this connection. */
  readonly keepAlive: boolean;
  /** It says so in words, as an app must to one of HTTP/1.0 (RFC 9112 9.3). */
  readonly saysKeepAlive: boolean;
  /** Seconds from `Keep-Alive: timeout=`; null where the app named none. */
  readonly keepAliveSeconds: number | null;
  /** The protocol that it says it goes on with (RFC 9110 7.8), in lower case; null where it says none. */
  readonly upgrade: string | null;
}

const statusLine = /^HTTP\/1\.([01]) ([1-9][0-9]{2})(?: ([\t\x20-\x7e\x80-\xff]*))?\r\n/;

const protocol = Buffer.from('HTTP/1.');

/** Whether more may make a response's head of these bytes. An app that speaks TLS, SSH or SQL says a few, and waits or closes. */
export function mayBecomeHead(bytes: Buffer): boolean {
  const length = Math.min(bytes.length, protocol.length);
  return bytes.length <= maxResponseHead && bytes.compare(protocol, 0, length, 0, length) === 0;
}

/** What the fields of a response say of its connection, and of where it ends. */
interface Found {
  length: string | null;
  chunked: boolean;
  closes: boolean;
  saysKeepAlive: boolean;
  keepAliveSeconds: number | null;
  upgrade: string | null;
  /** In lower case, of fields that are for this connection alone. */
  readonly nominated: Set<string>;
  readonly kept: [name: string, line: string][];
}

/**
 * Reads an app's response head. A fault: one that is malformed, or whose end two readers could see in two places
 * (RFC 9112 6.3: both lengths, differing lengths, other codings): the client gets 502 and the connection is given up.
 */
export function readResponseHead(text: string, method: string): ResponseHead | ResponseFault {
  const match = statusLine.exec(text);
  if (match === null) return statusLineFault(text);
  const section = text.slice(match[0].length, -2);
  if (!fieldSection.test(section)) return sectionFault(section);
  const found: Found = {
    length: null,
    chunked: false,
    closes: false,
    saysKeepAlive: false,
    keepAliveSeconds: null,
    upgrade: null,
    nominated: new Set(),
    kept: [],
  };
  const isOld = match[1] === '0';
  for (let at = 0; at < section.length; ) {
    const end = endOfLine(section, at) + 2;
    const fault = readField(section.slice(at, end), isOld, found);
    if (fault !== null) return { kind: 'fault', fault };
    at = end;
  }
  if (found.chunked && found.length !== null)
    return { kind: 'fault', fault: 'both Transfer-Encoding and Content-Length' };
  return headOf(match as unknown as StatusLine, method, found);
}

type StatusLine = readonly [line: string, minor: string, status: string, reason: string | undefined];

/** Takes what a line says; returns what is wrong with it, or null. */
function readField(line: string, isOld: boolean, found: Found): string | null {
  const colon = line.indexOf(':');
  const name = line.slice(0, colon).toLowerCase();
  const value = trimBlanks(line.slice(colon + 1, -2));
  switch (name) {
    case 'connection':
      for (const part of value.toLowerCase().split(',')) {
        const option = part.trim();
        if (option === 'close') found.closes = true;
        else if (option === 'keep-alive') found.saysKeepAlive = true;
        else if (!framingFields.has(option)) found.nominated.add(option);
      }
      return null;
    case 'keep-alive': {
      const seconds = /(?:^|[,;\s])timeout=([0-9]{1,6})/i.exec(value);
      if (seconds !== null) found.keepAliveSeconds = Number(seconds[1]);
      return null;
    }
    case 'proxy-connection':
      // Not a field of HTTP, but Node's parser heeds it.
      if (/(?:^|,)[\t ]*close[\t ]*(?:,|$)/i.test(value)) found.closes = true;
      return null;
    case 'upgrade':
      found.upgrade = found.upgrade === null ? value.toLowerCase() : `${found.upgrade}, ${value}`;
      return null;
    case 'http2-settings':
      return null;
    case 'transfer-encoding':
      if (found.chunked) return 'Transfer-Encoding more than once';
      if (isOld) return 'Transfer-Encoding in HTTP/1.0';
      // Without tabs: Node's parser does not take `chunked` before one for chunked.
      if (!/^ *chunked *\r\n$/i.test(line.slice(colon + 1))) return 'Transfer-Encoding other than one chunked';
      found.chunked = true;
      break;
    case 'content-length':
      if (found.length !== null) return 'Content-Length more than once';
      if (!lengthForm.test(value)) return 'Content-Length that is no number, or too large a one';
      found.length = value;
      break;
  }
  found.kept.push([name, line]);
  return null;
}

function headOf([, minor, code, reason]: StatusLine, method: string, found: Found): ResponseHead {
  const { length, chunked, nominated, saysKeepAlive, keepAliveSeconds } = found;
  const status = Number(code);
  // An HTTP/1.0 app may be cut off at any time; only a length tells that its response is whole.
  const bodiless = method === 'HEAD' || status < 200 || status === 204 || status === 304;
  let keepAlive = !found.closes && (minor === '1' || saysKeepAlive);
  // A body where none belongs would be taken for the next response (RFC 9112 6.3 rule 1).
  if (bodiless && method !== 'HEAD' && (chunked || (length !== null && Number(length) > 0))) keepAlive = false;
  let forward = `HTTP/1.1 ${code} ${reason ?? ''}\r\n`;
  for (const [name, line] of found.kept) {
    if (nominated.has(name)) continue;
    // RFC 9110 8.6, RFC 9112 6.1: a 204 and interim responses announce no content, by either means.
    if ((status === 204 || status < 200) && (name === 'content-length' || name === 'transfer-encoding')) continue;
    forward += line;
  }
  const framing: Framing = bodiless
    ? { kind: 'none' }
    : chunked
      ? { kind: 'chunked' }
      : length !== null
        ? { kind: 'length', bytes: Number(length) }
        : { kind: 'until-close' };
  return {
    kind: 'head',
    status,
    forward,
    framing,
    keepAlive: keepAlive && framing.kind !== 'until-close',
    saysKeepAlive,
    keepAliveSeconds,
    upgrade: nominated.has('upgrade') ? found.upgrade : null,
  };
}
