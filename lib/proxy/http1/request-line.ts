import { isSoundMethod } from '../../http-message.ts';

/** Origin-form targets, and `*` for OPTIONS. Anything else (absolute-form, HTTP/1.0, odd bytes) is not plain. */
export const requestLine = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+) (\/[\x21-\x7e]*|(?<=^OPTIONS )\*) HTTP\/1\.1\r\n/;

/** @param line with its CRLF, and with what follows. */
export function isRequestLine(line: string): boolean {
  const match = requestLine.exec(line);
  return match !== null && isPlainMethod(match[1] as string);
}

/** Methods that nobody knows pass here alone: Node's parser refuses them. */
export function isPlainMethod(method: string): boolean {
  return isSoundMethod(method) && method !== 'CONNECT' && method !== 'PRI';
}
