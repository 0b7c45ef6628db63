import { hostName } from '../policy/decide/host-groups.ts';
import type { CompiledRule, RouteTable } from '../policy/decide/policy-index.ts';
import type { Effort } from './automaton.ts';
import { chainsOf, type Link, type RuleChain } from './chains.ts';
import { GatheredTests, type Witness } from './conditions.ts';
import { hostClasses, pathSpace } from './leaves.ts';
import type { PathClass, PathSpace } from './paths.ts';
import type { Test } from './tests.ts';
import { sentHolds, valueHolds } from './values.ts';

/*
 * Which rules of a table of routes some request finds. For each match of a rule a request is sought that it takes and no match
 * before it does.
 */

/** What is known of a rule. */
export type Finding =
  | { readonly kind: 'found' }
  /** No request finds it. */
  | {
      readonly kind: 'never';
      /** The rules that take what it matches; none where it matches nothing by itself. */
      readonly takers: readonly CompiledRule[];
    }
  /** It was too much work. */
  | { readonly kind: 'unexamined' };

/** Shared by several tables, so that they take no more together. */
export interface SearchBudget {
  /** Matches that may yet be held against a request. */
  left: number;
  readonly effort: Effort;
}

/** So many requests are made up for one match in one class of paths. */
const mostTries = 200;

/** The findings on those of the table's rules that `asked` names. */
export function foundRules(
  table: RouteTable,
  asked: (rule: CompiledRule) => boolean,
  work: SearchBudget,
): ReadonlyMap<CompiledRule, Finding> {
  const search = new RuleSearch(table.rules.filter(asked), work);
  // Of routes that were refused nobody knows what they would have taken.
  if (table.outline().kind !== 'refused') for (const chain of chainsOf(table)) search.chain(chain);
  else search.giveUp();
  return search.findings();
}

class RuleSearch {
  readonly #open: Map<CompiledRule, { readonly takers: Set<CompiledRule>; unsure: boolean }>;
  readonly #rules: readonly CompiledRule[];
  readonly #work: SearchBudget;

  constructor(rules: readonly CompiledRule[], work: SearchBudget) {
    this.#rules = rules;
    this.#open = new Map(rules.map((rule) => [rule, { takers: new Set(), unsure: false }]));
    this.#work = work;
  }

  findings(): ReadonlyMap<CompiledRule, Finding> {
    return new Map(this.#rules.map((rule) => [rule, this.#finding(rule)]));
  }

  #finding(rule: CompiledRule): Finding {
    const open = this.#open.get(rule);
    if (open === undefined) return { kind: 'found' };
    if (open.unsure) return { kind: 'unexamined' };
    return { kind: 'never', takers: [...open.takers].filter((taker) => taker !== rule) };
  }

  giveUp(): void {
    for (const open of this.#open.values()) open.unsure = true;
  }

  chain(chain: RuleChain): void {
    if (this.#open.size === 0) return;
    for (const { sample } of hostClasses(new Set(chain.hosts), {})) {
      const own = chain.of(hostName(sample));
      const paths = pathSpace([own], {});
      for (const cls of paths.classes) {
        if (this.#open.size === 0) return;
        if (this.#work.left <= 0) {
          this.giveUp();
          return;
        }
        this.#links(own.links(cls, paths), cls, paths);
      }
    }
  }

  #links(links: readonly Link[], cls: PathClass, paths: PathSpace): void {
    this.#work.left -= 1 + links.length;
    for (const [place, { rule, tests }] of links.entries()) {
      const open = this.#open.get(rule);
      if (open === undefined) continue;
      if (this.#work.left <= 0) {
        this.giveUp();
        return;
      }
      const attempt = new Attempt(links.slice(0, place), cls, paths, this.#work);
      if (attempt.finds(tests)) this.#open.delete(rule);
      else {
        for (const taker of attempt.takers) open.takers.add(taker);
        if (attempt.unsure) open.unsure = true;
      }
    }
  }
}

/** Looks for a request that one match takes and none of those before. */
class Attempt {
  readonly takers = new Set<CompiledRule>();
  unsure = false;
  readonly #before: readonly Link[];
  readonly #gathering: GatheredTests;
  readonly #work: SearchBudget;
  #tries = 0;

  constructor(before: readonly Link[], cls: PathClass, paths: PathSpace, work: SearchBudget) {
    this.#before = before;
    this.#work = work;
    this.#gathering = new GatheredTests(cls, paths, {}, work.effort, () => {
      this.unsure = true;
    });
  }

  finds(tests: readonly Test[]): boolean {
    for (const test of tests) {
      const status = this.#gathering.status(test);
      if (status === false || (status === undefined && !this.#gathering.push(test, true))) return false;
    }
    return this.#escapes();
  }

  /** Whether some request with what is gathered is left to the match. */
  #escapes(): boolean {
    const witness = this.#witness();
    if (witness === null) return false;
    const at = this.#before.findIndex(({ tests }) => tests.every((test) => this.#holds(test, witness)));
    this.#work.left -= at === -1 ? this.#before.length : at;
    if (at === -1) return true;
    const { rule, tests } = this.#before[at] as Link;
    const free = tests.filter((test) => this.#gathering.status(test) === undefined);
    if (free.length === 0) this.takers.add(rule);
    for (const test of free) {
      if (!this.#gathering.push(test, false)) {
        this.takers.add(rule);
        continue;
      }
      // What is made up next may be taken by one that did not take this.
      if (this.#escapes()) return true;
      this.#gathering.pop(false);
    }
    return false;
  }

  #witness(): Witness | null {
    this.#tries += 1;
    if (this.#tries > mostTries || this.#work.left <= 0) {
      this.unsure = true;
      return null;
    }
    return this.#gathering.witness();
  }

  /** Whether a test holds for a request; what is not known of it counts as if it did not, so that no rule is given up. */
  #holds(test: Test, { method, path, headers, query, bare, grpc }: Witness): boolean {
    switch (test.kind) {
      case 'method':
        return test.method === method;
      case 'path':
        return valueHolds({ type: 'regex', value: test.pattern }, path);
      case 'header':
        return headers.some(([name, value]) => name === test.match.name && sentHolds('header', test.match, value));
      case 'query':
        return query.some(([name, value]) => name === test.match.name && valueHolds(test.match, value));
      case 'identity': {
        const status = this.#gathering.status(test);
        if (status !== undefined) return status;
        const named = this.#gathering.holding.find((held) => held.kind === 'identity' && held.match.type === 'exact');
        return named?.kind === 'identity' && valueHolds(test.match, named.match.value);
      }
      case 'bare':
        return bare;
      case 'grpc':
        return grpc;
      case 'alias':
        return false;
    }
  }
}
