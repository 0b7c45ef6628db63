import type { HeaderList } from '../../http/headers.ts';

/*
 * What a field section may contain (RFC 9113 8.2, 8.3). HTTP/2 gives names and values their lengths, HTTP/1 line ends:
 * what would end a line or a name there is malformed here, so that it can never get across (GHSA-847f-9342-265h).
 */

const nameForm = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;
/** Visible characters, obs-text, and space or tab between them. */
const valueForm = /^(?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?$/;
const methodForm = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const schemeForm = /^[A-Za-z][A-Za-z0-9+.-]*$/;
const pathForm = /^[\x21-\x7e\x80-\xff]+$/;
const lengthForm = /^[0-9]{1,15}$/;

/** Fields that speak of one HTTP/1 connection (RFC 9113 8.2.2). */
const connectionFields: ReadonlySet<string> = new Set([
  'connection',
  'http2-settings',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade',
]);

function isSoundField(name: string, value: string): boolean {
  if (!nameForm.test(name) || !valueForm.test(value) || connectionFields.has(name)) return false;
  return name !== 'te' || value.toLowerCase() === 'trailers';
}

/** Whether fields from `from` on are sound, and no pseudo-headers. */
function areSound(fields: HeaderList, from: number): boolean {
  for (let i = from; i + 1 < fields.length; i += 2) {
    if (!isSoundField(fields[i] as string, fields[i + 1] as string)) return false;
  }
  return true;
}

/** Whether a request's header section is well formed; what its parts mean is not looked at. */
export function isSoundRequest(fields: HeaderList): boolean {
  let method: string | null = null;
  let scheme: string | null = null;
  let path: string | null = null;
  let authority: string | null = null;
  let at = 0;
  for (; at + 1 < fields.length; at += 2) {
    const name = fields[at] as string;
    const value = fields[at + 1] as string;
    if (name === ':method') {
      if (method !== null || !methodForm.test(value)) return false;
      method = value;
    } else if (name === ':scheme') {
      if (scheme !== null || !schemeForm.test(value)) return false;
      scheme = value;
    } else if (name === ':path') {
      if (path !== null || !pathForm.test(value)) return false;
      path = value;
    } else if (name === ':authority') {
      if (authority !== null || !valueForm.test(value)) return false;
      authority = value;
    } else break;
  }
  if (method === 'CONNECT') {
    if (scheme !== null || path !== null || authority === null) return false;
  } else if (method === null || scheme === null || path === null) {
    return false;
  }
  return areSound(fields, at);
}

/** The status of a response whose header section is well formed; 0 where it is not. */
export function soundStatus(fields: HeaderList): number {
  const text = fields[1] ?? '';
  if (fields[0] !== ':status' || !/^[1-9][0-9]{2}$/.test(text) || text === '101') return 0;
  return areSound(fields, 2) ? Number(text) : 0;
}

/** Framing and routing are not trailers' to tell (RFC 9110 6.5.1): their receiver may go by them. */
export function areSoundTrailers(fields: HeaderList): boolean {
  for (let i = 0; i < fields.length; i += 2) if (fields[i] === 'content-length' || fields[i] === 'host') return false;
  return areSound(fields, 0);
}

/**
 * Bytes of content announced by Content-Length.
 *
 * @returns -1 where there is none; null for one that is no number, or for several: HTTP/1 parsers refuse them even where
 * they agree, or believe one of them (RFC 9110 8.6).
 */
export function contentLength(fields: HeaderList): number | null {
  let length: string | null = null;
  for (let i = 0; i + 1 < fields.length; i += 2) {
    if (fields[i] !== 'content-length') continue;
    const value = fields[i + 1] as string;
    if (!lengthForm.test(value) || length !== null) return null;
    length = value;
  }
  return length === null ? -1 : Number(length);
}
