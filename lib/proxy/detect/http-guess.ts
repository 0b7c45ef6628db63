import { byteSet, tokenChar } from '../token.ts';

/**
 * What the first bytes of a (decrypted) connection say about its protocol. `http/0.9` is a line such as `GET /path`, which
 * is a whole request to some servers (RFC 1945 4.1) and an ordinary line of many other protocols.
 */
export type HttpGuess = 'http/1' | 'http/2' | 'http/0.9' | 'not-http' | 'undecided';

/** The first line of HTTP/2 decides alone: no HTTP/1 server may accept it (RFC 9113 3.4). */
const preface = Buffer.from('PRI * HTTP/2.0', 'latin1');

/** A request line without an end by now goes to the HTTP engine, which knows how to refuse it. */
const maxRequestLine = 8192;

/** What some servers take for the space in a request line (RFC 9112 3). */
const blank = byteSet(' \t\v\f\r');

/** Behind the method: the version, however carelessly it is spelled. */
const version = /[ \t\v\f\r]HTTP\//i;

const CR = 13;
const LF = 10;

/**
 * Decides from a prefix of the stream. The answer never depends on how the bytes were cut into packets: it stays
 * `undecided` until the request line tells. (Linkerd looks at one read only; then packet timing picks the protocol,
 * and with it the policy that applies.)
 *
 * Leading empty lines are skipped as RFC 9112 2.2 lets servers do, so that they cannot turn HTTP into opaque bytes. What
 * only a careless server would take for a request is called HTTP/1, too: the engine refuses it. So is a first line that
 * is too long to tell.
 */
export function guessHttp(stream: Buffer): HttpGuess {
  // What lies beyond must not count: it may be here already, or not yet.
  const bytes = stream.subarray(0, maxRequestLine);
  if (bytes.length > 0) {
    const shared = Math.min(bytes.length, preface.length);
    if (bytes.compare(preface, 0, shared, 0, shared) === 0) {
      return shared === preface.length ? 'http/2' : 'undecided';
    }
  }
  let at = 0;
  const isIn = (set: Readonly<Uint8Array>): boolean => at < bytes.length && set[bytes[at] as number] === 1;
  while (bytes[at] === CR || bytes[at] === LF || isIn(blank)) at++;
  const start = at;
  while (isIn(tokenChar)) at++;
  if (at >= maxRequestLine) return 'http/1';
  if (at === bytes.length) return 'undecided';
  if (at === start || !isIn(blank)) return 'not-http';
  // The method is over; the target and version follow. A line that ends without "HTTP/" is some other text protocol.
  const end = bytes.indexOf(LF, at);
  const line = bytes.subarray(at, end === -1 ? bytes.length : end).toString('latin1');
  if (version.test(line)) return 'http/1';
  if (end !== -1) return line.trimStart().startsWith('/') ? 'http/0.9' : 'not-http';
  return bytes.length >= maxRequestLine ? 'http/1' : 'undecided';
}
