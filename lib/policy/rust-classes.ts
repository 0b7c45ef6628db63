import { categories, type NamedRanges, perlClasses, scripts } from './rust-tables.ts';

/*
 * Sets of characters, as Rust's crate regex has them. A set is its ranges: first and last of each in turn, ascending, with
 * something between one and the next.
 */

export type Runes = readonly number[];

export const lastRune = 0x10ffff;

export function union(sets: readonly Runes[]): Runes {
  const pairs: [number, number][] = [];
  for (const set of sets) for (let i = 0; i < set.length; i += 2) pairs.push([set[i] as number, set[i + 1] as number]);
  pairs.sort(([a], [b]) => a - b);
  const joined: number[] = [];
  for (const [first, last] of pairs) {
    const end = joined.at(-1) ?? -2;
    if (first > end + 1) joined.push(first, last);
    else if (last > end) joined[joined.length - 1] = last;
  }
  return joined;
}

export function complement(set: Runes): Runes {
  const others: number[] = [];
  let next = 0;
  for (let i = 0; i < set.length; i += 2) {
    if ((set[i] as number) > next) others.push(next, (set[i] as number) - 1);
    next = (set[i + 1] as number) + 1;
  }
  if (next <= lastRune) others.push(next, lastRune);
  return others;
}

export function withinAscii(set: Runes): Runes {
  const within: number[] = [];
  for (let i = 0; i < set.length && (set[i] as number) < 0x80; i += 2) {
    within.push(set[i] as number, Math.min(set[i + 1] as number, 0x7f));
  }
  return within;
}

const perlSets = new Map<string, Runes>();

/** `d`, `s` or `w`, of all of Unicode. */
export function perlSet(name: 'd' | 's' | 'w'): Runes {
  let set = perlSets.get(name);
  if (set === undefined) {
    set = unpacked(perlClasses[name]);
    perlSets.set(name, set);
  }
  return set;
}

/** What of them is ASCII. */
export function asciiPerlSet(name: 'd' | 's' | 'w'): Runes {
  return name === 'd'
    ? [0x30, 0x39]
    : name === 's'
      ? [9, 13, 0x20, 0x20]
      : [0x30, 0x39, 0x41, 0x5a, 0x5f, 0x5f, 0x61, 0x7a];
}

const named = new Map<string, Runes | null>();

/** What `\p{…}` names: a general category or a script; null for any other name. */
export function namedSet(written: string): Runes | null {
  let set = named.get(written);
  if (set === undefined) {
    set = readNamed(written);
    named.set(written, set);
  }
  return set;
}

function readNamed(written: string): Runes | null {
  const [, kind, name = ''] = /^(?:([^=:]*)[=:])?([^=:]*)$/.exec(written.toLowerCase().replace(/[ _-]/g, '')) ?? [];
  const within = (tables: readonly NamedRanges[]): Runes | null => {
    const found = tables.find(([names]) => names.split(' ').includes(name));
    return found === undefined ? null : unpacked(found[1]);
  };
  switch (kind) {
    case undefined:
      return special(name) ?? within(categories) ?? within(scripts);
    case 'gc':
    case 'generalcategory':
      return special(name) ?? within(categories);
    case 'sc':
    case 'script':
      return within(scripts);
    default:
      return null;
  }
}

function special(name: string): Runes | null {
  if (name === 'any') return [0, lastRune];
  if (name === 'ascii') return [0, 0x7f];
  const unassigned = name === 'assigned' ? namedSet('cn') : null;
  return unassigned === null ? null : complement(unassigned);
}

function unpacked(text: string): Runes {
  const set: number[] = [];
  let end = 0;
  for (const word of text.split(' ')) {
    const [from = '', length = '0'] = word.split('+');
    const first = end + Number.parseInt(from, 36);
    end = first + Number.parseInt(length, 36);
    set.push(first, end);
  }
  return set;
}

/** POSIX classes (`[:alpha:]`), of ASCII alone. */
const posix: Readonly<Record<string, string>> = {
  alnum: '09AZaz',
  alpha: 'AZaz',
  ascii: '\0\x7f',
  blank: '\t\t  ',
  cntrl: '\0\x1f\x7f\x7f',
  digit: '09',
  graph: '!~',
  lower: 'az',
  print: ' ~',
  punct: '!/:@[`{~',
  space: '\t\r  ',
  upper: 'AZ',
  word: '09AZ__az',
  xdigit: '09AFaf',
};

export function posixSet(name: string): Runes | null {
  if (!Object.hasOwn(posix, name)) return null;
  return [...(posix[name] as string)].map((character) => character.charCodeAt(0));
}

/**
 * Bytes that Rust takes for a set, each time that it occurs: the larger of its automata, which reads backwards, has a state
 * for each way in which characters begin in UTF-8.
 */
export function automatonBytes(set: Runes): number {
  const beginnings = new Set<string>();
  let sequences = 0;
  for (const sequence of utf8Sequences(set)) {
    sequences++;
    let beginning = '';
    for (const [first, last] of sequence) {
      beginning += `${first}-${last} `;
      beginnings.add(beginning);
    }
  }
  return 32 * beginnings.size + 4 * sequences + 164;
}

type ByteRange = readonly [first: number, last: number];

/** Each range of characters as sequences of ranges of bytes. */
function* utf8Sequences(set: Runes): Generator<ByteRange[]> {
  for (let i = 0; i < set.length; i += 2) yield* sequencesOf(set[i] as number, set[i + 1] as number);
}

const lastOfLength = [0x7f, 0x7ff, 0xffff, lastRune];

function* sequencesOf(first: number, last: number): Generator<ByteRange[]> {
  for (const bound of [...lastOfLength, 0xd7ff]) {
    if (first <= bound && last > bound) {
      yield* sequencesOf(first, bound);
      yield* sequencesOf(bound === 0xd7ff ? 0xe000 : bound + 1, last);
      return;
    }
  }
  if (first > last) return;
  const length = lastOfLength.findIndex((bound) => last <= bound) + 1;
  for (let i = 1; i < length; i++) {
    const mask = (1 << (6 * i)) - 1;
    if (first >>> (6 * i) === last >>> (6 * i)) continue;
    if ((first & mask) !== 0) {
      yield* sequencesOf(first, first | mask);
      yield* sequencesOf((first | mask) + 1, last);
      return;
    }
    if ((last & mask) !== mask) {
      yield* sequencesOf(first, (last & ~mask) - 1);
      yield* sequencesOf(last & ~mask, last);
      return;
    }
  }
  const firsts = utf8(first, length);
  const lasts = utf8(last, length);
  yield firsts.map((byte, i): ByteRange => [byte, lasts[i] as number]);
}

function utf8(rune: number, length: number): number[] {
  if (length === 1) return [rune];
  const bytes = Array.from({ length: length - 1 }, (_, i) => 0x80 | ((rune >>> (6 * i)) & 0x3f));
  bytes.push(([0, 0, 0xc0, 0xe0, 0xf0][length] as number) | (rune >>> (6 * (length - 1))));
  return bytes.reverse();
}
