/** What the first bytes of a (decrypted) connection say about its protocol. */
export type HttpGuess = 'http/1' | 'http/2' | 'not-http' | 'undecided';

const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1');

/** A request line without an end by now goes to the HTTP engine, which knows how to refuse it. */
const maxRequestLine = 8192;

/** RFC 9110 5.6.2 token characters. */
const tokenChar = new Uint8Array(256);
for (const c of "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
  tokenChar[c.charCodeAt(0)] = 1;
}
const CR = 13;
const LF = 10;
const SP = 32;

/**
 * Decides from a prefix of the stream. The answer never depends on how the bytes were cut into packets: it stays
 * `undecided` until the request line tells. (Linkerd looks at one read only; then packet timing picks the protocol,
 * and with it the policy that applies.)
 *
 * Leading empty lines are skipped as RFC 9112 2.2 lets servers do, so that they cannot turn HTTP into opaque bytes.
 */
export function guessHttp(bytes: Buffer): HttpGuess {
  let at = 0;
  while (at < bytes.length && (bytes[at] === CR || bytes[at] === LF)) at++;
  if (at >= maxRequestLine) return 'not-http';
  if (at === 0 && bytes.length > 0) {
    const shared = Math.min(bytes.length, preface.length);
    if (bytes.compare(preface, 0, shared, 0, shared) === 0) {
      // "PRI * HTTP/2.0" alone decides: no HTTP/1 server may accept it (RFC 9113 3.4).
      return shared >= 14 ? 'http/2' : 'undecided';
    }
  }
  const start = at;
  while (at < bytes.length && tokenChar[bytes[at] as number] === 1) at++;
  if (at === bytes.length) return at - start > 64 ? 'not-http' : 'undecided';
  if (at === start || bytes[at] !== SP) return 'not-http';
  // The method is over; the target and version follow. A line that ends without "HTTP/" is some other text protocol.
  const line = bytes.indexOf(LF, at);
  const text = bytes.subarray(at, line === -1 ? bytes.length : line).toString('latin1');
  if (/ +HTTP\//.test(text.slice(1))) return 'http/1';
  if (line !== -1) return 'not-http';
  return bytes.length - start >= maxRequestLine ? 'http/1' : 'undecided';
}
