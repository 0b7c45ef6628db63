import type { AskedParameters, ToldQuery } from '../decision.ts';
import { foldName, QueryNames } from './query-readings.ts';

/** What the rules of a port look at in queries. */
export class ParameterNames implements AskedParameters {
  /** In bytes. */
  readonly names: readonly string[];
  readonly #readings: QueryNames;

  constructor(names: Iterable<string>) {
    this.names = [...new Set(names)].sort();
    this.#readings = new QueryNames(this.names);
  }

  /**
   * Parts stay as they are, since more grammars than one read them, and one that is looked at in any of them stays whole. Of a query
   * that no rule could examine nothing is told.
   */
  told(query: string): ToldQuery {
    // It is refused for its fragment before anything else of it is looked at.
    if (query.includes('#')) return query === '#' ? { kind: 'whole', query } : { kind: 'parts', query: '#', names: [] };
    if (query === '') return { kind: 'whole', query };
    if (this.names.length === 0 || typeof this.#readings.read(query) === 'string') {
      return { kind: 'parts', query: '', names: [] };
    }
    const parts = query.split('&').filter((part) => part !== '');
    const told = parts.filter((part) => this.#readings.looksAt(part));
    if (told.length === parts.length) return { kind: 'whole', query };
    return { kind: 'parts', query: told.join('&'), names: this.names };
  }

  beyond(told: readonly string[]): string | null {
    if (this.names.length === 0) return null;
    const known = new Set(told.map(foldName));
    return this.names.find((name) => !known.has(foldName(name))) ?? null;
  }
}
