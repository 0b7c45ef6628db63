import { createRequire } from 'node:module';

/*
 * Lines on which a quoted text or a flow collection goes on. kubectl's reader takes them at any column. YAML 1.2 (section
 * 6.1) and the library want them deeper than the key before, and refuse the text. Blanks at the front of such a line mean
 * nothing, so the line is moved to where both read the same.
 */

/** A text with blanks put before some of its lines. */
export interface IndentedText {
  readonly text: string;
  /** Blanks that were put before each line. */
  readonly blanks: readonly number[];
  /** Where a character of `text` stands in the text as it was. Of an added blank: where its line begins. */
  original(offset: number): number;
}

/** Characters that are read again and blanks that are added, for each character: the time grows with the length alone. */
const mostWork = 100;
const mostGrowth = 4;
/** What a short text may take beyond that. */
const always = 4_000_000;

/** The text with its continued lines moved to the right; null where none has to be moved, or not all of them can be. */
export function indentContinued(text: string): IndentedText | null {
  const lines = text.split('\n');
  const blanks = new Array<number>(lines.length).fill(0);
  let room = text.length * mostGrowth + always / mostWork;
  let work = text.length * mostWork + always;
  for (const { from, to } of documentsIn(lines)) {
    for (;;) {
      const document = moved(lines, blanks, from, to);
      work -= document.length;
      const found = deficientIn(document);
      if (found === 'none') break;
      if (found === 'unclosed' || work < 0) return null;
      const { first, last, column } = found;
      room -= column * (last - first + 1);
      if (room < 0) return null;
      for (let line = from + first; line <= from + last; line++) blanks[line] = (blanks[line] as number) + column;
    }
  }
  if (blanks.every((count) => count === 0)) return null;
  return { text: moved(lines, blanks, 0, lines.length), blanks, original: originals(lines, blanks) };
}

/** Lines of a document each, as kubectl cuts them. */
function* documentsIn(lines: readonly string[]): Generator<{ readonly from: number; readonly to: number }> {
  let from = 0;
  for (let to = 1; to <= lines.length; to++) {
    if (to < lines.length && !lines[to]?.startsWith('---')) continue;
    yield { from, to };
    from = to;
  }
}

function moved(lines: readonly string[], blanks: readonly number[], from: number, to: number): string {
  return lines
    .slice(from, to)
    .map((line, i) => ' '.repeat(blanks[from + i] as number) + line)
    .join('\n');
}

function originals(lines: readonly string[], blanks: readonly number[]): (offset: number) => number {
  const starts: number[] = [];
  const starts0: number[] = [];
  for (let line = 0, at = 0, at0 = 0; line < lines.length; line++) {
    starts.push(at);
    starts0.push(at0);
    const length = (lines[line] as string).length + 1;
    at += length + (blanks[line] as number);
    at0 += length;
  }
  return (offset) => {
    let low = 0;
    for (let high = starts.length - 1; low < high; ) {
      const middle = (low + high + 1) >>> 1;
      if ((starts[middle] as number) <= offset) low = middle;
      else high = middle - 1;
    }
    const column = offset - (starts[low] as number) - (blanks[low] as number);
    return (starts0[low] as number) + Math.max(0, column);
  };
}

/** Lines of a document that go on with what began on the line before `first`, in `column`, and stand too far to the left. */
interface Continued {
  readonly first: number;
  readonly last: number;
  readonly column: number;
}

/** Marks of the library's lexer (its CST), which stand for no character of the text. */
const marks: ReadonlySet<string> = new Set(['\u0002', '\u0018', '\u001f']);
const brokenFlow = '\u0018';

/**
 * What the library's lexer breaks off for want of columns: the first of a document, since behind it the lexer is astray.
 * `unclosed`: it never ends, wherever its lines stand.
 */
function deficientIn(text: string): Continued | 'none' | 'unclosed' {
  const { Lexer } = createRequire(import.meta.url)('yaml') as typeof import('yaml');
  let at = 0;
  let flow = { level: 0, start: 0 };
  for (const token of new Lexer().lex(text)) {
    if (token === brokenFlow) return continuedFrom(text, flow.start);
    if (marks.has(token)) continue;
    if (token === '[' || token === '{') flow = { level: flow.level + 1, start: flow.level === 0 ? at : flow.start };
    else if ((token === ']' || token === '}') && flow.level > 0) flow = { ...flow, level: flow.level - 1 };
    else if (/^["']/.test(token) && quotedEnd(text, at) !== at + token.length) return continuedFrom(text, at);
    at += token.length;
  }
  return 'none';
}

function continuedFrom(text: string, start: number): Continued | 'unclosed' {
  const end = /["']/.test(text.charAt(start)) ? quotedEnd(text, start) : flowEnd(text, start);
  if (end === -1) return 'unclosed';
  const part = text.slice(start, end);
  // What begins a document or ends one does so within quotes, too (section 9.1.2).
  if (/\n(?:---|\.\.\.)(?:\s|$)/.test(part)) return 'unclosed';
  const first = text.slice(0, start).split('\n').length;
  const last = first + part.split('\n').length - 2;
  const column = start - text.lastIndexOf('\n', start - 1);
  return last < first ? 'unclosed' : { first, last, column };
}

/** Behind the quote that ends the text whose first quote stands at `start`; -1 where there is none. */
function quotedEnd(text: string, start: number): number {
  const quote = text.charAt(start);
  for (let at = start + 1; at < text.length; at++) {
    const character = text.charAt(at);
    if (quote === '"' && character === '\\') at++;
    else if (character === quote) {
      if (quote === '"' || text.charAt(at + 1) !== quote) return at + 1;
      at++;
    }
  }
  return -1;
}

/** Behind the bracket that ends the flow collection whose first stands at `start`; -1 where there is none. */
function flowEnd(text: string, start: number): number {
  let level = 0;
  /** Within a text without quotes a quote is a character like any. */
  let isPlain = false;
  for (let at = start; at < text.length; at++) {
    const character = text.charAt(at);
    const isBehindBlank = /\s/.test(text.charAt(at - 1));
    if (character === '[' || character === '{') {
      level++;
      isPlain = false;
    } else if (character === ']' || character === '}') {
      level--;
      isPlain = false;
      if (level === 0) return at + 1;
    } else if (character === ',' || (character === ':' && /[\s,[\]{}]/.test(text.charAt(at + 1)))) isPlain = false;
    else if (character === '#' && isBehindBlank) {
      const line = text.indexOf('\n', at);
      if (line === -1) return -1;
      at = line;
    } else if (!isPlain && (character === '"' || character === "'")) {
      const behind = quotedEnd(text, at);
      if (behind === -1) return -1;
      // A colon next to a key in quotes ends it (section 7.4.2).
      at = text.charAt(behind) === ':' ? behind : behind - 1;
    } else if (!/\s/.test(character)) isPlain = true;
  }
  return -1;
}
