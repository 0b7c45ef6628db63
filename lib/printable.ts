/*
 * Names come from documents, files, requests and the environment. On a terminal, and in the log of a CI run, none of them may
 * end a line, move the cursor, or turn the reading direction round.
 */

/** C0, DEL, C1, line and paragraph separators, and the marks that reorder text (CVE-2021-42574). */
const unprintable = /[\p{Cc}\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

function escaped(character: string): string {
  const known = ['\n', '\r', '\t'].indexOf(character);
  return known === -1
    ? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
    : (['\\n', '\\r', '\\t'][known] as string);
}

/** Text from outside as it may be printed: on one line, with everything else escaped as in JSON. */
export function oneLine(text: string): string {
  return text.replace(unprintable, escaped);
}

/** JSON for programs that a person may read too: what JSON leaves raw is escaped, which changes nothing of its meaning. */
export function jsonText(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replace(unprintable, (character) =>
    character === '\n' ? character : escaped(character),
  );
}
