import { isFramingAlias } from '../../http-message.ts';
import type { HeaderChanges } from '../../policy/decision.ts';

/** Flat name, value, name, value … in the order received; names keep their case in HTTP/1. */
export type HeaderList = string[];

/** The header by which the app learns the verified client identity (Linkerd's name). */
export const identityHeader = 'l5d-client-id';

/** Headers of one connection (RFC 9110 7.6.1), never forwarded. Trailer stays: it describes the message. */
const hopByHop: ReadonlySet<string> = new Set([
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

/** What one pass over a request's raw headers finds. */
export interface ScannedHead {
  /** Fit to forward: end-to-end headers only, no identity header yet. Host left out; it is set by the caller. */
  readonly forward: HeaderList;
  readonly host: string | null;
  readonly upgrade: string | null;
  readonly contentLength: string | null;
  /** Why the message must be refused with 400; null when it is well formed. */
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
        contentLength = value;
        // Node's parser counts to 2^64; numbers from here on do not (RFC 9112 6.3: anticipate overflow).
        if (!Number.isSafeInteger(Number(value))) fault = 'Content-Length too large';
        break;
      case 'te':
        // `trailers` is the only value that a gateway may pass on (RFC 9110 10.1.4).
        if (value.toLowerCase() !== 'trailers') continue;
        break;
      case 'expect':
        // 100-continue is answered here; anything else is not an expectation that we could meet.
        if (value.toLowerCase() !== '100-continue') fault = 'unknown expectation';
        continue;
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
const longestConnection = 1024;

function addNominated(known: Set<string> | null, value: string, kept: ReadonlySet<string>): Set<string> | null {
  // Nearly every Connection header says only this.
  if (value === 'keep-alive' || value === 'close' || value === '') return known;
  const names = known ?? new Set();
  for (const part of value.split(',')) {
    const name = part.trim().toLowerCase();
    if (name !== '' && !kept.has(name)) names.add(name);
  }
  return names;
}

function dropNamed(list: HeaderList, names: ReadonlySet<string>): HeaderList {
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

/** A request's trailers for the app: they never become headers that decide anything (RFC 9110 6.5.1). Lower-case names. */
export function withoutIdentity(trailers: HeaderList): HeaderList {
  const kept: HeaderList = [];
  for (let i = 0; i + 1 < trailers.length; i += 2) {
    const name = trailers[i] as string;
    if (!isIdentityAlias(name)) kept.push(name, trailers[i + 1] as string);
  }
  return kept;
}

/** Headers of an app's HTTP/1 response, without those of its connection. */
export function scanResponseHeaders(raw: readonly (string | Buffer)[]): HeaderList {
  const forward: HeaderList = [];
  let nominated: Set<string> | null = null;
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = latin1(raw[i] as string | Buffer);
    const value = latin1(raw[i + 1] as string | Buffer);
    const lower = name.toLowerCase();
    if (lower === 'connection') {
      nominated = addNominated(nominated, value, framingFields);
      continue;
    }
    if (!hopByHop.has(lower)) forward.push(name, value);
  }
  return nominated === null ? forward : dropNamed(forward, nominated);
}

function latin1(text: string | Buffer): string {
  return typeof text === 'string' ? text : text.toString('latin1');
}

/** The first value under a lower-case name; null where absent. */
export function headerValue(list: readonly string[], lower: string): string | null {
  for (let i = 0; i + 1 < list.length; i += 2) {
    const name = list[i] as string;
    if (name.length === lower.length && name.toLowerCase() === lower) return list[i + 1] as string;
  }
  return null;
}

export function headerValues(list: readonly string[], lower: string): string[] {
  const values: string[] = [];
  for (let i = 0; i + 1 < list.length; i += 2) {
    const name = list[i] as string;
    if (name.length === lower.length && name.toLowerCase() === lower) values.push(list[i + 1] as string);
  }
  return values;
}

export function without(list: HeaderList, lower: string): HeaderList {
  return headerValue(list, lower) === null ? list : dropNamed(list, new Set([lower]));
}

/** Framing, connection and identity are never a document's to change. */
const unchangeable: ReadonlySet<string> = new Set([
  ...hopByHop,
  'content-length',
  'expect',
  'te',
  'trailer',
  identityHeader,
]);

/** RequestHeaderModifier in Linkerd's order: add, set, remove. */
export function applyHeaderChanges(list: HeaderList, changes: HeaderChanges): HeaderList {
  let result = list;
  for (const [name, value] of changes.add) {
    if (unchangeable.has(name)) continue;
    // There can be one Host only (RFC 9112 3.2).
    const kept = name === 'host' ? dropNamed(result, new Set([name])) : result;
    result = [...kept, name, value];
  }
  for (const [name, value] of changes.set) {
    if (!unchangeable.has(name)) result = [...dropNamed(result, new Set([name])), name, value];
  }
  const removed = new Set(changes.remove.filter((name) => !unchangeable.has(name) && name !== 'host'));
  return removed.size === 0 ? result : dropNamed(result, removed);
}
