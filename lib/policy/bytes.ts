/**
 * A document's text as requests carry it: one character per byte of its UTF-8. Requests are compared byte by byte, so
 * that `é` in a rule and the two bytes that a client sends for it are the same.
 */
export function byteText(text: string): string {
  return isAscii(text) ? text : Buffer.from(text, 'utf8').toString('latin1');
}

export function isAscii(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII is meant.
  return /^[\x00-\x7f]*$/.test(text);
}

/** Bytes as the text they are in UTF-8; null where they are not UTF-8. */
export function utf8Text(bytes: string): string | null {
  if (isAscii(bytes)) return bytes;
  const text = Buffer.from(bytes, 'latin1').toString('utf8');
  // What cannot be read becomes U+FFFD, which the bytes may spell as well, beside it or alone.
  return text.includes('\ufffd') && byteText(text) !== bytes ? null : text;
}

/**
 * As `byteText`, where text may hold bytes that are no UTF-8 as U+DC80 to U+DCFF (lone surrogates, which no UTF-8 spells):
 * what a request holds can be written down as text and read again.
 */
export function wireText(text: string): string {
  if (isAscii(text)) return text;
  if (text.isWellFormed()) return byteText(text);
  const bytes: string[] = [];
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    bytes.push(code >= 0xdc80 && code <= 0xdcff ? String.fromCharCode(code - 0xdc00) : byteText(character));
  }
  return bytes.join('');
}

/** Bytes, one character each, as text that `wireText` makes the same bytes of. */
export function textOfBytes(bytes: string): string {
  const text = utf8Text(bytes);
  if (text !== null) return text;
  return bytes.replace(/[\x80-\xff]/g, (byte) => String.fromCharCode(0xdc00 + byte.charCodeAt(0)));
}

/**
 * Bytes that a reader of Latin-1 (Node's header values, among others) takes for the same text; null where it is the same
 * bytes, or Latin-1 cannot spell it.
 */
export function latin1Spelling(text: string): string | null {
  return !isAscii(text) && isLatin1(text) ? text : null;
}

export function isLatin1(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: all of Latin-1 is meant.
  return /^[\x00-\xff]*$/.test(text);
}

const digits = new Int8Array(256).fill(-1);
for (let i = 0; i < 16; i++) {
  digits[i.toString(16).charCodeAt(0)] = i;
  digits[i.toString(16).toUpperCase().charCodeAt(0)] = i;
}

/** The value of a hexadecimal digit by its code; -1 for any other byte. */
export function hexDigit(byte: number): number {
  return digits[byte] ?? -1;
}

/** The byte that `%XX` at a place of `text` stands for; -1 where there is no whole escape. */
export function escapedByte(text: Uint8Array, at: number, end: number): number {
  if (at + 2 >= end || text[at] !== 0x25 /* % */) return -1;
  const high = hexDigit(text[at + 1] as number);
  const low = hexDigit(text[at + 2] as number);
  return high === -1 || low === -1 ? -1 : high * 16 + low;
}
