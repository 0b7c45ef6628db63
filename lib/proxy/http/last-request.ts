/** Methods whose requests are about their content, so that an app reads it. */
const aboutContent: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH']);

/**
 * Whether a request is the last on its connection to the app, and tells it so with `Connection: close`.
 *
 * Content that a method does not call for (RFC 9110 9.3.1) is left unread by many a handler, and some servers, Python's
 * http.server among them, would then read it as the next request: undecided, and with an identity of the client's own
 * making. In response to HEAD some send content all the same; it would be taken for the beginning of the next response. The
 * fast lane of HTTP/1 can keep such a connection for the client that has asked, where nobody else gets what it says next.
 */
export function isLastRequest(method: string, hasContent: boolean): boolean {
  return method === 'HEAD' || (hasContent && !aboutContent.has(method));
}

/** Whether a connection to an HTTP/1 app may carry another request behind this one's response. */
export type Reuse =
  | 'never'
  /** HTTP/1.0: the app must have said that it stays (RFC 9112 9.3). */
  | 'where the app says so'
  /** HTTP/1.1: the app need not say anything. */
  | 'unless the app says no';

/** In which version of HTTP/1 a request goes to the app, and what is said there of its connection. */
export interface AppHop {
  readonly version: 'HTTP/1.1' | 'HTTP/1.0';
  readonly reuse: Reuse;
  /** Of our connection to the app; ended with CRLF, empty where nothing is said. */
  readonly connectionLine: string;
}

const close = 'connection: close\r\n';
const kept: AppHop = { version: 'HTTP/1.1', reuse: 'unless the app says no', connectionLine: '' };
const last: AppHop = { version: 'HTTP/1.1', reuse: 'never', connectionLine: close };
const oldKept: AppHop = {
  version: 'HTTP/1.0',
  reuse: 'where the app says so',
  connectionLine: 'connection: keep-alive\r\n',
};
const oldLast: AppHop = { version: 'HTTP/1.0', reuse: 'never', connectionLine: close };
const bare: AppHop = { version: 'HTTP/1.0', reuse: 'never', connectionLine: '' };

/**
 * HTTP/1.0 goes on as it came, with no field invented. A connection has its own Connection field (RFC 9110 7.6.1), so ours
 * stands in the place of the client's; a client that sent none is content with one response, and so is its request.
 *
 * @param saysConnection the client sent a Connection field. Of HTTP/1.0 alone.
 */
export function appHop(version: string, saysConnection: boolean, isLast: boolean): AppHop {
  if (version !== 'HTTP/1.0') return isLast ? last : kept;
  if (!saysConnection) return bare;
  return isLast ? oldLast : oldKept;
}
