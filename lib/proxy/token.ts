/** 1 for the bytes that a token is made of: methods, field names (RFC 9110 5.6.2). */
export const tokenChar: Readonly<Uint8Array> = byteSet(
  "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
);

export function byteSet(members: string): Uint8Array {
  const set = new Uint8Array(256);
  for (const c of members) set[c.charCodeAt(0)] = 1;
  return set;
}

export function isTokenChar(byte: number): boolean {
  return tokenChar[byte] === 1;
}
