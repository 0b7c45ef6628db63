/*
 * Names come from documents, files, requests and the environment. On a terminal, and in the log of a CI run, none of them may
 * end a line, move the cursor, or turn the reading direction round.
 */

/**
 * C0, DEL, C1, line and paragraph separators, and whatever Unicode calls a format: the marks that reorder text
 * (CVE-2021-42574), and those that cannot be seen, with which two names look alike; and what is no character, which readers
 * of YAML refuse even in a comment.
 */
const unprintable = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Noncharacter_Code_Point}]/gu;

function escaped(character: string): string {
  const known = ['\n', '\r', '\t'].indexOf(character);
  if (known !== -1) return ['\\n', '\\r', '\\t'][known] as string;
  // As JSON has it: each of a pair of surrogates by itself.
  return character.split('').map(escapedUnit).join('');
}

function escapedUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** Text from outside as it may be printed: on one line, with everything else escaped as in JSON. */
export function oneLine(text: string): string {
  return text.replace(unprintable, escaped);
}

/** JSON for programs that a person may read too: what JSON leaves raw is escaped, which changes nothing of its meaning. */
export function jsonText(value: unknown, indent?: number): string {
  return escapedJson(JSON.stringify(value, null, indent));
}

/** JSON that is text already, in one line or several. */
export function escapedJson(text: string): string {
  return text.replace(unprintable, (character) => (character === '\n' ? character : escaped(character)));
}

/**
 * The text in lines of at most `width` columns, those after the first indented by `hang`. Lines end between words alone;
 * a word is also what stands in brackets on a usage line, so that no flag is torn from its value.
 */
export function wrapped(text: string, width: number, hang = 0): string {
  const [, indent = '', rest = ''] = /^( *)(.*)$/s.exec(text) ?? [];
  const lines: string[] = [];
  let line = indent;
  for (const word of rest.match(/\[[^[\]]*\]\S*|\S+/g) ?? []) {
    const isFirst = line.trim() === '';
    if (!isFirst && line.length + 1 + word.length > width) {
      lines.push(line);
      line = ' '.repeat(hang) + word;
    } else {
      line += isFirst ? word : ` ${word}`;
    }
  }
  return [...lines, line].join('\n');
}

/** Characters of a value that are shown of it. */
const mostShown = 100;

/** What was given in place of something else, as messages call it: short, and however deep it is. */
export function valueText(value: unknown): string {
  if (typeof value === 'string') {
    return JSON.stringify(value.length > mostShown ? `${value.slice(0, mostShown)}…` : value);
  }
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}
