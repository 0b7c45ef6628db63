import { push } from '../policy/lists.ts';
import type { HostClass, Leaf } from './leaves.ts';
import { pathKey } from './path-texts.ts';
import { type Test, testKey } from './tests.ts';

export interface MergedLeaf {
  readonly leaf: Leaf;
  /** By key, whether it holds. */
  readonly tests: MergedTests;
}

export type MergedTests = ReadonlyMap<string, readonly [test: Test, holds: boolean]>;

/** Tests of the leaves of one place that are looked at, in all: a second or so. Beyond it they stay as they are: more rows that say the same. */
const mostTests = 2_000_000;

/** Two leaves that only one test sets apart are one without it; no others than those of one host and path are. */
export function mergedLeaves(leaves: readonly Leaf[], hostText: (host: HostClass) => string): MergedLeaf[] {
  const places = new Map<string, Leaf[]>();
  for (const leaf of leaves) push(places, JSON.stringify([hostText(leaf.host), pathKey(leaf.path)]), leaf);
  return [...places.values()].flatMap((alike) => {
    const all = alike.map(withTests);
    return all.length === 1 ? all : new Merging().of(all);
  });
}

const noTests: MergedTests = new Map();

function withTests(leaf: Leaf): MergedLeaf {
  const { holding, failing } = leaf;
  if (holding.length + failing.length === 0) return { leaf, tests: noTests };
  const all = [...holding.map((test) => [test, true] as const), ...failing.map((test) => [test, false] as const)];
  // Clients are told by their names elsewhere, and calls by their protocol.
  const told = all.filter(([{ kind }]) => kind !== 'identity' && kind !== 'grpc');
  return { leaf, tests: new Map(told.map((pair) => [testKey(pair[0]), pair])) };
}

/**
 * A set of tests has a number that is the sum of those of its tests, so that the set without one of them is a subtraction away:
 * a thousand routes that ask for a value each make leaves of up to a thousand tests.
 */
class Merging {
  readonly #numbers = new Map<string, Numbers>();
  /** By the number of their tests. */
  readonly #kept = new Map<number, MergedLeaf>();
  /** By the number of all their tests but one, and of which one that is. */
  readonly #partners = new Map<number, { readonly sum: number; readonly each: MergedLeaf }>();
  #left = mostTests;

  /** @param leaves of one host and path. */
  of(leaves: readonly MergedLeaf[]): MergedLeaf[] {
    for (const each of leaves) this.#keep(this.#sum(each), each);
    let round = [...this.#kept];
    while (round.length > 0) {
      const joined: [number, MergedLeaf][] = [];
      for (const [sum, each] of round) {
        this.#left -= each.tests.size;
        if (this.#left < 0) return [...this.#kept.values()];
        if (this.#kept.get(sum) !== each) continue;
        const found = this.#join(sum, each);
        if (found !== null) joined.push(found);
      }
      round = joined;
    }
    return [...this.#kept.values()];
  }

  #join(sum: number, each: MergedLeaf): [number, MergedLeaf] | null {
    for (const [key, [, holds]] of each.tests) {
      const numbers = this.#of(key);
      const rest = minus(sum, holds ? numbers.holds : numbers.fails);
      const place = plus(rest, numbers.place);
      const other = this.#partners.get(place);
      if (other === undefined || this.#kept.get(other.sum) !== other.each || !differ(each, other.each, key)) {
        this.#partners.set(place, { sum, each });
        continue;
      }
      const tests = new Map(each.tests);
      tests.delete(key);
      this.#kept.delete(sum);
      this.#kept.delete(other.sum);
      const joined = { leaf: each.leaf, tests };
      return [this.#keep(rest, joined), joined];
    }
    return null;
  }

  /** @returns under which number: that of other tests, which is next to impossible, must not replace them. */
  #keep(sum: number, each: MergedLeaf): number {
    let at = sum;
    for (let there = this.#kept.get(at); there !== undefined && !alike(there, each); there = this.#kept.get(at)) {
      at = plus(at, 1);
    }
    this.#kept.set(at, each);
    return at;
  }

  #sum({ tests }: MergedLeaf): number {
    let sum = 0;
    for (const [key, [, holds]] of tests) sum = plus(sum, holds ? this.#of(key).holds : this.#of(key).fails);
    return sum;
  }

  #of(key: string): Numbers {
    const known = this.#numbers.get(key);
    if (known !== undefined) return known;
    const at = 3 * this.#numbers.size;
    const made = { holds: scattered(at), fails: scattered(at + 1), place: scattered(at + 2) };
    this.#numbers.set(key, made);
    return made;
  }
}

interface Numbers {
  readonly holds: number;
  readonly fails: number;
  readonly place: number;
}

function alike(a: MergedLeaf, b: MergedLeaf): boolean {
  return a.tests.size === b.tests.size && [...a.tests].every(([key, [, holds]]) => b.tests.get(key)?.[1] === holds);
}

/** Whether that one test is all that sets them apart. */
function differ(a: MergedLeaf, b: MergedLeaf, key: string): boolean {
  if (a.tests.size !== b.tests.size) return false;
  for (const [each, [, holds]] of a.tests) {
    const other = b.tests.get(each);
    if (other === undefined || (other[1] === holds) === (each === key)) return false;
  }
  return true;
}

const modulus = 2 ** 52;

function plus(a: number, b: number): number {
  const sum = a + b;
  return sum >= modulus ? sum - modulus : sum;
}

function minus(a: number, b: number): number {
  return a >= b ? a - b : a - b + modulus;
}

/** Of small numbers in turn, numbers of 52 bits that have nothing to do with each other. */
function scattered(index: number): number {
  return mixed(2 * index) * 2 ** 20 + (mixed(2 * index + 1) >>> 12);
}

/** The last steps of MurmurHash3 for 32 bits. */
function mixed(index: number): number {
  let bits = Math.imul(index + 1, 0x9e3779b1);
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}
