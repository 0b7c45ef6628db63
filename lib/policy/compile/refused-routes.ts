import {
  type CompiledRule,
  type RouteMatch,
  type RouteTable,
  sealedRule,
  type TableOutline,
} from '../decide/policy-index.ts';
import type { Question, TableTraits } from '../decide/question.ts';

export interface RefusedRoutesOptions {
  /** Those that count, or the default routes. */
  readonly good: RouteTable;
  /** Those, and refused ones in the places that they would have had. */
  readonly withRefused: RouteTable;
  /** Refused ones that come before all; null for none. */
  readonly first: RouteTable | null;
  /** Of all of them, so that a request is read for them alike. */
  readonly traits: TableTraits;
}

/** The routes of a Server some of which were refused: what is found by none that counts stays not found. */
export class RefusedRoutes implements RouteTable {
  readonly rules: readonly CompiledRule[];
  readonly traits: TableTraits;
  /** Whether one is refused depends on three tables. */
  readonly anyCase: ReadonlySet<RouteMatch> = new Set();
  readonly namesHosts: boolean;
  readonly #good: RouteTable;
  readonly #withRefused: RouteTable;
  readonly #first: RouteTable | null;
  readonly #refused = new WeakMap<RouteMatch, RouteMatch>();

  constructor({ good, withRefused, first, traits }: RefusedRoutesOptions) {
    this.#good = good;
    this.#withRefused = withRefused;
    this.#first = first;
    this.traits = traits;
    this.namesHosts = withRefused.namesHosts || first?.namesHosts === true;
    this.rules = [...(first?.rules ?? []), ...withRefused.rules];
  }

  find(question: Question): RouteMatch | null {
    const found = this.#good.find(question);
    if (found === null) return null;
    const before = this.#first?.find(question) ?? this.#withRefused.find(question);
    return before?.rule.sealed === true ? this.#refusing(found) : found;
  }

  outline(): TableOutline {
    return {
      kind: 'refused',
      good: this.#good.outline(),
      withRefused: this.#withRefused.outline(),
      first: this.#first?.outline() ?? null,
    };
  }

  /** What would have been found without the refused routes, refusing; so it is counted where it would have been. */
  #refusing(found: RouteMatch): RouteMatch {
    let refusing = this.#refused.get(found);
    if (refusing === undefined) {
      refusing = { ...found, rule: sealedRule(found.rule) };
      this.#refused.set(found, refusing);
    }
    return refusing;
  }
}
