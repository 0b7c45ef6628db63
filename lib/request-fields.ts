import { isFramingAlias, trimBlanks } from './http-message.ts';

/*
 * Which fields of a request are what policy decides on and the app gets, and which make it malformed: the same for the data
 * plane, and for `explain`, which has no lane.
 */

/** Flat name, value, name, value … in the order received; names keep their case in HTTP/1. */
export type HeaderList = string[];

/** The header by which the app learns the verified client identity (Linkerd's name). */
export const identityHeader = 'l5d-client-id';

/**
 * Headers of one connection (RFC 9110 7.6.1), never forwarded; malformed in HTTP/2 (RFC 9113 8.2.2). Trailer stays: it describes
 * the message.
 */
export const hopByHop: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
]);

/** What frames a message: no name in Connection makes it this connection's alone. Of a response's fields these only. */
export const framingFields: ReadonlySet<string> = new Set(['content-length', 'transfer-encoding']);

/** A client must not get these dropped, or doubled, by naming them in Connection: framing and routing depend on them. */
const notNominable: ReadonlySet<string> = new Set(['host', ...framingFields, 'trailer', 'te']);

/** The fault of a request that is answered 417 (RFC 9110 10.1.1); all others are answered 400. */
export const unknownExpectation = 'unknown expectation';

/** What one pass over a request's raw headers finds. */
export interface ScannedHead {
  /** Fit to forward: end-to-end headers only, no identity header yet. Host left out; it is set by the caller. */
  readonly forward: HeaderList;
  readonly host: string | null;
  readonly upgrade: string | null;
  readonly contentLength: string | null;
  /** Why the message must be refused; null when it is well formed. */
  readonly fault: string | null;
}

/**
 * Sorts the headers of an HTTP/1 request. Refuses (via `fault`) what two parsers could read differently and Node's
 * parser lets pass: repeated Host (RFC 9112 3.2), codings other than a single `chunked` (RFC 9112 6.1).
 */
export function scanRequestHeaders(raw: readonly string[]): ScannedHead {
  const forward: HeaderList = [];
  let host: string | null = null;
  let upgrade: string | null = null;
  let contentLength: string | null = null;
  let nominated: Set<string> | null = null;
  let connectionLength = 0;
  let fault: string | null = null;
  let codings = 0;
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = raw[i] as string;
    const value = raw[i + 1] as string;
    const lower = name.toLowerCase();
    switch (lower) {
      case 'host':
        if (host !== null) fault = 'more than one Host';
        host = value;
        continue;
      case 'connection':
        connectionLength += value.length;
        if (connectionLength > longestConnection) fault = 'Connection too long';
        else nominated = addNominated(nominated, value, notNominable);
        continue;
      case 'upgrade':
        upgrade = upgrade === null ? value : `${upgrade}, ${value}`;
        continue;
      case 'transfer-encoding':
        if (++codings > 1 || value.toLowerCase() !== 'chunked') fault = 'transfer coding other than one chunked';
        continue;
      case 'content-length':
        if (contentLength !== null) fault = 'more than one Content-Length';
        contentLength = value;
        if (!/^[0-9]+$/.test(value)) fault = 'Content-Length that is no number';
        // Node's parser counts to 2^64; numbers from here on do not (RFC 9112 6.3: anticipate overflow).
        if (!Number.isSafeInteger(Number(value))) fault = 'Content-Length too large';
        break;
      case 'te':
        // `trailers` is the only value that a gateway may pass on (RFC 9110 10.1.4).
        if (value.toLowerCase() !== 'trailers') continue;
        break;
      case 'expect':
        // 100-continue is answered here; anything else is not an expectation that we could meet.
        if (value.toLowerCase() !== '100-continue') fault = unknownExpectation;
        continue;
      case 'trailer': {
        const promised = promisedTrailers(value);
        if (promised !== null) forward.push(name, promised);
        continue;
      }
      default:
        if (isFramingAlias(lower)) fault = 'a second name for a field that frames the message';
        if (hopByHop.has(lower) || isIdentityAlias(lower)) continue;
    }
    forward.push(name, value);
  }
  if (codings > 0 && contentLength !== null) fault = 'both Content-Length and Transfer-Encoding';
  return {
    forward: nominated === null ? forward : dropNamed(forward, nominated),
    host,
    upgrade,
    contentLength,
    fault,
  };
}

/** Characters of all Connection fields of one request: each name in them costs time before anything is decided. */
export const longestConnection = 1024;

export function addNominated(known: Set<string> | null, value: string, kept: ReadonlySet<string>): Set<string> | null {
  // Nearly every Connection header says only this.
  if (value === 'keep-alive' || value === 'close' || value === '') return known;
  const names = known ?? new Set();
  for (const part of value.split(',')) {
    const name = part.trim().toLowerCase();
    if (name !== '' && !kept.has(name)) names.add(name);
  }
  return names;
}

export function dropNamed(list: HeaderList, names: ReadonlySet<string>): HeaderList {
  const kept: HeaderList = [];
  for (let i = 0; i + 1 < list.length; i += 2) {
    if (!names.has((list[i] as string).toLowerCase())) kept.push(list[i] as string, list[i + 1] as string);
  }
  return kept;
}

/**
 * `l5d-client-id` in any spelling that CGI, WSGI or Rack fold onto it: some servers take every character that is no letter
 * or digit for the same one (CVE-2026-54763: underscores, CVE-2026-88011: dots; lighttpd: all). What a client sends under
 * such a name is never forwarded.
 */
export function isIdentityAlias(lower: string): boolean {
  return lower.length === identityHeader.length && /^l5d[^a-z0-9]client[^a-z0-9]id$/.test(lower);
}

/**
 * What a `Trailer` field (RFC 9110 6.6.2) may promise the app: the client's own trailers, and no identity, which never arrives.
 *
 * @returns the value as it was where it names none; null where nothing else is left of it.
 */
export function promisedTrailers(value: string): string | null {
  const names = value.split(',');
  const kept = names.filter((name) => !isIdentityAlias(trimBlanks(name).toLowerCase()));
  if (kept.length === names.length) return value;
  return kept.length === 0 ? null : trimBlanks(kept.join(','));
}

/*
 * What a field section of HTTP/2 may contain (RFC 9113 8.2). HTTP/2 gives names and values their lengths, HTTP/1 line ends:
 * what would end a line or a name there is malformed here, so that it can never get across (GHSA-847f-9342-265h).
 */

const nameForm = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;
/** Visible characters, obs-text, and space or tab between them. */
export const valueForm = /^(?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?$/;

function isSoundField(name: string, value: string): boolean {
  if (!nameForm.test(name) || !valueForm.test(value) || hopByHop.has(name)) return false;
  return name !== 'te' || value.toLowerCase() === 'trailers';
}

/**
 * Why a field may not be in a request, as a sentence; null where it may.
 *
 * @param value without blanks around it.
 */
export function fieldFault(name: string, value: string, http1: boolean): string | null {
  if (!nameForm.test(name)) return `${JSON.stringify(name)} is no name of a field`;
  if (!valueForm.test(value)) return `the value of ${name} holds a control character`;
  if (http1 || isSoundField(name, value)) return null;
  return `HTTP/2 has no field ${name}${name === 'te' ? ' but for "trailers"' : ''}`;
}

/** Whether fields from `from` on are sound, and no pseudo-headers. */
export function areSound(fields: HeaderList, from: number): boolean {
  for (let i = from; i + 1 < fields.length; i += 2) {
    if (!isSoundField(fields[i] as string, fields[i + 1] as string)) return false;
  }
  return true;
}

/** Of Content-Length: more digits than any message has, and few enough for an exact number. */
export const lengthForm = /^[0-9]{1,15}$/;

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

/**
 * How a meshed client carries HTTP/1 over its HTTP/2 connection to us (Linkerd's orig-proto). The app gets the
 * version that the client's application spoke.
 */
export type OriginalProtocol = 'HTTP/1.1' | 'HTTP/1.0';
export const originalProtocolHeader = 'l5d-orig-proto';

/** The fields of a request of HTTP/2, without its pseudo-headers, sorted. */
export interface Http2Fields {
  /** Whom `:authority` or Host names; null where there is neither. */
  readonly name: string | null;
  readonly forward: HeaderList;
  /** Those that rules look at: where the app gets HTTP/1 it gets a Host among them, whichever field has named it here. */
  readonly decided: HeaderList;
  readonly grpc: boolean;
  readonly originalProtocol: OriginalProtocol | null;
}

/**
 * @param raw names in lower case; those before `from` are not looked at.
 * @param authority null where there is none.
 * @returns null where they make the request malformed (RFC 9113 8.1.1).
 */
export function readHttp2Fields(raw: readonly string[], from: number, authority: string | null): Http2Fields | null {
  let host: string | null = null;
  let grpc = false;
  let originalProtocol: OriginalProtocol | null = null;
  const cookies: string[] = [];
  const forward: HeaderList = [];
  for (let i = from; i + 1 < raw.length; i += 2) {
    const name = raw[i] as string;
    const value = raw[i + 1] as string;
    switch (name) {
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
      case 'trailer': {
        const promised = promisedTrailers(value);
        if (promised !== null) forward.push(name, promised);
        continue;
      }
      default:
        if (isFramingAlias(name)) return null;
        if (isIdentityAlias(name)) continue;
    }
    forward.push(name, value);
  }
  if (cookies.length > 0) forward.push('cookie', cookies.join('; '));
  // Two names for one request would let policy and app see different hosts (RFC 9113 8.3.1).
  if (authority !== null && host !== null && authority.toLowerCase() !== host.toLowerCase()) return null;
  const name = authority ?? host;
  const decided = originalProtocol === null || name === null ? forward : [...forward, 'host', name];
  return { name, forward, decided, grpc, originalProtocol };
}
