import type { CompiledRule, RouteMatch, RouteTable } from './policy-index.ts';
import type { Question, TableTraits } from './question.ts';

/**
 * Two tables of one Server: the second is asked where the first has nothing. `traits` are those of both, so that a request
 * is read for them alike.
 */
export class RoutesBefore implements RouteTable {
  readonly rules: readonly CompiledRule[];
  readonly traits: TableTraits;
  readonly namesHosts: boolean;
  readonly #first: RouteTable;
  readonly #second: RouteTable;

  constructor(first: RouteTable, second: RouteTable, traits: TableTraits) {
    this.#first = first;
    this.#second = second;
    this.traits = traits;
    this.namesHosts = first.namesHosts || second.namesHosts;
    this.rules = [...first.rules, ...second.rules];
  }

  find(question: Question): RouteMatch | null {
    return this.#first.find(question) ?? this.#second.find(question);
  }
}
