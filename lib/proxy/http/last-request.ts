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
