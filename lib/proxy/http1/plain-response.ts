import { trimBlanks } from '../../http-message.ts';
import { framingFields, lengthForm } from '../../request-fields.ts';
import { endOfLine, fieldSection } from '../http/field-lines.ts';
import { maxResponseHead } from './limits.ts';

/** How the end of a response is found (RFC 9112 6.3). */
export type Framing =
  | { readonly kind: 'none' }
  | { readonly kind: 'length'; readonly bytes: number }
  | { readonly kind: 'chunked' }
  | { readonly kind: 'until-close' };

export interface ResponseHead {
  readonly status: number;
  /** Status line and end-to-end fields for an HTTP/1.1 client, each line ended with CRLF; no empty line. */
  readonly forward: string;
  readonly framing: Framing;
  /** Whether the app will take another request on this connection. */
  readonly keepAlive: boolean;
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

/**
 * Reads an app's response head. Null for one that is malformed, or whose end two readers could see in two places
 * (RFC 9112 6.3: both lengths, differing lengths, other codings): the client gets 502 and the connection is given up.
 */
export function readResponseHead(text: string, method: string): ResponseHead | null {
  const match = statusLine.exec(text);
  if (match === null) return null;
  const section = text.slice(match[0].length, -2);
  if (!fieldSection.test(section)) return null;
  const status = Number(match[2]);
  const nominated = new Set<string>();
  let length: string | null = null;
  let chunked = false;
  let keepAlive = match[1] === '1';
  let keepAliveSeconds: number | null = null;
  let upgrade: string | null = null;
  const kept: [name: string, line: string][] = [];
  for (let at = 0; at < section.length; ) {
    const end = endOfLine(section, at) + 2;
    const colon = section.indexOf(':', at);
    const name = section.slice(at, colon).toLowerCase();
    const value = trimBlanks(section.slice(colon + 1, end - 2));
    const line = section.slice(at, end);
    at = end;
    switch (name) {
      case 'connection':
        for (const part of value.toLowerCase().split(',')) {
          const option = part.trim();
          if (option === 'close') keepAlive = false;
          else if (option === 'keep-alive') keepAlive ||= match[1] === '0';
          else if (!framingFields.has(option)) nominated.add(option);
        }
        continue;
      case 'keep-alive': {
        const seconds = /(?:^|[,;\s])timeout=([0-9]{1,6})/i.exec(value);
        if (seconds !== null) keepAliveSeconds = Number(seconds[1]);
        continue;
      }
      case 'proxy-connection':
        // Not a field of HTTP, but Node's parser heeds it.
        if (/(?:^|,)[\t ]*close[\t ]*(?:,|$)/i.test(value)) keepAlive = false;
        continue;
      case 'upgrade':
        upgrade = upgrade === null ? value.toLowerCase() : `${upgrade}, ${value}`;
        continue;
      case 'http2-settings':
        continue;
      case 'transfer-encoding':
        // Without tabs: Node's parser does not take `chunked` before one for chunked.
        if (chunked || !/^ *chunked *\r\n$/i.test(line.slice(name.length + 1)) || match[1] === '0') return null;
        chunked = true;
        break;
      case 'content-length':
        if (length !== null || !lengthForm.test(value)) return null;
        length = value;
        break;
    }
    kept.push([name, line]);
  }
  if (chunked && length !== null) return null;
  // An HTTP/1.0 app may be cut off at any time; only a length tells that its response is whole.
  const bodiless = method === 'HEAD' || status < 200 || status === 204 || status === 304;
  // A body where none belongs would be taken for the next response (RFC 9112 6.3 rule 1).
  if (bodiless && method !== 'HEAD' && (chunked || (length !== null && Number(length) > 0))) keepAlive = false;
  let forward = `HTTP/1.1 ${match[2]} ${match[3] ?? ''}\r\n`;
  for (const [name, line] of kept) {
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
  const stays = keepAlive && framing.kind !== 'until-close';
  if (!nominated.has('upgrade')) upgrade = null;
  return { status, forward, framing, keepAlive: stays, keepAliveSeconds, upgrade };
}
