import { automatonBytes, complement, lastRune, type Runes } from './rust-classes.ts';
import type { Fold, RustNode, SetNode } from './rust-nodes.ts';
import { PatternFault, parseRust } from './rust-syntax.ts';

/*
 * Regular expressions of Linkerd's (Rust's crate regex) for the engine that matches here (RE2). Classes are written out, so
 * that both mean the same characters.
 */

export interface Translated {
  /** For values of ASCII alone, in which classes of Unicode are short. */
  readonly ascii: string;
  /** For all others; null where the same text is, since no class asks a table of Unicode. */
  readonly unicode: (() => string) | null;
  /** It asks where words begin or end, of which the engine knows nothing beyond ASCII. */
  readonly words: boolean;
}

/** As Rust's: a larger automaton is none of its. */
const mostAutomatonBytes = 10 * 1024 * 1024;
/** More than Rust takes for any set that a pattern can spell. */
const largestSet = 100 * 1024;

/** @throws {PatternFault} where it is no expression to Linkerd, or cannot be carried over. */
export function translate(source: string, ignoreCase: boolean): Translated {
  const node = parseRust(source, ignoreCase);
  // Nearly always there are few sets, and nothing to be measured.
  const few = automaton(node, () => largestSet) <= mostAutomatonBytes;
  if (!few && automaton(node, sizeOf) > mostAutomatonBytes) {
    throw new PatternFault('is too large, with its classes and repetitions');
  }
  const unicode = asksTables(node) ? () => written(node, false) : null;
  return { ascii: written(node, true), unicode, words: asksForWords(node) };
}

function asksTables(node: RustNode): boolean {
  return some(node, (leaf) => leaf.kind === 'set' && leaf.tables);
}

function asksForWords(node: RustNode): boolean {
  return some(node, (leaf) => leaf.kind === 'place' && leaf.words);
}

function some(node: RustNode, holds: (leaf: RustNode) => boolean): boolean {
  switch (node.kind) {
    case 'group':
    case 'repeat':
      return some(node.of, holds);
    case 'row':
    case 'choice':
      return node.parts.some((part) => some(part, holds));
    default:
      return holds(node);
  }
}

function written(node: RustNode, ascii: boolean): string {
  switch (node.kind) {
    case 'rune':
      return folded(runeText(node.rune), node.fold, () => [node.rune, node.rune], false);
    case 'set': {
      const runes = ascii ? node.ascii : node.all();
      return folded(classText(runes, node.negated), node.fold, () => runes, node.negated);
    }
    case 'place':
      return node.text;
    case 'group':
      return `(?:${written(node.of, ascii)})`;
    case 'row':
      return node.parts
        .map((part) => (part.kind === 'choice' ? `(?:${written(part, ascii)})` : written(part, ascii)))
        .join('');
    case 'choice':
      return node.parts.map((part) => written(part, ascii)).join('|');
    case 'repeat': {
      const { least, most } = node;
      const times = most === null ? (least === 0 ? '*' : `{${least},}`) : `{${least},${most}}`;
      return `(?:${written(node.of, ascii)})${times}`;
    }
  }
}

function folded(text: string, fold: Fold, runes: () => Runes, negated: boolean): string {
  if (fold === 'none') return text;
  if (fold === 'unicode') return `(?i:${text})`;
  const letters = runes();
  const both: number[] = [...letters];
  for (let i = 0; i < letters.length; i += 2) {
    for (const [from, to, away] of [
      [0x41, 0x5a, 0x20],
      [0x61, 0x7a, -0x20],
    ] as const) {
      const first = Math.max(letters[i] as number, from);
      const last = Math.min(letters[i + 1] as number, to);
      if (first <= last) both.push(first + away, last + away);
    }
  }
  return classText(both, negated);
}

function runeText(rune: number): string {
  const character = String.fromCodePoint(rune);
  return /^[\w/-]$/.test(character) ? character : `\\x{${rune.toString(16)}}`;
}

function classText(runes: Runes, negated: boolean): string {
  // An empty class is none to the engine.
  if (runes.length === 0) return negated ? '(?s:.)' : `[^\\x00-\\x{${lastRune.toString(16)}}]`;
  let text = negated ? '[^' : '[';
  for (let i = 0; i < runes.length; i += 2) {
    const [first, last] = [runes[i] as number, runes[i + 1] as number];
    text += `\\x{${first.toString(16)}}`;
    if (last > first) text += `-\\x{${last.toString(16)}}`;
  }
  return `${text}]`;
}

const sizes = new WeakMap<Runes, { plain?: number; negated?: number }>();

function sizeOf({ all, negated }: SetNode): number {
  const key = negated ? 'negated' : 'plain';
  const runes = all();
  let known = sizes.get(runes);
  if (known === undefined) {
    known = {};
    sizes.set(runes, known);
  }
  known[key] ??= automatonBytes(negated ? complement(runes) : runes);
  return known[key];
}

/** Bytes that Rust's automaton of it takes, about. */
function automaton(node: RustNode, size: (set: SetNode) => number): number {
  switch (node.kind) {
    case 'rune':
      return 32 * Buffer.byteLength(String.fromCodePoint(node.rune));
    case 'set':
      return size(node);
    case 'place':
      return 32;
    case 'group':
      return 64 + automaton(node.of, size);
    case 'row':
    case 'choice':
      return node.parts.reduce((bytes, part) => bytes + automaton(part, size), 0);
    case 'repeat':
      return Math.max(1, node.most ?? node.least) * (automaton(node.of, size) + 16);
  }
}
