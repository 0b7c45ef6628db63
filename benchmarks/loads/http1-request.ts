/** What an HTTP/1.1 load asks over and over. */
export interface Http1Request {
  readonly method: 'GET' | 'POST';
  /** Beside Host and what the body needs. */
  readonly headers?: readonly string[];
  readonly body?: { readonly framing: 'length' | 'chunked'; readonly bytes: number };
}

export function requestText({ method, headers = [], body }: Http1Request, host: string): string {
  const lines = [`${method} / HTTP/1.1`, `Host: ${host}`, ...headers];
  if (body === undefined) return [...lines, '\r\n'].join('\r\n');
  const content = 'x'.repeat(body.bytes);
  if (body.framing === 'length') return [...lines, `Content-Length: ${body.bytes}`, '', content].join('\r\n');
  const chunks = `${body.bytes.toString(16)}\r\n${content}\r\n0\r\n\r\n`;
  return [...lines, 'Transfer-Encoding: chunked', '', chunks].join('\r\n');
}
