import { asciiPerlSet, complement, perlSet, type Runes, withinAscii } from './rust-classes.ts';

/** A regular expression of Linkerd's as a tree: see `rust-syntax.ts`. */
export type RustNode =
  | { readonly kind: 'rune'; readonly rune: number; readonly fold: Fold }
  | SetNode
  /** Text that the engine takes as it is. `words`: between words and others, of all of Unicode. */
  | { readonly kind: 'place'; readonly text: string; readonly words: boolean }
  | { readonly kind: 'group'; readonly of: RustNode }
  | { readonly kind: 'row'; readonly parts: readonly RustNode[] }
  | { readonly kind: 'choice'; readonly parts: readonly RustNode[] }
  | { readonly kind: 'repeat'; readonly of: RustNode; readonly least: number; readonly most: number | null };

export interface SetNode {
  readonly kind: 'set';
  /** All characters: large where a table is asked, and needed for little. */
  readonly all: () => Runes;
  /** What is left of them where values are ASCII; as good as all where no table is asked. */
  readonly ascii: Runes;
  /** It asks a table, so that the two differ. */
  readonly tables: boolean;
  readonly negated: boolean;
  readonly fold: Fold;
}

/** Whether case is no matter, by Unicode or among ASCII letters alone (`(?i-u)`). */
export type Fold = 'none' | 'unicode' | 'ascii';

/** As Rust counts: what holds others, and what stands in brackets. */
export function depthOf(node: RustNode): number {
  switch (node.kind) {
    case 'rune':
    case 'place':
      return 0;
    case 'set':
      return 1;
    case 'group':
    case 'repeat':
      return 1 + depthOf(node.of);
    case 'row':
    case 'choice':
      return Math.min(1, node.parts.length) + Math.max(0, ...node.parts.map(depthOf));
  }
}

export const noNode: RustNode = { kind: 'row', parts: [] };

export function place(text: string): RustNode {
  return { kind: 'place', text, words: false };
}

export function set(runes: Runes, negated: boolean): SetNode {
  return { kind: 'set', all: () => runes, ascii: runes, tables: false, negated, fold: 'none' };
}

export function perl(name: 'd' | 's' | 'w', negated: boolean, unicode: boolean): SetNode {
  return unicode ? table(() => perlSet(name), asciiPerlSet(name), negated) : set(asciiPerlSet(name), false);
}

/** Negated it is one more set, as a part of others. @param ascii what of it is ASCII. */
export function table(runes: () => Runes, ascii: Runes, negated: boolean): SetNode {
  const parts = { kind: 'set', tables: true, negated: false, fold: 'none' } as const;
  if (!negated) return { ...parts, all: runes, ascii };
  return { ...parts, all: lazily(() => complement(runes())), ascii: withinAscii(complement(ascii)) };
}

export function lazily<T>(make: () => T): () => T {
  let made: { readonly it: T } | null = null;
  return () => {
    made ??= { it: make() };
    return made.it;
  };
}
