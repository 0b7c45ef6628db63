import { complement, namedSet, posixSet, union, withinAscii } from './rust-classes.ts';
import {
  depthOf,
  type Fold,
  lazily,
  noNode,
  perl,
  place,
  type RustNode,
  type SetNode,
  set,
  table,
} from './rust-nodes.ts';

/*
 * Regular expressions as Linkerd reads them: the grammar of Rust's crate regex (regex-syntax 0.8, `ast/parse.rs`). What is
 * no expression there is a fault here. So is what cannot be carried over to the engine that matches: operations on classes,
 * classes in classes, the ends of words one by one, properties but categories and scripts.
 */

/** It is no expression, or none that is carried over. */
export class PatternFault extends Error {}

interface RustFlags {
  ignoreCase: boolean;
  lines: boolean;
  dotAll: boolean;
  unicode: boolean;
  spaced: boolean;
  carriage: boolean;
}

/** As deep as Rust goes. */
const deepest = 250;

/** @throws {PatternFault} */
export function parseRust(source: string, ignoreCase: boolean): RustNode {
  return new RustParser(source, ignoreCase).whole();
}

/** White space, of Unicode: not as JavaScript's `\\s` has it. */
const space = /[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/;
/** What may stand behind a backslash for itself. */
const escapable = /^[^0-9A-Za-z<>\u0080-\u{10ffff}]$/u;
const named: Readonly<Record<string, number>> = { a: 7, f: 12, t: 9, n: 10, r: 13, v: 11 };

class RustParser {
  readonly #text: readonly string[];
  readonly #names = new Set<string>();
  #at = 0;
  #depth = 0;
  #flags: RustFlags;

  constructor(source: string, ignoreCase: boolean) {
    if (!source.isWellFormed()) throw new PatternFault('holds half a character');
    this.#text = [...source];
    this.#flags = { ignoreCase, lines: false, dotAll: false, unicode: true, spaced: false, carriage: false };
  }

  whole(): RustNode {
    const node = this.#choice();
    if (!this.#ended) throw new PatternFault('")" closes no group');
    if (depthOf(node) > deepest) throw new PatternFault(`is nested more than ${deepest} deep`);
    return node;
  }

  get #ended(): boolean {
    return this.#at >= this.#text.length;
  }

  #peek(ahead = 0): string {
    return this.#text[this.#at + ahead] ?? '';
  }

  #take(): string {
    if (this.#ended) throw new PatternFault('ends in the middle');
    return this.#text[this.#at++] as string;
  }

  #takes(text: string): boolean {
    const is = this.#text.slice(this.#at, this.#at + text.length).join('') === text;
    if (is) this.#at += text.length;
    return is;
  }

  /** Blanks and comments, where `(?x)` makes them nothing. */
  #skip(): void {
    while (this.#flags.spaced && !this.#ended) {
      if (space.test(this.#peek())) this.#at++;
      else if (this.#peek() === '#') while (!this.#ended && this.#take() !== '\n');
      else return;
    }
  }

  #choice(): RustNode {
    if (++this.#depth > deepest) throw new PatternFault(`is nested more than ${deepest} deep`);
    const choices: RustNode[][] = [[]];
    for (;;) {
      this.#skip();
      const row = choices.at(-1) as RustNode[];
      const next = this.#peek();
      if (this.#ended || next === ')') break;
      if (next === '|') {
        this.#at++;
        choices.push([]);
      } else if ('?*+{'.includes(next)) row.push(this.#repeated(row.pop()));
      else if (next === '(') {
        const group = this.#group();
        row.push(group ?? noNode);
      } else row.push(next === '[' ? this.#set() : this.#single());
    }
    this.#depth--;
    const rows = choices.map((row): RustNode => {
      const parts = row.filter((part) => part !== noNode);
      return parts.length === 1 ? (parts[0] as RustNode) : { kind: 'row', parts };
    });
    return rows.length === 1 ? (rows[0] as RustNode) : { kind: 'choice', parts: rows };
  }

  #repeated(of: RustNode | undefined): RustNode {
    const sign = this.#take();
    if (of === undefined || of === noNode) throw new PatternFault(`nothing stands before "${sign}" to be repeated`);
    let least = sign === '+' ? 1 : 0;
    let most = sign === '?' ? 1 : null;
    if (sign === '{') {
      [least, most] = this.#count();
      this.#skip();
    }
    // Lazily or not: what matches is the same.
    this.#takes('?');
    return { kind: 'repeat', of, least, most };
  }

  #count(): [number, number | null] {
    const least = this.#decimal();
    if (this.#takes('}')) return [least, least];
    if (!this.#takes(',')) throw new PatternFault('a counted repetition is not closed');
    this.#skip();
    if (this.#takes('}')) return [least, null];
    const most = this.#decimal();
    if (!this.#takes('}')) throw new PatternFault('a counted repetition is not closed');
    if (most < least) throw new PatternFault(`{${least},${most}} counts down`);
    return [least, most];
  }

  /** Blanks may stand around it, whatever the flags. */
  #decimal(): number {
    let digits = '';
    while (space.test(this.#peek())) this.#at++;
    for (; /[0-9]/.test(this.#peek()); this.#skip()) digits += this.#take();
    while (space.test(this.#peek())) this.#at++;
    if (digits === '') throw new PatternFault('a counted repetition needs a number');
    const count = Number(digits);
    if (count > 0xffff_ffff) throw new PatternFault(`${digits} is too often`);
    return count;
  }

  /** Null for flags alone. */
  #group(): RustNode | null {
    this.#at++;
    this.#skip();
    const outer = this.#flags;
    this.#flags = { ...outer };
    if (['?=', '?!', '?<=', '?<!'].some((look) => this.#takes(look))) {
      throw new PatternFault('looks ahead or behind');
    }
    if (this.#takes('?P<') || this.#takes('?<')) this.#name();
    else if (this.#takes('?') && this.#readFlags() === ')') return null;
    const of = this.#choice();
    if (!this.#takes(')')) throw new PatternFault('a group is not closed');
    this.#flags = outer;
    return { kind: 'group', of };
  }

  #name(): void {
    let name = '';
    for (let next = this.#take(); next !== '>'; next = this.#take()) name += next;
    if (!/^[A-Za-z_][A-Za-z0-9_.[\]]*$/.test(name)) throw new PatternFault(`"${name}" is no name of a group`);
    if (this.#names.has(name)) throw new PatternFault(`two groups are named "${name}"`);
    this.#names.add(name);
  }

  /** Sets them for what follows. @returns what stands behind them. */
  #readFlags(): ':' | ')' {
    const seen = new Set<string>();
    let value = true;
    for (;;) {
      const flag = this.#take();
      const dangling = seen.size === 0 || this.#text[this.#at - 2] === '-';
      if (flag === ':' || flag === ')') {
        // `(?)` would repeat nothing, and `(?-)` takes nothing back; `(?:` is a group as any other.
        if (dangling && (flag === ')' || !value)) throw new PatternFault('a group has no flags');
        return flag;
      }
      if (seen.has(flag)) throw new PatternFault(`the flag "${flag}" is given twice`);
      seen.add(flag);
      if (flag === '-') value = false;
      else if (flag === 'i') this.#flags.ignoreCase = value;
      else if (flag === 'm') this.#flags.lines = value;
      else if (flag === 's') this.#flags.dotAll = value;
      else if (flag === 'u') this.#flags.unicode = value;
      else if (flag === 'x') this.#flags.spaced = value;
      else if (flag === 'R') this.#flags.carriage = value;
      else if (flag !== 'U') throw new PatternFault(`"${flag}" is no flag`);
    }
  }

  get #fold(): Fold {
    if (!this.#flags.ignoreCase) return 'none';
    return this.#flags.unicode ? 'unicode' : 'ascii';
  }

  #rune(character: string): RustNode {
    return { kind: 'rune', rune: character.codePointAt(0) as number, fold: this.#fold };
  }

  #single(): RustNode {
    const { lines, carriage, dotAll, unicode } = this.#flags;
    const character = this.#take();
    switch (character) {
      case '^':
      case '$':
        if (lines && carriage) throw notCarried('(?mR)');
        if (lines) return place(`(?m:${character})`);
        return place(character === '^' ? '\\A' : '\\z');
      case '.':
        if (!unicode) throw new PatternFault('"." without Unicode matches what is no text');
        return set(dotAll ? [] : carriage ? [10, 10, 13, 13] : [10, 10], true);
      case '\\':
        return this.#escape();
      default:
        return this.#rune(character);
    }
  }

  /** Outside of classes. */
  #escape(): RustNode {
    const next = this.#peek();
    if (next === 'A' || next === 'z') {
      this.#at++;
      return place(`\\${next}`);
    }
    if (next === 'b' || next === 'B') {
      this.#at++;
      const { unicode } = this.#flags;
      if (next === 'b' && /^\{[A-Za-z-]/.test(this.#peek() + this.#peek(1))) throw notCarried('\\b{');
      if (next === 'B' && !unicode) throw notCarried('(?-u:\\B)');
      return { kind: 'place', text: `\\${next}`, words: unicode };
    }
    if (next === '<' || next === '>') throw notCarried(`\\${next}`);
    const escaped = this.#escaped();
    return typeof escaped === 'number' ? this.#rune(String.fromCodePoint(escaped)) : escaped;
  }

  /** Behind a backslash, what may stand in classes as well. */
  #escaped(): number | SetNode {
    const letter = this.#take();
    switch (letter) {
      case 'd':
      case 's':
      case 'w':
        return perl(letter, false, this.#flags.unicode);
      case 'D':
      case 'S':
      case 'W':
        if (!this.#flags.unicode) throw new PatternFault(`"\\${letter}" without Unicode matches what is no text`);
        return perl(letter.toLowerCase() as 'd' | 's' | 'w', true, true);
      case 'p':
      case 'P':
        return this.#property(letter === 'P');
      case 'x':
        return this.#hex(2);
      case 'u':
        return this.#hex(4);
      case 'U':
        return this.#hex(8);
    }
    const control = named[letter];
    if (control !== undefined) return control;
    if (!escapable.test(letter)) throw new PatternFault(`"\\${letter}" is no escape`);
    return letter.codePointAt(0) as number;
  }

  #property(negated: boolean): SetNode {
    const { unicode } = this.#flags;
    if (!unicode) throw new PatternFault('"\\p" needs Unicode');
    let name = this.#take();
    if (name === '{') {
      name = '';
      for (let next = this.#take(); next !== '}'; next = this.#take()) name += next;
    }
    const runes = namedSet(name);
    if (runes === null) throw new PatternFault(`"${name}" is no category or script`);
    if (negated && this.#flags.ignoreCase) throw notCarried('(?i)\\P');
    return { ...table(() => runes, withinAscii(runes), negated), fold: this.#fold };
  }

  #hex(length: number): number {
    let digits = '';
    if (this.#takes('{')) for (let next = this.#take(); next !== '}'; next = this.#take()) digits += next;
    else while (digits.length < length) digits += this.#take();
    const rune = Number.parseInt(digits, 16);
    if (!/^[0-9a-fA-F]+$/.test(digits) || rune > 0x10ffff || (rune >= 0xd800 && rune < 0xe000)) {
      throw new PatternFault(`"${digits}" is no number of a character`);
    }
    if (!this.#flags.unicode && rune > 0x7f) throw new PatternFault('a byte beyond ASCII is no text');
    return rune;
  }

  #set(): RustNode {
    this.#at++;
    this.#skip();
    const negated = this.#takes('^');
    this.#skip();
    const sets: SetNode[] = [];
    const addRune = (rune: number): unknown => sets.push(set([rune, rune], false));
    while (this.#takes('-')) {
      addRune(0x2d);
      this.#skip();
    }
    if (sets.length === 0 && this.#takes(']')) addRune(0x5d);
    for (;;) {
      this.#skip();
      if (this.#takes(']')) break;
      for (const operation of ['&&', '--', '~~']) if (this.#takes(operation)) throw notCarried(operation);
      sets.push(this.#peek() === '[' ? this.#posix() : this.#range());
    }
    const { unicode } = this.#flags;
    if (!unicode && (negated || sets.some(({ ascii }) => (ascii.at(-1) ?? 0) > 0x7f))) {
      throw new PatternFault('a class without Unicode matches what is no text');
    }
    const ascii = union(sets.map(({ ascii }) => ascii));
    const tables = sets.some(({ tables }) => tables);
    const all = tables ? lazily(() => union(sets.map(({ all }) => all()))) : () => ascii;
    return { kind: 'set', all, ascii, tables, negated, fold: this.#fold };
  }

  #posix(): SetNode {
    const [text, not = '', name = ''] = /^\[:(\^?)([a-z]+):\]/.exec(this.#text.slice(this.#at).join('')) ?? [];
    const runes = posixSet(name);
    if (text === undefined || runes === null) throw notCarried('[');
    this.#at += text.length;
    if (not !== '' && !this.#flags.unicode) throw new PatternFault('a class without Unicode matches what is no text');
    return set(not === '' ? runes : complement(runes), false);
  }

  #range(): SetNode {
    const first = this.#item();
    this.#skip();
    if (this.#peek() !== '-' || ['-', ']'].includes(this.#afterSpace(1))) {
      return typeof first === 'number' ? set([first, first], false) : first;
    }
    this.#at++;
    this.#skip();
    const last = this.#item();
    if (typeof first !== 'number' || typeof last !== 'number') {
      throw new PatternFault('a range of a class begins and ends with one character');
    }
    if (first > last) throw new PatternFault('a range of a class runs backwards');
    return set([first, last], false);
  }

  /** What comes behind so many characters, blanks apart. */
  #afterSpace(ahead: number): string {
    const at = this.#at;
    this.#at += ahead;
    this.#skip();
    const next = this.#peek();
    this.#at = at;
    return next;
  }

  #item(): number | SetNode {
    const character = this.#take();
    return character === '\\' ? this.#escaped() : (character.codePointAt(0) as number);
  }
}

function notCarried(text: string): PatternFault {
  return new PatternFault(`Linkerd reads "${text}" there otherwise than RE2`);
}
