import { dead, type TextMachine } from './automaton.ts';

/** The text as a regular expression that matches nothing else. */
export function quoted(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
}

interface Node {
  readonly next: Map<number, number>;
  word: boolean;
}

/** Texts by their characters; each node has a number. */
export class Trie {
  readonly nodes: Node[] = [{ next: new Map(), word: false }];
  readonly #runes = new Set<number>();

  /** @returns the node at which the word ends. */
  add(word: string): number {
    let at = 0;
    for (const character of word) {
      const rune = character.codePointAt(0) as number;
      this.#runes.add(rune);
      const node = this.nodes[at] as Node;
      let next = node.next.get(rune);
      if (next === undefined) {
        next = this.nodes.push({ next: new Map(), word: false }) - 1;
        node.next.set(rune, next);
      }
      at = next;
    }
    (this.nodes[at] as Node).word = true;
    return at;
  }

  /** Undefined where no word goes on so. */
  next(node: number, rune: number): number | undefined {
    return this.nodes[node]?.next.get(rune);
  }

  isWord(node: number): boolean {
    return this.nodes[node]?.word === true;
  }

  get bounds(): number[] {
    return [...this.#runes].flatMap((rune) => [rune, rune + 1]);
  }
}

/** Exactly these. */
export function wordsMachine(words: readonly string[]): TextMachine {
  const trie = new Trie();
  for (const word of words) trie.add(word);
  return {
    bounds: trie.bounds,
    start: 0,
    step: (node, rune) => trie.next(node, rune) ?? dead,
    holds: (node) => trie.isWord(node),
  };
}
