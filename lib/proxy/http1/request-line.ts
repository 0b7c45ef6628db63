import { isSoundMethod } from '../../http-message.ts';

/** Of an absolute-form target: what a host and a port usually are, which is less than the grammar permits. */
const authority = /(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?/.source;

/**
 * Origin-form targets, absolute-form ones of HTTP, and `*` for OPTIONS. Anything else (other schemes, odd authorities) is not
 * plain. Bytes beyond ASCII are what many clients send of text; they must be UTF-8, which `readPlainHead` looks at. Method, target and the minor version are captured.
 */
export const requestLine = new RegExp(
  `^([!#$%&'*+.^_\`|~0-9A-Za-z-]+) (/[\\x21-\\x7e\\x80-\\xff]*|(?<=^OPTIONS )\\*|https?://${authority}(?:[/?][\\x21-\\x7e\\x80-\\xff]*)?) HTTP/1\\.([01])\\r\\n`,
);

/** @param line with its CRLF, and with what follows. */
export function isRequestLine(line: string): boolean {
  const match = requestLine.exec(line);
  return match !== null && isPlainMethod(match[1] as string);
}

/** Methods that nobody knows pass here alone: Node's parser refuses them. */
export function isPlainMethod(method: string): boolean {
  return isSoundMethod(method) && method !== 'CONNECT' && method !== 'PRI';
}
