import { dead, type Effort, patternMachine, type TextMachine, TooLarge, type Want } from './automaton.ts';
import { textUnlike } from './values.ts';
import { Trie } from './words.ts';

/*
 * All paths, in classes, by the literal paths of routes: each path that some route has in full, what lies below each prefix
 * but below no longer one, and the two targets that have no path. Within a class regular expressions may tell further.
 */

export type PathClass =
  /** This path alone. */
  | { readonly kind: 'one'; readonly path: string }
  /** `prefix/…`: below it, in no longer prefix of these and none of the paths above. */
  | { readonly kind: 'below'; readonly prefix: string }
  /** `*` of OPTIONS and the authority of CONNECT. */
  | { readonly kind: 'none'; readonly method: 'OPTIONS' | 'CONNECT' };

/** The path as rules compare it. */
export function comparedPath(cls: PathClass): string | null {
  if (cls.kind === 'one') return cls.path;
  return cls.kind === 'none' ? (cls.method === 'OPTIONS' ? '*' : '') : null;
}

export class PathSpace {
  readonly classes: readonly PathClass[];
  readonly #points = new Set<string>();
  readonly #prefixes = new Set<string>(['']);
  #region: { readonly prefix: string; readonly machine: TextMachine } | null = null;
  #trie: { readonly trie: Trie; readonly prefixes: ReadonlyMap<number, string> } | null = null;

  /** @param prefixes without slashes at their ends. */
  constructor(exact: Iterable<string>, prefixes: Iterable<string>) {
    for (const path of exact) this.#points.add(path);
    for (const prefix of prefixes) {
      this.#prefixes.add(prefix);
      this.#points.add(prefix === '' ? '/' : prefix);
    }
    this.#points.add('/');
    this.classes = [
      ...[...this.#points].map((path): PathClass => ({ kind: 'one', path })),
      ...[...this.#prefixes].map((prefix): PathClass => ({ kind: 'below', prefix })),
      { kind: 'none', method: 'OPTIONS' },
      { kind: 'none', method: 'CONNECT' },
    ];
  }

  /** The one that a path is in. */
  has(cls: PathClass, path: string): boolean {
    if (cls.kind === 'none') return comparedPath(cls) === path;
    if (cls.kind === 'one') return cls.path === path;
    return !this.#points.has(path) && path.startsWith('/') && this.#longestAbove(path) === cls.prefix;
  }

  #longestAbove(path: string): string {
    for (let end = path.lastIndexOf('/'); end > 0; end = path.lastIndexOf('/', end - 1)) {
      if (this.#prefixes.has(path.slice(0, end))) return path.slice(0, end);
    }
    return '';
  }

  isPrefix(path: string): boolean {
    return this.#prefixes.has(path);
  }

  /** The longest prefix below which the class lies, itself apart; null for what lies below none. */
  parentOf(cls: PathClass): string | null {
    if (cls.kind === 'none') return null;
    const path = cls.kind === 'one' ? cls.path : cls.prefix;
    return path === '/' || path === '' ? null : this.#longestAbove(path);
  }

  /** The prefixes of these that hold every path of the class, the longest first; `''` is the last of all. */
  above(cls: PathClass): string[] {
    const found: string[] = [];
    if (cls.kind === 'one' && this.#prefixes.has(cls.path)) found.push(cls.path);
    const path = cls.kind === 'below' ? `${cls.prefix}/` : cls.kind === 'one' ? cls.path : '';
    for (let end = path.lastIndexOf('/'); end > 0; end = path.lastIndexOf('/', end - 1)) {
      const prefix = path.slice(0, end);
      if (this.#prefixes.has(prefix)) found.push(prefix);
    }
    found.push('');
    return found;
  }

  /**
   * A path of the class that matches some regular expressions and others not, the plainest that there is; null for none.
   *
   * @throws {TooLarge}
   */
  sample(cls: PathClass, matching: readonly string[], others: readonly string[], effort: Effort): string | null {
    if (cls.kind !== 'below') return comparedPath(cls);
    const wants = matching.map((source): Want => ({ machine: patternMachine(source), holds: true }));
    if (matching.length + others.length === 0) return this.#fresh(cls.prefix);
    const region = { machine: this.#regionOf(cls.prefix), holds: true };
    let tooLarge = false;
    for (const like of shapes) {
      try {
        const path = textUnlike([{ machine: patternMachine(like), holds: true }, region, ...wants], others, effort);
        if (path !== null) return path;
      } catch (error) {
        if (!(error instanceof TooLarge)) throw error;
        tooLarge = true;
      }
    }
    if (tooLarge) throw new TooLarge();
    return null;
  }

  #fresh(prefix: string): string {
    for (let i = 0; ; i++) {
      const path = `${prefix}/${i === 0 ? 'any' : `any${i}`}`;
      if (!this.#points.has(path) && this.#longestAbove(path) === prefix) return path;
    }
  }

  /** Many paths are sought in one class before any in another. */
  #regionOf(prefix: string): TextMachine {
    if (this.#region?.prefix !== prefix) this.#region = { prefix, machine: this.#below(prefix) };
    return this.#region.machine;
  }

  #below(prefix: string): TextMachine {
    this.#trie ??= this.#makeTrie();
    const { trie, prefixes } = this.#trie;
    const points = this.#points;
    const words = new Set<number>();
    // Where the trie is (-1: beyond it), and the longest prefix behind.
    const states: { readonly node: number; readonly above: string }[] = [{ node: 0, above: '' }];
    const numbers = new Map<string, number>([['0 ', 0]]);
    const numberOf = (node: number, above: string): number => {
      const key = `${node} ${above}`;
      let number = numbers.get(key);
      if (number === undefined) {
        number = states.push({ node, above }) - 1;
        numbers.set(key, number);
      }
      return number;
    };
    for (const path of points) words.add(trie.add(path));
    return {
      bounds: [...trie.bounds, 0x2f, 0x30],
      start: 0,
      step(state, rune) {
        const { node, above } = states[state] as { node: number; above: string };
        const behind = rune === 0x2f ? (prefixes.get(node) ?? above) : above;
        const next = node === -1 ? -1 : (trie.next(node, rune) ?? -1);
        // Beyond all that is known no longer prefix comes.
        if (next === -1 && behind !== prefix) return dead;
        return numberOf(next, behind);
      },
      holds: (state) => {
        const { node, above } = states[state] as { node: number; above: string };
        return above === prefix && !words.has(node);
      },
    };
  }

  #makeTrie(): { readonly trie: Trie; readonly prefixes: ReadonlyMap<number, string> } {
    const trie = new Trie();
    const prefixes = new Map<number, string>();
    for (const prefix of this.#prefixes) if (prefix !== '') prefixes.set(trie.add(prefix), prefix);
    for (const path of this.#points) trie.add(path);
    return { trie, prefixes };
  }
}

const segment = "[a-z0-9_~!$&'()*+,=:@.-]*[a-z0-9_~!$&'()*+,=:@-]";
/** Paths that all servers read alike, those that they read alike but for case, and any. */
const shapes = [`(?:/${segment})+`, "/(?:[A-Za-z0-9_~!$&'()*+,=:@-]+/?)*", '/[^\\x00-\\x20\\x7f#?]*'];
