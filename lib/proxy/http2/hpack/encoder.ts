import { staticEntries, staticTable } from './static-table.ts';

/*
 * Fields to header blocks, RFC 7541, stateless on purpose: the other side's dynamic table is never touched. So the
 * blocks of equal fields are equal bytes and can be kept, and blocks may be made in another order than they are sent.
 * No Huffman coding either: on a way as short as ours, time is dearer than bytes.
 */

/** Never to be indexed, by anybody further on: RFC 7541, 7.1.3. */
const sensitive: ReadonlySet<string> = new Set(['authorization', 'cookie', 'proxy-authorization', 'set-cookie']);

interface NameCode {
  /** What a literal begins with, one character per byte: its form and the name's index. */
  readonly literal: string;
  /** The one byte of a field that is in the static table as a whole, by its value. */
  readonly indexed: ReadonlyMap<string, string>;
}

/** An integer whose first byte has `form` above a prefix of this mask. */
function integer(form: number, mask: number, value: number): string {
  if (value < mask) return String.fromCharCode(form | value);
  let text = String.fromCharCode(form | mask);
  let rest = value - mask;
  while (rest >= 0x80) {
    text += String.fromCharCode((rest & 0x7f) | 0x80);
    rest >>>= 7;
  }
  return text + String.fromCharCode(rest);
}

const withoutIndexing = 0x00;
const neverIndexed = 0x10;
const indexMask = 0x0f;
const lengthMask = 0x7f;

const nameCodes: ReadonlyMap<string, NameCode> = staticNames();

function staticNames(): Map<string, NameCode> {
  const codes = new Map<string, { literal: string; indexed: Map<string, string> }>();
  for (let index = 1; index <= staticEntries; index++) {
    const name = staticTable[2 * index - 2] as string;
    let code = codes.get(name);
    if (code === undefined) {
      const form = sensitive.has(name) ? neverIndexed : withoutIndexing;
      code = { literal: integer(form, indexMask, index), indexed: new Map() };
      codes.set(name, code);
    }
    if (!sensitive.has(name)) code.indexed.set(staticTable[2 * index - 1] as string, String.fromCharCode(0x80 | index));
  }
  return codes;
}

/** The lengths that most strings have. */
const shortLengths: readonly string[] = Array.from({ length: lengthMask }, (_, length) => String.fromCharCode(length));

function lengthCode(text: string): string {
  return shortLengths[text.length] ?? integer(0, lengthMask, text.length);
}

/**
 * One header block for these fields.
 *
 * @param fields flat: name, value, name, value …; names in lower case, each character one byte.
 */
export function encodeFields(fields: readonly string[]): Buffer {
  let block = '';
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const name = fields[i] as string;
    const value = fields[i + 1] as string;
    const code = nameCodes.get(name);
    if (code === undefined) {
      block += `\0${lengthCode(name)}${name}${lengthCode(value)}${value}`;
      continue;
    }
    block += code.indexed.get(value) ?? `${code.literal}${lengthCode(value)}${value}`;
  }
  return Buffer.from(block, 'latin1');
}
