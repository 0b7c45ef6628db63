import { trimBlanks } from '../../http-message.ts';
import type { HeaderList } from '../../request-fields.ts';

/** Lines each ended with CRLF: a token, a colon, and a value of visible characters, obs-text, spaces and tabs (RFC 9110 5). */
export const fieldSection = /^(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*\r\n)*$/;

/**
 * Where the line at `at` ends: at its CRLF, or with the text where it has none. Behind it and two more bytes the next one
 * begins, so that who goes from line to line comes to an end whatever the text is.
 */
export function endOfLine(lines: string, at: number): number {
  const end = lines.indexOf('\r\n', at);
  return end === -1 ? lines.length : end;
}

/** CRLF-ended lines as a flat list of names and values. */
export function fieldPairs(lines: string): HeaderList {
  const list: HeaderList = [];
  for (let at = 0; at < lines.length; ) {
    const end = endOfLine(lines, at);
    const colon = lines.indexOf(':', at);
    list.push(lines.slice(at, colon), trimBlanks(lines.slice(colon + 1, end)));
    at = end + 2;
  }
  return list;
}

export function fieldLines(list: HeaderList): string {
  let lines = '';
  for (let i = 0; i + 1 < list.length; i += 2) lines += `${list[i]}: ${list[i + 1]}\r\n`;
  return lines;
}

/** Every value of a field in CRLF-ended lines, by lower-case name. */
export function fieldValues(lines: string, name: string): string[] {
  const values: string[] = [];
  for (let at = 0; at < lines.length; ) {
    const end = endOfLine(lines, at);
    const colon = at + name.length;
    if (lines.charCodeAt(colon) === 0x3a /* : */ && lines.slice(at, colon).toLowerCase() === name) {
      values.push(trimBlanks(lines.slice(colon + 1, end)));
    }
    at = end + 2;
  }
  return values;
}

/** Of CRLF-ended lines those whose lower-case names are to be kept. */
export function linesWhere(lines: string, keeps: (name: string) => boolean): string {
  let kept = '';
  for (let at = 0; at < lines.length; ) {
    const end = endOfLine(lines, at) + 2;
    if (keeps(lines.slice(at, lines.indexOf(':', at)).toLowerCase())) kept += lines.slice(at, end);
    at = end;
  }
  return kept;
}
