import type http from 'node:http';
import { asksToSwitch } from '../../../http-message.ts';
import { type ScannedHead, unknownExpectation } from '../../../request-fields.ts';
import { isHost, readAuthority, type Target } from '../../../request-target.ts';
import type { MessageFault } from '../../http/refuse.ts';

export function messageFaultOf(code: string): MessageFault {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return 'too-long';
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return 'late';
    default:
      return 'malformed';
  }
}

/** A first line that has ended without a version (HTTP/0.9). Node would wait for fields that never come. */
export function isVersionless(bytes: Buffer): boolean {
  return /^[\r\n]*[!-~]+ +[^\s]+ *\r?\n/.test(bytes.toString('latin1', 0, 1024));
}

/**
 * Faults that Node's parser lets pass; null for a sound message.
 *
 * @param target null where it cannot be read.
 */
export function faultOf(
  request: http.IncomingMessage,
  head: ScannedHead,
  target: Target | null,
  maxFields: number,
): string | null {
  if (head.fault !== null) return head.fault;
  // The parser accepts any digit here; only these two have this syntax (RFC 9112 2.3).
  if (request.httpVersion !== '1.1' && request.httpVersion !== '1.0') return 'unsupported HTTP version';
  // What follows them may have been content to whoever passed them on (RFC 9112 6.1).
  if (request.httpVersion === '1.0' && request.headers['transfer-encoding'] !== undefined) return 'chunks in HTTP/1.0';
  if (request.rawHeaders.length > 2 * maxFields) return 'too many header fields';
  // RFC 9112 3.2: required since HTTP/1.1.
  if (head.host === null && request.httpVersion === '1.1') return 'no Host';
  if (head.host !== null && !isHost(head.host)) return 'invalid Host';
  return target === null ? 'invalid request target' : null;
}

/**
 * CONNECT needs authority-form (Linkerd refuses the rest alike). HTTP/1.0 has no rule of which of two names counts: where it
 * has a Host as well, that names the same.
 */
export function connectTarget(request: http.IncomingMessage): Target | null {
  const { host } = request.headers;
  const target = readAuthority(request.url as string);
  if (target === null || request.httpVersion === '1.1' || host === undefined) return target;
  return host.toLowerCase() === target.target.toLowerCase() ? target : null;
}

/** The status line of the refusal, from the code on. */
export function faultStatus(fault: string): '400 Bad Request' | '417 Expectation Failed' {
  return fault === unknownExpectation ? '417 Expectation Failed' : '400 Bad Request';
}

/**
 * A request with a body is served as if it had not asked (RFC 9110 7.8 leaves that to us): nobody could tell where its
 * body ends and the new protocol begins. So is one for `*`, which is about the server as a whole.
 */
export function isUpgrade(request: http.IncomingMessage): boolean {
  const { 'content-length': length = '0', 'transfer-encoding': coding, upgrade = '' } = request.headers;
  if (length !== '0' || coding !== undefined || request.url === '*') return false;
  return request.httpVersion === '1.1' && asksToSwitch(upgrade);
}
